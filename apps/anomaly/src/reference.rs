//! Names of models in registries.

use std::fmt;
use std::net::IpAddr;

/// `registry:port/path:tag` or `registry:port/path@sha256:…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Host and port.
    pub registry: String,
    /// Such as `models/office-climate`.
    pub repository: String,
    /// A tag, or a digest with its `sha256:`.
    pub version: String,
}

impl Reference {
    /// Takes a name apart.
    ///
    /// # Errors
    /// What would be right.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parts(text).ok_or_else(|| {
            format!("{text:?} names no model; a name is registry.example:5000/models/office-climate:1, or …@sha256:…")
        })
    }

    fn parts(text: &str) -> Option<Self> {
        let (registry, path) = text.split_once('/')?;
        let (repository, version) = match path.split_once('@') {
            Some((repository, digest)) => (repository, digest.strip_prefix("sha256:").filter(|hex| is_hex(hex))?),
            None => path.rsplit_once(':')?,
        };
        let version = match path.contains('@') {
            true => format!("sha256:{version}"),
            false => version.to_owned(),
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        let is_path = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-/".contains(&byte);
        let is_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
        let fits = |text: &str, bytes_max: usize, is_part: &dyn Fn(u8) -> bool| {
            !text.is_empty() && text.len() <= bytes_max && text.bytes().all(is_part)
        };
        let is_right = fits(registry, 255, &is_host)
            && fits(repository, 255, &is_path)
            && repository
                .split('/')
                .all(|part| !part.is_empty() && part != "." && part != "..")
            && fits(&version, 128, &is_tag);
        is_right.then(|| Reference {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            version,
        })
    }

    /// Its digest, where it is named by one.
    #[must_use]
    pub(crate) fn digest(&self) -> Option<&str> {
        self.version.strip_prefix("sha256:")
    }

    /// Whether the registry is on this machine.
    #[must_use]
    pub(crate) fn is_local(&self) -> bool {
        let host = self.registry.rsplit_once(':').map_or(&*self.registry, |(host, _)| host);
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.digest().is_some() { '@' } else { ':' };
        write!(f, "{}/{}{separator}{}", self.registry, self.repository, self.version)
    }
}

/// Whether it is a SHA-256 in hexadecimal.
#[must_use]
pub(crate) fn is_hex(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_said_as_it_was_read() {
        let digest = format!("[::1]:5000/models/a@sha256:{}", "0a".repeat(32));
        for (name, is_local) in [
            ("127.0.0.1:5000/models/a:1", true),
            ("registry.example/a:v1.2", false),
            (&*digest, true),
        ] {
            let reference = Reference::parse(name).expect(name);
            assert_eq!(reference.to_string(), name);
            assert_eq!(reference.is_local(), is_local);
        }
    }

    #[test]
    fn what_could_lead_elsewhere_is_no_name() {
        for name in [
            "",
            "a",
            "r/a",
            "r/:1",
            "r/a:",
            "r/../a:1",
            "r/a//b:1",
            "user@r/a:1",
            "r?/a:1",
            "r/a?b:1",
            "r/a@sha256:00",
        ] {
            assert!(Reference::parse(name).is_err(), "{name}");
        }
    }
}
