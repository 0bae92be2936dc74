//! From a URL to a stream of bytes.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Options;

/// A connection, whatever lies below.
pub(super) type Stream = Box<dyn ReadWrite>;

/// Bytes both ways.
pub(super) trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

/// Ports that go without saying, by scheme.
const PORTS: [(&str, u16); 2] = [("mqtt", 1883), ("mqtts", 8883)];

/// Connects to where the link goes.
///
/// # Errors
/// In words, with the address.
pub(super) async fn dial(options: &Options) -> Result<Stream, String> {
    let url = &options.url;
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", host_and_port(options));
    let host = url.host_str().ok_or_else(|| format!("{url} names no host"))?;
    let (_, usual) = PORTS
        .into_iter()
        .find(|(scheme, _)| *scheme == url.scheme())
        .ok_or_else(|| format!("{url}: the scheme \"{}\" is none of mqtt and mqtts", url.scheme()))?;
    let port = url.port().unwrap_or(usual);
    // An IPv6 address stands in brackets in a URL alone.
    let host = host.trim_matches(['[', ']']);
    let socket = TcpStream::connect((host, port)).await.map_err(|error| named(&error))?;
    socket.set_nodelay(true).map_err(|error| named(&error))?;
    if url.scheme() == "mqtt" {
        return Ok(Box::new(socket));
    }
    let stream = secure(socket, host, options).await.map_err(|error| named(&error))?;
    Ok(Box::new(stream))
}

async fn secure(
    socket: TcpStream,
    host: &str,
    options: &Options,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::clone(&options.tls)).connect(name, socket).await
}

fn host_and_port(options: &Options) -> String {
    let url = &options.url;
    match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    }
}
