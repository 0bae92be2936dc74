//! A PostgreSQL server as a URL names it.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Where it is, and how to talk to it.
pub(crate) struct Server {
    pub(super) config: Config,
    /// None: in plain text.
    pub(super) tls: Option<MakeRustlsConnect>,
    /// A URL without user and password, for messages.
    pub(super) place: String,
}

impl Server {
    /// Reads a URL as libpq does, with two differences: `sslmode` is `disable` (the default) or `verify-full`, because
    /// what lies between promises less than it seems to; and `verify-full` takes `sslrootcert`, a file of PEM.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut authority, mut rest) = ("disable", None, Vec::new());
        for parameter in query.split('&') {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => authority = Some(percent_decode_str(value).decode_utf8_lossy()),
                _ => rest.push(parameter),
            }
        }
        let url = format!("{address}?{}", rest.join("&"));
        let mut config: Config = url
            .parse()
            .map_err(|error: tokio_postgres::Error| super::said(&error))?;
        let tls = match (mode, authority) {
            ("disable", None) => None,
            ("verify-full", Some(path)) => Some(verifying(&path)?),
            ("verify-full", None) => return Err("sslmode=verify-full needs sslrootcert=FILE".to_owned()),
            ("disable", Some(_)) => return Err("sslrootcert needs sslmode=verify-full".to_owned()),
            _ => return Err(format!("sslmode is disable or verify-full, not \"{mode}\"")),
        };
        config.ssl_mode(if tls.is_some() {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        let place = place(&config);
        Ok(Server { config, tls, place })
    }
}

/// TLS with servers that the file's authorities vouch for, by the name that the URL calls them.
fn verifying(path: &str) -> Result<MakeRustlsConnect, String> {
    let unfit = |reason: String| format!("sslrootcert {path}: {reason}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unfit(error.to_string()))? {
        let certificate = certificate.map_err(|error| unfit(error.to_string()))?;
        roots.add(certificate).map_err(|error| unfit(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unfit("no certificate in it".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unfit(error.to_string()))?;
    Ok(MakeRustlsConnect::new(
        builder.with_root_certificates(roots).with_no_client_auth(),
    ))
}

fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "?".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{host}:{port}/{database}")
}
