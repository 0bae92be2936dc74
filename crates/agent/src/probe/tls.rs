//! TLS to a container that is asked how it is. As with Kubernetes its certificate is not checked: it is asked whether
//! it answers, and told nothing that others may not read.

use std::io;
use std::net::SocketAddrV4;
use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, DnsName, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, InvalidMessage, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// One for all: who was asked before is known again, which spares both sides most of a handshake.
static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    Arc::new(config)
});

/// Shakes hands on a connection to `to`; the name that is asked for is that of the `host` of the request, without its
/// port, and none where that is an address.
pub(super) async fn begin(stream: TcpStream, to: SocketAddrV4, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let begun = TlsConnector::from(Arc::clone(&CONFIG)).connect(name(to, host), stream);
    begun.await.map_err(|error| match is_in_the_clear(&error) {
        true => format!(
            "port {}: what answers there does not speak TLS; leave scheme: HTTPS out",
            to.port()
        ),
        false => format!("port {}: TLS: {error}", to.port()),
    })
}

fn name(to: SocketAddrV4, host: &str) -> ServerName<'static> {
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let name = DnsName::try_from(name.to_owned());
    name.map_or_else(|_| std::net::IpAddr::V4(*to.ip()).into(), ServerName::DnsName)
}

/// What came was no record of TLS.
fn is_in_the_clear(error: &io::Error) -> bool {
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    matches!(
        of_tls,
        Some(Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion
        ))
    )
}

/// Believes anybody, with certificates of any form.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_is_asked_for_is_that_of_the_host_and_none_where_that_is_an_address() {
        let to = "10.1.2.3:8443".parse().unwrap();
        for (host, expected) in [
            ("site.example", "site.example"),
            ("site.example:8443", "site.example"),
            ("10.1.2.3:8443", "10.1.2.3"),
            ("[::1]:8443", "10.1.2.3"),
            ("", "10.1.2.3"),
        ] {
            assert_eq!(name(to, host).to_str(), expected, "{host}");
        }
    }
}
