//! TLS handshakes in memory.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Edge, certificate};
use identity::{
    Authority, CertificateIdentity, ClientKind, Credential, NewClient, ServerCertificate, Tls, TlsError, server_config,
};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{
    ClientConfig, ClientConnection, Error, HandshakeKind, RootCertStore, ServerConnection, SupportedProtocolVersion,
};

const DAY_S: i64 = 86_400;

/// What rustls takes for the time.
fn now() -> i64 {
    DefaultTimeProvider.current_time().unwrap().as_secs().cast_signed()
}

fn names() -> Vec<String> {
    vec!["edge.local".into(), "127.0.0.1".into()]
}

fn served(edge: &Edge) -> Tls {
    let names = names();
    server_config(&edge.identity, ServerCertificate::Issued { names: &names }, None, now()).unwrap()
}

/// Certificate and key of a new device, in PEM.
fn device(edge: &Edge, id: &str, valid_s: u32, now_unix_s: i64) -> (String, String) {
    let credential = Credential::Certificate { valid_s };
    let new = NewClient {
        name: common::name(id),
        kind: ClientKind::Device,
        labels: Default::default(),
        credential,
        edge: None,
    };
    certificate(edge.identity.add(&new, now_unix_s).unwrap())
}

fn client(
    trusted_pem: &str,
    own: Option<&(String, String)>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(trusted_pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                .unwrap()
        }
    };
    config.resumption = Resumption::in_memory_sessions(8);
    Arc::new(config)
}

fn trusting(edge: &Edge, own: Option<&(String, String)>) -> Arc<ClientConfig> {
    client(edge.identity.authority().certificate_pem(), own, rustls::ALL_VERSIONS)
}

/// Both ends once the handshake is over, or the first error of either.
fn handshake(
    server: &Tls,
    client: &Arc<ClientConfig>,
    name: &str,
) -> Result<(ClientConnection, ServerConnection), Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(client.clone(), name).unwrap();
    let mut server = ServerConnection::new(server.config.clone()).unwrap();
    for _ in 0..16 {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &*bytes).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut &*bytes).unwrap();
        client.process_new_packets()?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok((client, server))
}

fn identity_seen(server: &ServerConnection) -> Option<CertificateIdentity> {
    server
        .peer_certificates()
        .map(|chain| CertificateIdentity::from_der(&chain[0]).unwrap())
}

#[test]
fn a_client_that_trusts_the_authority_is_served_by_name_and_by_address() {
    let edge = Edge::new();
    let (tls, client) = (served(&edge), trusting(&edge, None));
    for name in ["edge.local", "127.0.0.1"] {
        let (_, server) = handshake(&tls, &client, name).unwrap();
        assert_eq!(identity_seen(&server), None);
    }
    assert!(matches!(
        handshake(&tls, &client, "other.local"),
        Err(Error::InvalidCertificate(_))
    ));
    assert!((tls.not_after_unix_s - now() - 397 * DAY_S).abs() < 60);
}

#[test]
fn tls_1_2_and_1_3_are_both_spoken() {
    let edge = Edge::new();
    let tls = served(&edge);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = client(edge.identity.authority().certificate_pem(), None, &[version]);
        let (client, _) = handshake(&tls, &client, "edge.local").unwrap();
        assert_eq!(client.protocol_version(), Some(version.version));
    }
}

#[test]
fn a_client_that_trusts_another_authority_goes_away() {
    let (edge, other) = (Edge::new(), Edge::new());
    assert!(handshake(&served(&edge), &trusting(&other, None), "edge.local").is_err());
}

#[test]
fn a_device_is_known_by_its_certificate() {
    let edge = Edge::new();
    let own = device(&edge, "pump", 3_600, now());
    let (_, server) = handshake(&served(&edge), &trusting(&edge, Some(&own)), "edge.local").unwrap();
    let seen = identity_seen(&server).unwrap();
    assert_eq!(seen.name, common::name("pump"));
    let presented = identity::Presented {
        certificate: Some(&seen),
        ..Default::default()
    };
    assert_eq!(
        &*edge.identity.authenticate(&presented, now()).unwrap().principal.id,
        "pump"
    );
}

#[test]
fn certificates_that_are_expired_early_or_of_another_authority_fail_the_handshake() {
    let (edge, other) = (Edge::new(), Edge::new());
    let tls = served(&edge);
    let expired = device(&edge, "expired", 3_600, now() - 30 * DAY_S);
    let early = device(&edge, "early", 3_600, now() + 30 * DAY_S);
    let foreign = device(&other, "foreign", 3_600, now());
    for own in [expired, early, foreign] {
        let refused = handshake(&tls, &trusting(&edge, Some(&own)), "edge.local");
        assert!(
            matches!(refused, Err(Error::InvalidCertificate(_))),
            "{:?}",
            refused.err()
        );
    }
}

