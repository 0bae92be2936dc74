//! Takes in models from registries (OCI Distribution Specification 1.1, "Pull").
//!
//! A registry may lie: all that it says is bounded, and nothing is kept but what has the digest that was asked for.

use std::io::{self, Read};
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use ureq::Agent;
use ureq::http::StatusCode;
use ureq::tls::{RootCerts, TlsConfig};

use crate::model::{DESCRIPTION_BYTES_MAX, Kept, Model, hex, keep};
use crate::reference::{Reference, is_hex};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const MANIFEST_BYTES_MAX: u64 = 64 << 10;
const ARTIFACT: &str = "application/vnd.selvedge.model.v1";
const CONFIG: &str = "application/vnd.selvedge.model.config.v1+json";
const LAYER: &str = "application/vnd.selvedge.model.onnx.v1";
/// Of what a registry says where it refuses.
const COMPLAINT_BYTES: u64 = 300;

/// Why a model cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nobody answers; it may be there later.
    #[error("{registry} cannot be asked: {message}")]
    Unreachable {
        /// Which.
        registry: String,
        /// What was wrong.
        message: String,
    },
    /// It is none, or not what was asked for.
    #[error("{0}")]
    Wrong(String),
}

/// How registries are asked.
#[derive(Clone, Debug)]
pub(crate) struct Registries {
    /// Those that are asked without TLS, beside those of this machine.
    pub plain: Vec<String>,
    /// Of an ONNX.
    pub model_bytes_max: u64,
    /// A file of certificates to believe in place of those that are built in.
    pub certificates: Option<Vec<u8>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    artifact_type: Option<String>,
    config: Blob,
    layers: Vec<Blob>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Blob {
    media_type: String,
    digest: String,
    size: u64,
}

impl Registries {
    /// Has a model here.
    ///
    /// # Errors
    /// It cannot be had.
    pub(crate) fn fetch(&self, reference: &Reference) -> Result<Model, Error> {
        let source = Source {
            agent: self.agent()?,
            base: format!(
                "{}://{}/v2/{}",
                self.scheme(reference),
                reference.registry,
                reference.repository
            ),
            reference,
        };
        let (manifest, digest) = source.manifest()?;
        let layer = manifest.check(self.model_bytes_max).map_err(Error::Wrong)?;
        let mut json = Vec::new();
        let config = source.blob(&manifest.config, "the description", DESCRIPTION_BYTES_MAX)?;
        let mut config = io::BufReader::new(config.file);
        io::Seek::rewind(&mut config)
            .and_then(|()| config.read_to_end(&mut json))
            .map_err(|error| Error::Wrong(error.to_string()))?;
        let onnx = source.blob(layer, "the model", self.model_bytes_max)?;
        Model::new(reference.to_string(), Some(digest), &json, onnx).map_err(Error::Wrong)
    }

    fn scheme(&self, reference: &Reference) -> &'static str {
        match reference.is_local() || self.plain.contains(&reference.registry) {
            true => "http",
            false => "https",
        }
    }

    fn agent(&self) -> Result<Agent, Error> {
        let roots = match &self.certificates {
            None => RootCerts::WebPki,
            Some(pem) => {
                let parsed: Result<Vec<_>, _> = ureq::tls::parse_pem(pem)
                    .filter_map(|item| match item {
                        Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(Ok(certificate)),
                        Ok(_) => None,
                        Err(error) => Some(Err(error)),
                    })
                    .collect();
                let roots = parsed.map_err(|error| Error::Wrong(format!("SSL_CERT_FILE: {error}")))?;
                RootCerts::from(roots)
            }
        };
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            .max_redirects(3)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_recv_response(Some(Duration::from_secs(15)))
            .timeout_global(Some(Duration::from_secs(300)))
            .build();
        Ok(config.into())
    }
}

