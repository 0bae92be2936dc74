//! TLS over a socket, and in words why it failed.

use std::io;
use std::sync::Arc;

use hub::Place;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{CertificateError, Error};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::target::Target;
use super::{ReadWrite, Socket};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(in crate::edge) enum TlsError {
    #[error("TLS: {place}: {host:?} is no name that a certificate can have: {source}")]
    Name {
        place: String,
        host: String,
        source: InvalidDnsNameError,
    },
    #[error("TLS: {place}: {}", explain(.source, .url))]
    Handshake {
        place: String,
        /// What says where to go.
        url: &'static str,
        source: io::Error,
    },
}

pub(super) async fn secure(
    socket: Socket,
    target: &Target,
    config: &Arc<rustls::ClientConfig>,
) -> Result<Box<TlsStream<Socket>>, TlsError> {
    let host = target.host().to_owned();
    let name = ServerName::try_from(host.clone()).map_err(|source| TlsError::Name {
        place: target.place(),
        host,
        source,
    })?;
    let connecting = TlsConnector::from(Arc::clone(config)).connect(name, socket);
    connecting.await.map(Box::new).map_err(|source| TlsError::Handshake {
        place: target.place(),
        url: target.said_by(),
        source,
    })
}

impl ReadWrite for Box<TlsStream<Socket>> {
    fn move_to(&mut self, place: &Place) -> io::Result<()> {
        self.get_mut().0.move_to(place)
    }
}

/// What is wrong and what would be right.
fn explain(error: &io::Error, url: &str) -> String {
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    match of_tls {
        Some(Error::InvalidCertificate(why)) => explain_certificate(why, url),
        Some(Error::InvalidMessage(_)) => {
            format!("what answers there does not speak TLS; are scheme and port of {url} right?")
        }
        Some(Error::AlertReceived(alert)) => {
            format!("the other end broke off the handshake ({alert:?}); does it take link.certificate?")
        }
        Some(other) => other.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the connection was closed during the handshake".to_owned()
        }
        None => error.to_string(),
    }
}

fn explain_certificate(why: &CertificateError, url: &str) -> String {
    match why {
        // A bad signature is that of another authority of the same name: of a cloud that was made anew.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is of an authority that this edge does not know; link.ca \
             names the file with the authority of the cloud"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired, or the clock here is wrong: {why}")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is for another host than {url} names: {why}")
        }
        // Of a verifier of ours, which says all of it.
        CertificateError::Other(why) => why.to_string(),
        other => format!("its certificate is not believed: {other}"),
    }
}
