//! What the doors of TLS show: read again on SIGHUP, made again before it expires, without dropping anybody.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use hub::TlsSource;
use identity::{Identity, ServerCertificate, TlsError, server_config};

use super::config::{Config, Listen};
use super::unix_now_s;

/// Time before its end at which a certificate is made or read again.
const RENEWAL_S: i64 = 30 * 86_400;

/// The TLS configuration of the moment, and how the next one is made.
pub(crate) struct Certificates {
    source: TlsSource,
    identity: Arc<Identity>,
    not_after_unix_s: AtomicI64,
}

impl Certificates {
    /// `None` if no door speaks TLS.
    pub(crate) fn open(config: &Config, identity: &Arc<Identity>) -> Result<Option<Self>, TlsError> {
        let listen = &config.listen;
        if listen.mqtts.is_empty() && listen.mqtt_wss.is_empty() && listen.https.is_empty() {
            return Ok(None);
        }
        let tls = build(config, identity)?;
        let certificates = Self {
            source: Arc::new(ArcSwap::new(tls.config)),
            identity: Arc::clone(identity),
            not_after_unix_s: AtomicI64::new(tls.not_after_unix_s),
        };
        certificates.warn();
        Ok(Some(certificates))
    }

    /// For the doors.
    pub(crate) fn source(&self) -> &TlsSource {
        &self.source
    }

    /// Reads or makes the certificate again, for connections to come.
    pub(crate) fn reload(&self, config: &Config) {
        match build(config, &self.identity) {
            Ok(tls) => {
                self.not_after_unix_s.store(tls.not_after_unix_s, Ordering::Relaxed);
                self.source.store(tls.config);
                tracing::info!(
                    not_after_unix_s = tls.not_after_unix_s,
                    "the certificate was read again"
                );
            }
            Err(error) => tracing::error!(%error, "the certificate stays as it was"),
        }
    }

    /// Reloads what expires soon.
    pub(crate) fn renew(&self, config: &Config) {
        if self.left_s() < RENEWAL_S {
            self.reload(config);
            self.warn();
        }
    }

    /// One of the edge's own authority is new now; only a file can be old.
    fn warn(&self) {
        let left_days = self.left_s() / 86_400;
        if self.left_s() < RENEWAL_S {
            tracing::warn!(
                left_days,
                "the server's certificate expires soon; replace its file and send SIGHUP"
            );
        }
    }

    fn left_s(&self) -> i64 {
        self.not_after_unix_s.load(Ordering::Relaxed) - unix_now_s()
    }
}

fn build(config: &Config, identity: &Identity) -> Result<identity::Tls, TlsError> {
    let tls = &config.tls;
    let names = match tls.names.is_empty() {
        true => own_names(&config.listen),
        false => tls.names.clone(),
    };
    let is_given = |path: &Path| !path.as_os_str().is_empty();
    let certificate = match is_given(&tls.certificate) {
        true => ServerCertificate::Files {
            certificate: &tls.certificate,
            key: &tls.key,
        },
        false => ServerCertificate::Issued { names: &names },
    };
    let client_ca = Some(&*tls.client_ca).filter(|path| is_given(path));
    server_config(identity, certificate, client_ca, unix_now_s())
}

/// What clients probably call this machine.
fn own_names(listen: &Listen) -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names = vec![host, "localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    for address in listen.mqtts.iter().chain(&listen.mqtt_wss).chain(&listen.https) {
        let ip = match address.ip() {
            ip if ip.is_unspecified() => outward_address(),
            ip => Some(ip),
        };
        names.extend(ip.map(|ip| ip.to_string()).filter(|ip| !names.contains(ip)));
    }
    names
}

/// The address by which this machine speaks to others. No packet is sent: the kernel only picks the route.
pub(super) fn outward_address() -> Option<IpAddr> {
    const SOMEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(SOMEWHERE).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
