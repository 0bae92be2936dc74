//! Nodes that run, over loopback: they find each other, keep strangers out, and open streams to each other.

mod bans;
mod founder;
mod relay;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use identity::{Credential, Issued, NewClient, NodeKeys};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use site::Known;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use self::founder::{Founder, PATIENCE, ask, name, now_unix_s, start};

#[tokio::test]
async fn nodes_find_each_other_by_one_of_them_and_have_what_each_says() {
    let founder = Founder::new();
    let one = start(founder.keys("hall-1"), &[]).await;
    let two = start(founder.joined("hall-2"), &[one.address]).await;
    let three = start(founder.joined("hall-3"), &[one.address]).await;
    one.is_connected_with(&["hall-2", "hall-3"]).await;
    two.is_connected_with(&["hall-1", "hall-3"]).await;
    three.is_connected_with(&["hall-1", "hall-2"]).await;
    three.site.say(b"two pumps".to_vec()).await;
    for node in [&one, &two] {
        let says = |known: &[Known]| {
            known
                .iter()
                .any(|known| known.node == "hall-3" && known.said == b"two pumps")
        };
        node.knows("told", says).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_carries_what_both_say_whoever_has_dialled() {
    let founder = Founder::new();
    let mut one = start(founder.keys("hall-1"), &[]).await;
    let mut two = start(founder.joined("hall-2"), &[one.address]).await;
    one.is_connected_with(&["hall-2"]).await;
    two.is_connected_with(&["hall-1"]).await;
    // More than the windows of a stream.
    let much: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_be_bytes).collect();
    for bytes in [&b"a few"[..], &much] {
        let (back, ()) = tokio::join!(ask(&one.site, "hall-2", bytes), two.echo_one("hall-1"));
        assert!(back == bytes, "{} of {} bytes", back.len(), bytes.len());
        let (back, ()) = tokio::join!(ask(&two.site, "hall-1", bytes), one.echo_one("hall-2"));
        assert!(back == bytes, "{} of {} bytes", back.len(), bytes.len());
    }
    let nobody = one.site.open("hall-9").await.err().map(|error| error.kind());
    assert_eq!(nobody, Some(std::io::ErrorKind::NotConnected));
}

#[tokio::test]
async fn a_node_that_is_gone_is_silent_within_seconds_and_found_again_when_it_is_back() {
    let founder = Founder::new();
    let one = start(founder.keys("hall-1"), &[]).await;
    let keys = || founder.joined("hall-2");
    let two = start(keys(), &[one.address]).await;
    one.is_connected_with(&["hall-2"]).await;
    drop(two);
    one.knows("silent", |known| {
        known.len() == 1 && !known[0].is_alive && !known[0].is_connected
    })
    .await;
    assert!(one.site.open("hall-2").await.is_err());
    let _two = start(keys(), &[one.address]).await;
    one.is_connected_with(&["hall-2"]).await;
}

#[tokio::test]
async fn strangers_and_devices_are_not_let_in() {
    let (founder, other) = (Founder::new(), Founder::new());
    let mut one = start(founder.keys("hall-1"), &[]).await;
    let two = start(founder.joined("hall-2"), &[one.address]).await;
    // Of another site, of the same name as a node of this one, and of another.
    let strangers = [
        start(other.keys("hall-2"), &[one.address]).await,
        start(other.joined("hall-3"), &[one.address]).await,
    ];
    // A device of the edge, whose certificate is of the same authority.
    let issued = device(&founder);
    assert!(said_to(one.address, Some(&issued), &founder).await.is_empty());
    // Nobody in particular, and one who speaks no TLS.
    assert!(said_to(one.address, None, &founder).await.is_empty());
    let mut plain = TcpStream::connect(one.address).await.unwrap();
    plain.write_all(&[0; 100]).await.unwrap();
    one.is_connected_with(&["hall-2"]).await;
    two.is_connected_with(&["hall-1"]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(one.site.known().borrow().len(), 1);
    for stranger in &strangers {
        assert!(stranger.site.known().borrow().is_empty());
    }
    assert!(one.requests.try_recv().is_err());
}

/// What a device of the edge proves itself by.
fn device(founder: &Founder) -> Issued {
    let device = NewClient {
        name: name("pump-1"),
        kind: identity::ClientKind::Device,
        labels: Default::default(),
        credential: Credential::Certificate { valid_s: 3_600 },
        edge: None,
    };
    founder.identity.add(&device, now_unix_s()).unwrap()
}

/// TLS of a client that believes the site's authority, and shows this certificate, or none.
fn client_of(issued: Option<&Issued>, founder: &Founder) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    let authority = founder.identity.authority().certificate_pem();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
    let config = match issued {
        Some(Issued::Certificate {
            certificate_pem,
            key_pem,
            ..
        }) => builder.with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(certificate_pem.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key_pem.expose().as_bytes()).unwrap(),
        ),
        _ => Ok(builder.with_no_client_auth()),
    };
    TlsConnector::from(Arc::new(config.unwrap()))
}

/// What a node says to a client of TLS with this certificate, or none, that sends it rubbish.
async fn said_to(address: SocketAddr, issued: Option<&Issued>, founder: &Founder) -> Vec<u8> {
    let tcp = TcpStream::connect(address).await.unwrap();
    let connected = client_of(issued, founder).connect(NodeKeys::server_name(), tcp).await;
    let mut said = Vec::new();
    if let Ok(mut tls) = connected {
        let _ = tls.write_all(&[1; 1_000]).await;
        let _ = timeout(PATIENCE, tls.read_to_end(&mut said)).await.unwrap();
    }
    said
}

#[tokio::test]
async fn nodes_know_how_far_it_is_to_each_other() {
    let founder = Founder::new();
    let one = start(founder.keys("one"), &[]).await;
    let two = start(founder.joined("two"), &[one.address]).await;
    one.is_connected_with(&["two"]).await;
    two.is_connected_with(&["one"]).await;
    for (node, other) in [(&one, "two"), (&two, "one")] {
        let known = async {
            loop {
                match node.site.near().get(other) {
                    Some(Some(distance)) => return *distance,
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let distance = timeout(PATIENCE, known).await.unwrap();
        assert!(distance < PATIENCE && !distance.is_zero(), "{distance:?}");
    }
}

#[tokio::test]
async fn nodes_whose_clocks_are_days_behind_that_of_the_first_are_connected() {
    let founder = Founder::new();
    // By the clocks of both their certificates begin in nine days.
    let later_unix_s = now_unix_s() + 10 * 86_400;
    let keys = |id: &str| NodeKeys::of_founder(&founder.identity, &name(id), later_unix_s).unwrap();
    let one = start(keys("hall-1"), &[]).await;
    let two = start(keys("hall-2"), &[one.address]).await;
    one.is_connected_with(&["hall-2"]).await;
    two.is_connected_with(&["hall-1"]).await;
}
