//! PostgreSQL behind TLS.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cloud::{Database, Error, Queries};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::cluster::Cluster;
use crate::common::{ingest, numbered, sequences};

/// A certificate authority, and the file of its certificate.
fn authority(file: &Path) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(file, issuer.pem()).unwrap();
    issuer
}

/// A cluster that takes nothing but TLS on `localhost`; its port.
fn start(ours: &Path) -> Option<(Cluster, u16)> {
    let cluster = Cluster::start_new()?;
    cluster.order("stop");
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority(ours)).unwrap();
    for (name, text) in [
        ("server.crt", certificate.pem()),
        ("server.key", key.serialize_pem()),
        (
            "pg_hba.conf",
            "local all all trust\nhostssl all all all trust\n".to_owned(),
        ),
    ] {
        let path = cluster.data().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&path, Some(cluster.owner()), None).unwrap();
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    cluster.order(&format!(
        "start -c fsync=off -c ssl=on -c listen_addresses=localhost -c port={port}"
    ));
    Some((cluster, port))
}

#[test]
fn a_server_is_spoken_to_in_tls_if_its_authority_vouches_for_its_name_and_else_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let [ours, theirs] = ["our authority.pem", "theirs.pem"].map(|name| directory.path().join(name));
    authority(&theirs);
    let Some((_cluster, port)) = start(&ours) else { return };
    let url = |host: &str, file: &Path| {
        let file = file.display().to_string().replace(' ', "%20");
        format!("postgres://postgres@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={file}")
    };
    let good = url("localhost", &ours);
    ingest(&mut Database::open(&good).unwrap(), &[numbered(1)]);
    assert_eq!(sequences(&mut Queries::open(&good).unwrap(), "x"), [1]);

    let plain = format!("postgres://postgres@localhost:{port}/postgres");
    for bad in [url("localhost", &theirs), url("127.0.0.1", &ours), plain] {
        let refusal = Database::open(&bad).err().unwrap();
        assert!(matches!(refusal, Error::Unusable { .. }), "{bad}: {refusal}");
    }
}

#[test]
fn tls_that_would_promise_less_than_it_seems_is_refused() {
    for parameters in [
        "sslmode=require",
        "sslmode=prefer",
        "sslmode=verify-full",
        "sslrootcert=/dev/null",
        "sslmode=verify-full&sslrootcert=/dev/null",
        "sslmode=verify-full&sslrootcert=/no/such/file",
    ] {
        let refusal = Database::open(&format!("postgres://user:secret@h/d?{parameters}"))
            .err()
            .unwrap();
        assert!(matches!(refusal, Error::Location { .. }), "{parameters}: {refusal}");
        assert!(
            refusal.to_string().contains("ssl") && !refusal.to_string().contains("secret"),
            "{refusal}"
        );
    }
}
