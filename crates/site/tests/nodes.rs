//! Nodes that run, over loopback: they find each other, keep strangers out, and open streams to each other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use identity::{
    ClientName, Credential, EdgeKey, EnrolmentOptions, Identity, IdentityOptions, Membership, NewClient, NodeKeys,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use site::{Known, Options, RANDOM_BITS, Site, Stream};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// For what takes a second on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(60);

const OPTIONS: EnrolmentOptions = EnrolmentOptions {
    certificate_valid_s: 3_600,
    renewal_grace_s: 0,
    are_nodes: true,
};

fn now_unix_s() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "certificates carry dates of the wall clock")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
}

fn name(id: &str) -> ClientName {
    ClientName::new("default", id).unwrap()
}

/// The edge at which a site begins.
struct Founder {
    identity: Identity,
    _directory: TempDir,
}

impl Founder {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Founder {
            identity: Identity::open(directory.path(), IdentityOptions::default(), now_unix_s()).unwrap(),
            _directory: directory,
        }
    }

    fn keys(&self, id: &str) -> NodeKeys {
        NodeKeys::of_founder(&self.identity, &name(id), now_unix_s()).unwrap()
    }

    /// Those of a node that was invited and joins.
    fn joined(&self, id: &str) -> NodeKeys {
        let invitation = self.identity.invite(&name(id), 60, now_unix_s()).unwrap();
        let key = EdgeKey::generate().unwrap();
        let request_pem = key.request_pem().unwrap();
        let enrolled = self
            .identity
            .join(&invitation.token, &request_pem, OPTIONS, now_unix_s())
            .unwrap();
        NodeKeys::of_member(&Membership {
            edge: id.to_owned(),
            cloud_url: String::new(),
            link_url: String::new(),
            certificate_pem: enrolled.certificate_pem,
            key_pem: key.pem(),
            authority_pem: self.identity.authority().certificate_pem().to_owned(),
            trusts_system: false,
            given_at_unix_s: now_unix_s(),
            not_after_unix_s: now_unix_s() + 3_600,
            renew_at_unix_s: now_unix_s() + 3_600,
        })
        .unwrap()
    }
}

struct Node {
    site: Site,
    requests: mpsc::Receiver<(String, Stream)>,
    address: SocketAddr,
}

async fn start(keys: NodeKeys, seeds: &[SocketAddr]) -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (site, requests) = Site::start(Options {
        keys: Arc::new(keys),
        listeners: vec![listener],
        addresses: vec![address],
        seeds: seeds.iter().map(ToString::to_string).collect(),
        incarnation: (now_unix_s() as u64) << RANDOM_BITS | rand::random::<u64>() & 0xffff,
    })
    .unwrap();
    Node {
        site,
        requests,
        address,
    }
}

impl Node {
    /// Waits until what is known here is as it is to be.
    async fn knows(&self, what: &str, is_right: impl Fn(&[Known]) -> bool) {
        let mut known = self.site.known();
        let seen = timeout(PATIENCE, known.wait_for(|known| is_right(known))).await;
        assert!(seen.is_ok(), "not {what}: {:?}", self.site.known().borrow());
    }

    async fn is_connected_with(&self, nodes: &[&str]) {
        let names = |known: &[Known]| -> Vec<String> {
            let connected = known.iter().filter(|known| known.is_connected && known.is_alive);
            connected.map(|known| known.node.clone()).collect()
        };
        self.knows("connected", |known| names(known) == nodes).await;
    }

    async fn echo_one(&mut self, from: &str) {
        let (node, mut stream) = timeout(PATIENCE, self.requests.recv()).await.unwrap().unwrap();
        assert_eq!(node, from);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
    }
}

/// Sends what the other sends back.
async fn ask(site: &Site, node: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = site.open(node).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    back
}

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
    let device = NewClient {
        name: name("pump-1"),
        kind: identity::ClientKind::Device,
        labels: Default::default(),
        credential: Credential::Certificate { valid_s: 3_600 },
        edge: None,
    };
    let issued = founder.identity.add(&device, now_unix_s()).unwrap();
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

/// What a node says to a client of TLS with this certificate, or none, that sends it rubbish.
async fn said_to(address: SocketAddr, issued: Option<&identity::Issued>, founder: &Founder) -> Vec<u8> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = founder.identity.authority().certificate_pem();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
    let config = match issued {
        Some(identity::Issued::Certificate {
            certificate_pem,
            key_pem,
            ..
        }) => builder.with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(certificate_pem.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key_pem.expose().as_bytes()).unwrap(),
        ),
        _ => Ok(builder.with_no_client_auth()),
    };
    let tcp = TcpStream::connect(address).await.unwrap();
    let connected = TlsConnector::from(Arc::new(config.unwrap()))
        .connect(NodeKeys::server_name(), tcp)
        .await;
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
