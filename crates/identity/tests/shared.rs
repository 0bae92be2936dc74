//! Devices that another registry has, too: what is taken of them, and what that must not touch.

mod common;

use std::collections::BTreeMap;

use base64ct::Encoding as _;
use common::{Edge, NOW, name};
use identity::{
    CertificateIdentity, Change, ClientKind, CloudTrust, Credential, DeviceRecord, HeldCredential, Issued, Labels,
    NewClient, Presented, Refusal, RegistryError, Shared, What,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

fn record(life: &str) -> DeviceRecord {
    DeviceRecord {
        life: life.to_owned(),
        disabled: false,
        labels: Labels::new(),
        password: None,
        token_epoch: None,
        trusts_subject: false,
        certificates: BTreeMap::new(),
    }
}

fn with_certificate(serial: &str) -> DeviceRecord {
    DeviceRecord {
        certificates: [(serial.to_owned(), NOW + 60)].into(),
        ..record("x")
    }
}

/// Makes a device of an edge what it should be; what changed.
fn make(cloud: &Edge, edge: &str, id: &str, record: Option<DeviceRecord>) -> Result<Vec<What>, RegistryError> {
    let after = Shared {
        record,
        document: Some(b"told".to_vec()),
    };
    let names = [name(id)];
    let registry = cloud.identity.registry();
    let mut made = registry
        .share(edge, &names, NOW, |_, _| (Some(after.clone()), ()))
        .unwrap();
    made.remove(0).map(|shared| shared.changes)
}

fn issued_to(cloud: &Edge, id: &str, kind: ClientKind, credential: Credential, edge: Option<&str>) -> Issued {
    let new = NewClient {
        name: name(id),
        kind,
        labels: Labels::new(),
        credential,
        edge: edge.map(str::to_owned),
    };
    cloud.identity.add(&new, NOW).unwrap()
}

fn certificate(issued: Issued) -> CertificateIdentity {
    let Issued::Certificate { certificate_pem, .. } = issued else {
        panic!("no certificate")
    };
    CertificateIdentity::from_der(&CertificateDer::from_pem_slice(certificate_pem.as_bytes()).unwrap()).unwrap()
}

fn token(issued: Issued) -> String {
    let Issued::Token(token) = issued else {
        panic!("no token")
    };
    token.expose().to_owned()
}

const VALID: Credential = Credential::Certificate { valid_s: 60 };

#[test]
fn an_edge_that_tells_somebody_elses_serial_number_and_takes_it_back_refuses_nobody() {
    let cloud = Edge::new();
    let shown = certificate(issued_to(&cloud, "meter", ClientKind::Device, VALID, None));
    let refused = make(&cloud, "hall-1", "pump", Some(with_certificate(&shown.serial)));
    assert!(matches!(refused, Err(RegistryError::Database(_))), "{refused:?}");
    let other = CertificateIdentity {
        serial: "5f".to_owned(),
        ..shown.clone()
    };
    cloud
        .identity
        .issue(&name("meter"), &Credential::TrustedSubject, NOW)
        .unwrap();
    make(&cloud, "hall-1", "pump", Some(with_certificate("5f"))).unwrap();
    make(&cloud, "hall-1", "pump", Some(record("x"))).unwrap();
    make(&cloud, "hall-1", "pump", Some(with_certificate("5f"))).unwrap();
    make(&cloud, "hall-1", "pump", None).unwrap();
    for certificate in [&shown, &other] {
        let presented = Presented {
            certificate: Some(certificate),
            ..Presented::default()
        };
        cloud.identity.authenticate(&presented, NOW).unwrap();
    }
}

#[test]
fn a_device_that_logs_in_elsewhere_stays_as_it_is_and_the_others_of_the_packet_are_taken() {
    let cloud = Edge::new();
    let secret = cloud.device("meter");
    make(&cloud, "hall-2", "valve", Some(record("theirs"))).unwrap();
    let names = [name("meter"), name("valve"), name("pump")];
    let after = Shared {
        record: Some(record("ours")),
        document: Some(b"told".to_vec()),
    };
    let registry = cloud.identity.registry();
    let made = registry
        .share("hall-1", &names, NOW, |_, seen| (Some(after.clone()), seen.clone()))
        .unwrap();
    assert!(
        made[..2]
            .iter()
            .all(|made| matches!(made, Err(RegistryError::ClientExists { .. })))
    );
    let pump = made[2].as_ref().unwrap();
    assert_eq!(
        (&pump.made, &pump.changes[..]),
        (&Shared::default(), &[What::Added][..])
    );
    assert!(cloud.login("meter", &secret).is_ok());
    assert_eq!(registry.shared_ids("hall-1", "default").unwrap(), ["pump"]);
    assert_eq!(
        registry.client(&name("valve")).unwrap().unwrap().edge.as_deref(),
        Some("hall-2")
    );
    make(&cloud, "hall-1", "meter", None).unwrap();
    assert!(cloud.login("meter", &secret).is_ok());
}

#[test]
fn a_device_of_an_edge_is_refused_here_with_the_name_of_its_edge() {
    let cloud = Edge::new();
    let Issued::Password(secret) = issued_to(
        &cloud,
        "pump",
        ClientKind::Device,
        Credential::GeneratedPassword,
        Some("hall-1"),
    ) else {
        panic!("no password")
    };
    let refused = cloud.login("pump", secret.expose());
    assert!(matches!(refused, Err(Refusal::AtEdge(edge)) if edge == "hall-1"));
}

#[test]
fn of_removed_devices_the_last_ten_thousand_are_remembered() {
    let cloud = Edge::new();
    let registry = cloud.identity.registry();
    let names: Vec<_> = (0..10_010).map(|number| name(&format!("pump-{number}"))).collect();
    let gone = Shared {
        record: None,
        document: Some(b"gone".to_vec()),
    };
    registry
        .share("hall-1", &names, NOW, |_, _| (Some(gone.clone()), ()))
        .unwrap();
    let known = registry
        .share("hall-1", &names, NOW, |_, seen| (None, seen.document.is_some()))
        .unwrap();
    let known: Vec<bool> = known.into_iter().map(|shared| shared.unwrap().made).collect();
    assert_eq!(known.iter().filter(|known| **known).count(), 10_000);
    assert!(!known[9] && known[10]);
}

#[test]
fn with_another_registry_at_the_other_end_nothing_is_shared_yet() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    make(&edge, "", "pump", Some(record("x"))).unwrap();
    let document = || {
        let seen = registry
            .share("", &[name("pump")], NOW, |_, seen| (None, seen.clone()))
            .unwrap();
        seen.into_iter().next().unwrap().unwrap().made.document
    };
    assert!(registry.meet("", "cloud-1").unwrap());
    assert_eq!(document(), None);
    make(&edge, "", "pump", Some(record("x"))).unwrap();
    assert!(!registry.meet("", "cloud-1").unwrap());
    assert!(document().is_some());
    assert!(registry.meet("", "cloud-2").unwrap());
    assert_eq!(document(), None);
    assert!(registry.client(&name("pump")).unwrap().is_some());
}

