//! What a hub is started with. Every limit has a default and a stated policy when it is reached.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where clients knock.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Address of the socket.
    pub address: Address,
    /// TLS configuration, for doors that speak it.
    pub tls: Option<TlsSource>,
    /// MQTT inside WebSocket frames.
    pub websocket: Option<WebDoor>,
    /// Each connection begins with a PROXY protocol header (v1 or v2), which says where it really comes from.
    pub proxy_protocol: bool,
}

/// Who may open a WebSocket.
#[derive(Clone, Debug, Default)]
pub struct WebDoor {
    /// Origins of web pages that may, such as `https://dash.example`, beside those of the host that is asked. Programs,
    /// which name no origin, may as well.
    pub origins: Arc<[String]>,
}

/// Hands out the TLS configuration of the moment, so that certificates can be exchanged under running doors.
pub type TlsSource = Arc<arc_swap::ArcSwap<rustls::ServerConfig>>;

/// Address of a listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// IP address and port; port 0 takes any free one.
    Tcp(SocketAddr),
    /// Path of a Unix socket; a stale one is replaced.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Bounds of what clients can take from the hub.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; one more is answered "server unavailable" (5.0: 0x89, server busy). Where the process may
    /// have fewer file descriptors than these and `pending_connects` need, both are held to what it may have.
    pub connections: usize,
    /// New connections a second over all doors; more wait in the kernel's backlog.
    pub connects_per_s: u32,
    /// Connections that have not finished their CONNECT, or whose login waits to be checked. At one more the oldest
    /// without a CONNECT is closed, of the address that has the most; the logins of one address take no more of these
    /// places than they leave free, and one more is answered "server unavailable" (5.0: 0x89, server busy).
    pub pending_connects: usize,
    /// Time a client has from the first byte to the end of its CONNECT; then it is closed.
    pub connect_timeout: Duration,
    /// Bytes of a CONNECT packet; a longer one is refused at its fixed header.
    pub connect_bytes: usize,
    /// Logins being checked at once: each Argon2 check takes a core and up to 19 MiB for some 20 ms. Those that wait
    /// are checked in turns of the addresses that they come from.
    pub login_checks: usize,
    /// What the broker of each tenant keeps and takes: also bytes of a packet after CONNECT; a longer one is refused at
    /// its fixed header (0x95).
    pub broker: broker::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 15_000,
            connects_per_s: 5_000,
            pending_connects: 1_024,
            connect_timeout: Duration::from_secs(10),
            connect_bytes: 16 * 1024,
            login_checks: 2,
            broker: broker::Limits::default(),
        }
    }
}
