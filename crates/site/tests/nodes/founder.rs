//! Nodes of a site in this process, and the edge at which it began.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use identity::{Bans, ClientName, EdgeKey, EnrolmentOptions, Identity, IdentityOptions, Membership, NodeKeys};
use site::{Known, Options, RANDOM_BITS, Site, Stream};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// For what takes a second on a machine that does nothing else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const OPTIONS: EnrolmentOptions = EnrolmentOptions {
    certificate_valid_s: 3_600,
    renewal_grace_s: 0,
    are_nodes: true,
};

pub(crate) fn now_unix_s() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "certificates carry dates of the wall clock")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
}

pub(crate) fn name(id: &str) -> ClientName {
    ClientName::new("default", id).unwrap()
}

/// The edge at which a site begins.
pub(crate) struct Founder {
    pub(crate) identity: Identity,
    _directory: TempDir,
}

impl Founder {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Founder {
            identity: Identity::open(directory.path(), IdentityOptions::default(), now_unix_s()).unwrap(),
            _directory: directory,
        }
    }

    pub(crate) fn keys(&self, id: &str) -> NodeKeys {
        NodeKeys::of_founder(&self.identity, &name(id), now_unix_s()).unwrap()
    }

    /// Those of a node that was invited and joins.
    pub(crate) fn joined(&self, id: &str) -> NodeKeys {
        NodeKeys::of_member(&self.membership(id)).unwrap()
    }

    /// What such a node has of its site.
    pub(crate) fn membership(&self, id: &str) -> Membership {
        let invitation = self.identity.invite(&name(id), 60, now_unix_s()).unwrap();
        let key = EdgeKey::generate().unwrap();
        let request_pem = key.request_pem().unwrap();
        let enrolled = self
            .identity
            .join(&invitation.token, &request_pem, OPTIONS, now_unix_s())
            .unwrap();
        Membership {
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
        }
    }
}

pub(crate) struct Node {
    pub(crate) site: Site,
    pub(crate) requests: mpsc::Receiver<(String, Stream)>,
    pub(crate) address: SocketAddr,
}

pub(crate) async fn start(keys: NodeKeys, seeds: &[SocketAddr]) -> Node {
    start_with(keys, seeds, |_| {}).await
}

/// With options that are changed.
pub(crate) async fn start_with(keys: NodeKeys, seeds: &[SocketAddr], change: impl FnOnce(&mut Options)) -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut options = Options {
        keys: Arc::new(keys),
        listeners: vec![listener],
        addresses: vec![address],
        seeds: seeds.iter().map(ToString::to_string).collect(),
        is_relay: true,
        is_announced: false,
        bans: Bans::default(),
        incarnation: (now_unix_s() as u64) << RANDOM_BITS | rand::random::<u64>() & 0xffff,
    };
    change(&mut options);
    let (site, requests) = Site::start(options).unwrap();
    Node {
        site,
        requests,
        address,
    }
}

impl Node {
    /// Waits until what is known here is as it is to be.
    pub(crate) async fn knows(&self, what: &str, is_right: impl Fn(&[Known]) -> bool) {
        let mut known = self.site.known();
        let seen = timeout(PATIENCE, known.wait_for(|known| is_right(known))).await;
        assert!(seen.is_ok(), "not {what}: {:?}", self.site.known().borrow());
    }

    pub(crate) async fn is_connected_with(&self, nodes: &[&str]) {
        let names = |known: &[Known]| -> Vec<String> {
            let connected = known.iter().filter(|known| known.is_connected && known.is_alive);
            connected.map(|known| known.node.clone()).collect()
        };
        self.knows("connected", |known| names(known) == nodes).await;
    }

    pub(crate) async fn echo_one(&mut self, from: &str) {
        let (node, mut stream) = timeout(PATIENCE, self.requests.recv()).await.unwrap().unwrap();
        assert_eq!(node, from);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
    }
}

/// Sends what the other sends back.
pub(crate) async fn ask(site: &Site, node: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = site.open(node).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    back
}
