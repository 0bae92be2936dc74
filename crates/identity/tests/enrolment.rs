//! Edges that join and renew, as their cloud sees them.

mod common;

use base64ct::{Base64UrlUnpadded, Encoding};
use common::{Edge, name};
use identity::{
    CertificateIdentity, ClientKind, Credential, EdgeKey, Enrolled, EnrolmentOptions, HeldCredential, Invitation,
    JoinToken, NewClient, Presented, Refusal,
};
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

const NOW: i64 = 1_800_000_000;
const DAY_S: i64 = 86_400;
const OPTIONS: EnrolmentOptions = EnrolmentOptions {
    certificate_valid_s: 30 * 86_400,
    renewal_grace_s: 90 * 86_400,
    are_nodes: false,
};

/// A member of the cloud with its key.
struct Member {
    key: EdgeKey,
    enrolled: Enrolled,
}

impl Member {
    fn join(cloud: &Edge, token: &JoinToken, now_unix_s: i64) -> Result<Self, Refusal> {
        let key = EdgeKey::generate().unwrap();
        let request = key.request_pem().unwrap();
        let enrolled = cloud.identity.join(token, &request, OPTIONS, now_unix_s)?;
        Ok(Self { key, enrolled })
    }

    fn renew(&self, cloud: &Edge, now_unix_s: i64) -> Result<Self, Refusal> {
        let key = EdgeKey::generate().unwrap();
        let request = key.request_pem().unwrap();
        let signature = self.key.sign_renewal(&request).unwrap();
        let old = &self.enrolled.certificate_pem;
        let enrolled = cloud.identity.renew(old, &request, &signature, OPTIONS, now_unix_s)?;
        Ok(Self { key, enrolled })
    }

    /// Whether a door lets it in.
    fn is_let_in(&self, cloud: &Edge, now_unix_s: i64) -> bool {
        let der = CertificateDer::from_pem_slice(self.enrolled.certificate_pem.as_bytes()).unwrap();
        let shown = CertificateIdentity::from_der(&der).unwrap();
        let presented = Presented {
            certificate: Some(&shown),
            ..Default::default()
        };
        cloud.identity.authenticate(&presented, now_unix_s).is_ok()
    }
}

fn invited(cloud: &Edge) -> Invitation {
    cloud.identity.invite(&name("hall-1"), 3_600, NOW).unwrap()
}

fn member(cloud: &Edge) -> Member {
    Member::join(cloud, &invited(cloud).token, NOW).unwrap()
}

#[test]
fn an_invited_edge_is_let_in_for_the_life_of_its_certificate() {
    let cloud = Edge::new();
    let member = member(&cloud);
    assert_eq!(member.enrolled.name, name("hall-1"));
    assert!(member.is_let_in(&cloud, NOW) && member.is_let_in(&cloud, NOW + 30 * DAY_S));
    assert!(!member.is_let_in(&cloud, NOW + 30 * DAY_S + 1));
}

#[test]
fn a_token_is_good_for_one_key_until_it_expires() {
    let cloud = Edge::new();
    let token = invited(&cloud).token;
    let key = EdgeKey::generate().unwrap();
    let request = key.request_pem().unwrap();
    let again = |now| cloud.identity.join(&token, &request, OPTIONS, now);
    let first = again(NOW).unwrap();
    // Whoever did not get the answer asks again; the certificate that nobody got is worthless.
    let second = again(NOW + 3_600).unwrap();
    let of = |enrolled| Member {
        key: EdgeKey::generate().unwrap(),
        enrolled,
    };
    assert!(!of(first).is_let_in(&cloud, NOW) && of(second).is_let_in(&cloud, NOW));
    assert!(matches!(
        Member::join(&cloud, &token, NOW),
        Err(Refusal::InvitationUsed)
    ));
    assert!(matches!(again(NOW + 3_601), Err(Refusal::InvitationExpired(at)) if at == NOW + 3_600));
}

#[test]
fn the_number_of_an_invitation_without_its_secret_is_worth_nothing() {
    let (cloud, other) = (Edge::new(), Edge::new());
    let (ours, theirs) = (invited(&cloud).token, invited(&other).token);
    assert!(matches!(Member::join(&cloud, &theirs, NOW), Err(Refusal::NoInvitation)));
    let bytes = |token: &JoinToken| Base64UrlUnpadded::decode_vec(token.encode().expose()).unwrap();
    let (mut forged, theirs) = (bytes(&ours), bytes(&theirs));
    // A secret of somebody else, and the check that fits.
    let (secret, check) = (41..57, 57..61);
    forged[secret.clone()].copy_from_slice(&theirs[secret]);
    let digest = digest(&SHA256, &forged[..check.start]);
    forged[check].copy_from_slice(&digest.as_ref()[..4]);
    let forged = JoinToken::parse(&Base64UrlUnpadded::encode_string(&forged)).unwrap();
    assert_eq!((forged.number(), forged.authority()), (ours.number(), ours.authority()));
    assert!(matches!(Member::join(&cloud, &forged, NOW), Err(Refusal::NoInvitation)));
    assert!(Member::join(&cloud, &ours, NOW).is_ok());
}