#[test]
fn what_the_cloud_signed_opens_the_edge_only_for_what_the_registry_has() {
    let (cloud, edge) = (Edge::new(), Edge::new());
    let shown = certificate(issued_to(&cloud, "pump", ClientKind::Device, VALID, Some("hall-1")));
    let bearer = token(issued_to(
        &cloud,
        "valve",
        ClientKind::Device,
        Credential::Token { valid_s: 60 },
        None,
    ));
    let of_minute = Credential::Token { valid_s: 60 };
    issued_to(&cloud, "dash", ClientKind::App, of_minute.clone(), None);
    let by_certificate = || {
        let presented = Presented {
            certificate: Some(&shown),
            ..Presented::default()
        };
        edge.identity.authenticate(&presented, NOW)
    };
    // Known by any certificate of an authority that the operator trusts, which the cloud's is not.
    issued_to(&edge, "pump", ClientKind::Device, Credential::TrustedSubject, None);
    let trust = || edge.identity.trust_cloud(cloud.identity.shown_trust(), NOW).unwrap();
    assert!(trust());
    assert!(!trust());
    assert!(matches!(by_certificate(), Err(Refusal::CertificateNotIssued(_))));
    let trusting = DeviceRecord {
        trusts_subject: true,
        ..with_certificate(&shown.serial)
    };
    make(&edge, "", "pump", Some(trusting)).unwrap();
    assert!(by_certificate().is_ok());

    let epoch_of = |token: &str| {
        let claims = token.split('.').nth(1).unwrap();
        let claims = base64ct::Base64UrlUnpadded::decode_vec(claims).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
        claims["epoch"].as_str().unwrap().to_owned()
    };
    let with_epoch = |token: &str| DeviceRecord {
        token_epoch: Some(epoch_of(token)),
        ..record("x")
    };
    assert!(matches!(edge.login("valve", &bearer), Err(Refusal::UnknownClient)));
    make(&edge, "", "valve", Some(with_epoch(&bearer))).unwrap();
    assert!(edge.login("valve", &bearer).is_ok());
    let registry = edge.identity.registry();
    let mut seen = registry.last_change();
    let mut ended = || {
        let changes = registry.changes_since(std::mem::replace(&mut seen, registry.last_change()));
        let by_token = |change: &Change| change.what == What::CredentialRevoked(Some(HeldCredential::Tokens));
        changes.unwrap().iter().filter(|change| by_token(change)).count()
    };
    cloud.identity.rotate_token_keys(false, NOW).unwrap();
    trust();
    assert!(edge.login("valve", &bearer).is_ok() && ended() == 0);
    cloud.identity.rotate_token_keys(true, NOW).unwrap();
    trust();
    assert!(matches!(edge.login("valve", &bearer), Err(Refusal::Token(_))));
    assert_eq!(ended(), 1);
    let again = |id| token(cloud.identity.issue(&name(id), &of_minute, NOW).unwrap());
    let [bearer, dash] = ["valve", "dash"].map(again);
    make(&edge, "", "valve", Some(record("x"))).unwrap();
    assert!(matches!(edge.login("valve", &bearer), Err(Refusal::TokenRevoked)));
    make(&edge, "", "dash", Some(with_epoch(&dash))).unwrap();
    assert!(matches!(edge.login("dash", &dash), Err(Refusal::TokenRevoked)));
}

#[test]
fn what_is_no_authority_is_not_believed() {
    let edge = Edge::new();
    let shown = edge.identity.shown_trust();
    let check = |wrong: CloudTrust| assert!(edge.identity.trust_cloud(wrong, NOW).is_err());
    check(CloudTrust::default());
    let Issued::Certificate { certificate_pem, .. } = issued_to(&edge, "pump", ClientKind::Device, VALID, None) else {
        panic!("no certificate")
    };
    check(CloudTrust {
        authority_pem: certificate_pem,
        ..shown.clone()
    });
    check(CloudTrust {
        token_keys: vec![shown.token_keys[0].clone(); 17],
        ..shown
    });
}