#[test]
fn a_certificate_of_the_edges_own_server_is_no_clients() {
    let edge = Edge::new();
    let tls = served(&edge);
    let mut params = rcgen::CertificateParams::new(names()).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let ca_key = std::fs::read_to_string(edge.directory.path().join("ca.key")).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_pem(
        edge.identity.authority().certificate_pem(),
        rcgen::KeyPair::from_pem(&ca_key).unwrap(),
    )
    .unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let own = (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem());
    assert!(handshake(&tls, &trusting(&edge, Some(&own)), "edge.local").is_err());
}

#[test]
fn sessions_are_resumed_with_the_certificate_until_the_configuration_is_rebuilt() {
    let edge = Edge::new();
    let own = device(&edge, "pump", 3_600, now());
    let (tls, client) = (served(&edge), trusting(&edge, Some(&own)));
    let (_, first) = handshake(&tls, &client, "edge.local").unwrap();
    assert_eq!(first.handshake_kind(), Some(HandshakeKind::Full));
    let (_, resumed) = handshake(&tls, &client, "edge.local").unwrap();
    assert_eq!(resumed.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!(identity_seen(&resumed), identity_seen(&first));
    let (_, after) = handshake(&served(&edge), &client, "edge.local").unwrap();
    assert_eq!(after.handshake_kind(), Some(HandshakeKind::Full));
}

#[test]
fn a_connection_goes_on_while_its_configuration_is_replaced() {
    use std::io::{Read, Write};
    let edge = Edge::new();
    let tls = served(&edge);
    let (mut client, mut server) = handshake(&tls, &trusting(&edge, None), "edge.local").unwrap();
    drop(std::mem::replace(&mut { tls }, served(&edge)));
    client.writer().write_all(b"still here").unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    server.read_tls(&mut &*bytes).unwrap();
    server.process_new_packets().unwrap();
    let mut text = [0; 10];
    server.reader().read_exact(&mut text).unwrap();
    assert_eq!(&text, b"still here");
}

/// Files of an operator's own authority: its certificate, and a server's certificate and key.
fn operators_files(directory: &Path) -> (Authority, [std::path::PathBuf; 3]) {
    let authority = Authority::open(directory, now()).unwrap();
    let paths = ["ca.pem", "server.pem", "server.key"].map(|name| directory.join(name));
    let issuer = rcgen::Issuer::from_ca_cert_pem(
        authority.certificate_pem(),
        rcgen::KeyPair::from_pem(&std::fs::read_to_string(directory.join("ca.key")).unwrap()).unwrap(),
    )
    .unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(names())
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    std::fs::write(&paths[1], certificate.pem()).unwrap();
    std::fs::write(&paths[2], key.serialize_pem()).unwrap();
    (authority, paths)
}

#[test]
fn an_operators_own_files_are_served_and_its_clients_accepted() {
    let (edge, operator) = (Edge::new(), Edge::new());
    let (authority, [ca, certificate, key]) = operators_files(operator.directory.path());
    let files = ServerCertificate::Files {
        certificate: &certificate,
        key: &key,
    };
    let tls = server_config(&edge.identity, files, Some(&ca), now()).unwrap();
    for issuing in [&operator, &edge] {
        let own = device(issuing, "pump", 3_600, now());
        let client = client(authority.certificate_pem(), Some(&own), rustls::ALL_VERSIONS);
        let (_, server) = handshake(&tls, &client, "edge.local").unwrap();
        assert_eq!(identity_seen(&server).unwrap().name, common::name("pump"));
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (edge, operator) = (Edge::new(), Edge::new());
    let (_, [_, certificate, key]) = operators_files(operator.directory.path());
    let missing = operator.directory.path().join("missing.pem");
    let other_key = operator.directory.path().join("ca.key");
    let message = |certificate, key, client_ca| {
        let files = ServerCertificate::Files { certificate, key };
        server_config(&edge.identity, files, client_ca, now()).unwrap_err()
    };
    let error = message(&missing, &key, None);
    assert!(
        matches!(&error, TlsError::File { path, .. } if *path == missing),
        "{error}"
    );
    let error = message(&key, &key, None).to_string();
    assert!(error.contains("server.key: a certificate expected in PEM"), "{error}");
    let error = message(&certificate, &certificate, None).to_string();
    assert!(error.contains("server.pem: a private key expected in PEM"), "{error}");
    let error = message(&certificate, &other_key, None).to_string();
    assert!(
        error.contains("server.pem and") && error.contains("ca.key cannot be used together"),
        "{error}"
    );
    let error = message(&certificate, &key, Some(&key)).to_string();
    assert!(error.contains("server.key: a certificate expected"), "{error}");
}