impl Manifest {
    /// Whether it is of a model; its one layer.
    fn check(&self, model_bytes_max: u64) -> Result<&Blob, String> {
        let found = self.artifact_type.as_deref().unwrap_or("none");
        if self.schema_version != 2 || found != ARTIFACT {
            return Err(format!(
                "it is no model: artifactType is {found}; it is to be {ARTIFACT}"
            ));
        }
        let [layer] = self.layers.as_slice() else {
            return Err(format!(
                "it has {} layers; a model has one, its ONNX",
                self.layers.len()
            ));
        };
        self.config.check("the description", CONFIG, DESCRIPTION_BYTES_MAX)?;
        layer.check("the model", LAYER, model_bytes_max)?;
        Ok(layer)
    }
}

impl Blob {
    fn check(&self, what: &str, media_type: &str, bytes_max: u64) -> Result<(), String> {
        if self.media_type != media_type {
            return Err(format!(
                "{what} is of mediaType {}; it is to be {media_type}",
                self.media_type
            ));
        }
        if !self.digest.strip_prefix("sha256:").is_some_and(is_hex) {
            return Err(format!("{what} has the digest {:?}; it is to be sha256:…", self.digest));
        }
        if self.size > bytes_max {
            return Err(format!(
                "{what} has {} bytes; it may have {bytes_max}, so it is not fetched",
                self.size
            ));
        }
        Ok(())
    }
}

/// One model in its registry.
struct Source<'a> {
    agent: Agent,
    base: String,
    reference: &'a Reference,
}

impl Source<'_> {
    /// And its digest.
    fn manifest(&self) -> Result<(Manifest, String), Error> {
        let mut text = Vec::new();
        let body = self.get(&format!("manifests/{}", self.reference.version), MANIFEST)?;
        let read = body.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut text);
        read.map_err(|error| self.unreachable(&error.to_string()))?;
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(self.wrong(format!("the manifest has more than {MANIFEST_BYTES_MAX} bytes")));
        }
        let digest = format!("sha256:{}", hex(&Sha256::digest(&text)));
        if self.reference.digest().is_some() && self.reference.version != digest {
            return Err(self.wrong(format!("the manifest has the digest {digest}")));
        }
        let manifest = serde_json::from_slice(&text)
            .map_err(|error| self.wrong(format!("the manifest cannot be understood: {error}")))?;
        Ok((manifest, digest))
    }

    fn blob(&self, blob: &Blob, what: &str, bytes_max: u64) -> Result<Kept, Error> {
        let body = self.get(&format!("blobs/{}", blob.digest), "*/*")?;
        let kept = keep(body, blob.size.min(bytes_max)).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => self.wrong(format!("{what}: {error}")),
            _ => self.unreachable(&format!("{what} is cut off: {error}")),
        })?;
        let found = format!("sha256:{}", kept.sha256);
        if kept.bytes != blob.size || found != blob.digest {
            return Err(self.wrong(format!(
                "{what} has {} bytes and the digest {found}; it is to have {} and {}",
                kept.bytes, blob.size, blob.digest
            )));
        }
        Ok(kept)
    }

    fn get(&self, path: &str, accept: &str) -> Result<impl Read + use<>, Error> {
        let url = format!("{}/{path}", self.base);
        let answer = self.agent.get(&url).header("Accept", accept).call();
        let answer = answer.map_err(|error| self.unreachable(&error.to_string()))?;
        let status = answer.status();
        let body = answer.into_body().into_reader();
        if status == StatusCode::OK {
            return Ok(body);
        }
        let mut said = String::new();
        let _ = body.take(COMPLAINT_BYTES).read_to_string(&mut said);
        let message = format!("says {status} for {path}: {}", said.trim());
        // What is away now may be there later.
        match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            true => Err(self.unreachable(&message)),
            false => Err(self.wrong(format!("{} {message}", self.reference.registry))),
        }
    }

    fn unreachable(&self, message: &str) -> Error {
        Error::Unreachable {
            registry: self.reference.registry.clone(),
            message: message.to_owned(),
        }
    }

    fn wrong(&self, message: String) -> Error {
        Error::Wrong(message)
    }
}
