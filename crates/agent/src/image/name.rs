//! Names of images, as Docker has them: `nginx` is `docker.io/library/nginx:latest`.
//!
//! `oci_spec` reads them by a regular expression that takes 11 MB of memory for good.

use std::str::FromStr;

use oci_spec::distribution::Reference;
use oci_spec::image::Digest;

/// Where images are whose names say no registry.
const REGISTRY: &str = "docker.io";
/// Of it, those whose names have one part.
const LIBRARY: &str = "library/";
const TAG: &str = "latest";
/// Bytes of a repository's name, and of a tag.
const REPOSITORY_MAX: usize = 255;
const TAG_MAX: usize = 128;

/// In full.
///
/// # Errors
/// It is no such name; in words.
pub(crate) fn parse(name: &str) -> Result<Reference, String> {
    let wrong = |what: &str| format!("{what}; an image's name is such as registry.example/web:1.4");
    let (named, digest) = match name.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (name, None),
    };
    if let Some(digest) = digest {
        Digest::from_str(digest).map_err(|error| wrong(&format!("{digest:?} is no digest: {error}")))?;
    }
    // A colon before a slash is that of a port.
    let (path, tag) = match named.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (named, None),
    };
    if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
        return Err(wrong(&format!("{tag:?} is no tag")));
    }
    let (registry, repository) = match path.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest.to_owned()),
        Some(_) => (REGISTRY, path.to_owned()),
        None => (REGISTRY, format!("{LIBRARY}{path}")),
    };
    if !is_registry(registry) {
        return Err(wrong(&format!("{registry:?} is no registry")));
    }
    if repository.len() > REPOSITORY_MAX || !repository.split('/').all(is_part) {
        return Err(wrong(&format!("{repository:?} is no repository")));
    }
    let registry = registry.to_owned();
    Ok(match (tag, digest) {
        (Some(tag), Some(digest)) => {
            Reference::with_tag_and_digest(registry, repository, tag.to_owned(), digest.to_owned())
        }
        (None, Some(digest)) => Reference::with_digest(registry, repository, digest.to_owned()),
        (tag, None) => Reference::with_tag(registry, repository, tag.unwrap_or(TAG).to_owned()),
    })
}

/// A host, with or without a port; an address of IPv6 in brackets.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, "0"),
    };
    let is_address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|address| {
            let bytes = address.as_bytes();
            bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b':')
        });
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    port.parse::<u16>().is_ok() && (is_address || host.split('.').all(is_label))
}

/// Lowercase letters and digits, with separators between them.
fn is_part(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    ends.is_some_and(|(first, last)| is_plain(*first) && is_plain(*last))
        && bytes.iter().all(|byte| is_plain(*byte) || b"._-".contains(byte))
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    bytes.len() <= TAG_MAX
        && bytes.first().is_some_and(|first| is_word(*first))
        && bytes.iter().all(|byte| is_word(*byte) || b".-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn check(name: &str, expected: Option<&str>) {
        let found = parse(name);
        assert_eq!(
            found.as_ref().ok().map(Reference::whole).as_deref(),
            expected,
            "{found:?}"
        );
        // What is in full is read as it is, by others too.
        if let Some(whole) = expected {
            assert_eq!(parse(whole).unwrap().whole(), whole);
            assert_eq!(Reference::from_str(name).unwrap().whole(), whole);
        } else {
            assert!(Reference::from_str(name).is_err(), "{name}");
        }
    }

    #[test]
    fn names_are_what_docker_makes_of_them() {
        check("nginx", Some("docker.io/library/nginx:latest"));
        check("nginx:1.27-alpine", Some("docker.io/library/nginx:1.27-alpine"));
        check("grafana/grafana", Some("docker.io/grafana/grafana:latest"));
        check("docker.io/library/nginx:1", Some("docker.io/library/nginx:1"));
        check("registry.example:5000/a/b_c:1", Some("registry.example:5000/a/b_c:1"));
        check("localhost/web", Some("localhost/web:latest"));
        check("127.0.0.1:5000/web", Some("127.0.0.1:5000/web:latest"));
        check(
            &format!("web@{DIGEST}"),
            Some(&format!("docker.io/library/web@{DIGEST}")),
        );
        check(
            &format!("web:1@{DIGEST}"),
            Some(&format!("docker.io/library/web:1@{DIGEST}")),
        );
        for wrong in [
            "",
            "Not A Name",
            "web:",
            "web:-1",
            "/web",
            "web/",
            "a//b",
            "web@sha256:1",
            "web:a/b/",
            "../web",
            "-web",
        ] {
            check(wrong, None);
        }
        assert_eq!(parse("[::1]:5000/web:1").unwrap().whole(), "[::1]:5000/web:1");
        for wrong in ["[::1:5000/web", "host.:80/web", "host:99999/web", "host:/web"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