#[test]
fn a_device_is_not_invited_and_an_edge_that_has_a_password_keeps_it() {
    let cloud = Edge::new();
    let add = |id: &str, kind| {
        let new = NewClient {
            name: name(id),
            kind,
            labels: Default::default(),
            credential: Credential::GeneratedPassword,
            edge: None,
        };
        cloud.identity.add(&new, NOW).unwrap();
    };
    add("pump-7", ClientKind::Device);
    add("hall-1", ClientKind::Edge);
    let refused = cloud
        .identity
        .invite(&name("pump-7"), 60, NOW)
        .err()
        .unwrap()
        .to_string();
    assert!(refused.contains("is a device"), "{refused}");
    assert!(!invited(&cloud).is_new);
    let member = member(&cloud);
    assert!(member.is_let_in(&cloud, NOW));
    assert!(
        cloud
            .identity
            .registry()
            .client(&name("hall-1"))
            .unwrap()
            .unwrap()
            .has_password
    );
}

#[test]
fn joining_again_revokes_the_certificate_of_the_first_time_and_none_that_was_given_by_hand() {
    let cloud = Edge::new();
    let first = member(&cloud);
    let by_hand = Credential::Certificate { valid_s: 86_400 };
    cloud.identity.issue(&name("hall-1"), &by_hand, NOW).unwrap();
    let second = member(&cloud);
    assert!(!first.is_let_in(&cloud, NOW) && second.is_let_in(&cloud, NOW));
    assert!(matches!(first.renew(&cloud, NOW), Err(Refusal::CertificateRevoked(_))));
    assert_eq!(
        cloud.identity.registry().certificates(&name("hall-1")).unwrap().len(),
        2
    );
}

#[test]
fn a_certificate_is_renewed_before_its_end_and_for_the_time_of_grace_after_it() {
    let cloud = Edge::new();
    let first = member(&cloud);
    for day in [0, 20, 30, 31, 120] {
        let now = NOW + day * DAY_S;
        let next = first.renew(&cloud, now).unwrap();
        assert!(next.is_let_in(&cloud, now), "day {day}");
    }
    let late = first.renew(&cloud, NOW + 120 * DAY_S + 1);
    assert!(matches!(late, Err(Refusal::RenewalTooLate(at)) if at == NOW + 30 * DAY_S));
}

#[test]
fn of_the_certificates_that_were_renewed_the_last_and_the_one_in_use_are_good() {
    let cloud = Edge::new();
    let first = member(&cloud);
    let mut member = first.renew(&cloud, NOW).unwrap();
    for round in 1..50 {
        member = member.renew(&cloud, NOW + round * 3_600).unwrap();
        let held = cloud.identity.registry().certificates(&name("hall-1")).unwrap();
        assert!(held.len() <= 5, "{}", held.len());
    }
    assert!(member.is_let_in(&cloud, NOW) && !first.is_let_in(&cloud, NOW));
    assert!(matches!(
        first.renew(&cloud, NOW),
        Err(Refusal::CertificateNotIssued(_))
    ));
}

#[test]
fn what_was_revoked_disabled_or_removed_is_never_renewed() {
    let cloud = Edge::new();
    let (registry, edge) = (cloud.identity.registry(), name("hall-1"));
    let first = member(&cloud);
    registry.set_disabled(&edge, true).unwrap();
    assert!(matches!(first.renew(&cloud, NOW), Err(Refusal::Disabled)));
    registry.set_disabled(&edge, false).unwrap();
    let serial = HeldCredential::Certificate(first.enrolled.serial.clone());
    registry.revoke(&edge, &serial).unwrap();
    for now in [NOW, NOW + 60 * DAY_S] {
        assert!(matches!(first.renew(&cloud, now), Err(Refusal::CertificateRevoked(_))));
    }
    let second = member(&cloud);
    registry.remove(&edge).unwrap();
    assert!(matches!(second.renew(&cloud, NOW), Err(Refusal::UnknownClient)));
}

#[test]
fn a_renewal_takes_the_key_of_the_old_certificate_and_is_for_one_request() {
    let (cloud, other) = (Edge::new(), Edge::new());
    let (ours, theirs) = (member(&cloud), member(&other));
    let request = EdgeKey::generate().unwrap().request_pem().unwrap();
    let another = EdgeKey::generate().unwrap().request_pem().unwrap();
    let renew = |certificate: &str, request: &str, signature: &[u8]| {
        cloud
            .identity
            .renew(certificate, request, signature, OPTIONS, NOW)
            .err()
            .map(|why| why.to_string())
    };
    let signature = ours.key.sign_renewal(&request).unwrap();
    let certificate = &ours.enrolled.certificate_pem;
    let thief = theirs.key.sign_renewal(&request).unwrap();
    let no_key = Some("certificate: whoever shows it does not have its key".to_owned());
    assert_eq!(renew(certificate, &request, &thief), no_key);
    assert_eq!(renew(certificate, &another, &signature), no_key);
    assert_eq!(renew(certificate, &request, b""), no_key);
    assert_eq!(
        renew(&theirs.enrolled.certificate_pem, &request, &thief),
        Some("certificate: it is of another authority".to_owned())
    );
    assert_eq!(
        renew("", &request, &signature),
        Some("certificate: it cannot be read".to_owned())
    );
    assert_eq!(renew(certificate, &request, &signature), None);
}
