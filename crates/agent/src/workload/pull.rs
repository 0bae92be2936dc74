//! When the registry of an image is asked, and as whom.

use std::collections::BTreeMap;

use base64ct::{Base64, Encoding};
use manifest::workload::{Container, ImagePullPolicy, PodSpec, Secret};
use serde::Deserialize;

use super::environment::opened;
use super::{Configuration, Finding};
use crate::image::name;
use crate::image::registry::Login;
use crate::runtime::{Pull, PullPolicy};

/// The value of a Secret that has logins for registries (`kubernetes.io/dockerconfigjson`).
const LOGINS: &str = ".dockerconfigjson";
/// How Docker writes its own registry there.
const DOCKER: &str = "index.docker.io";

/// As `docker login` writes it.
#[derive(Deserialize)]
struct Logins {
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// `user:password` in Base64, before the other two.
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

/// Of a container; what is wrong goes to `wrong`.
pub(super) fn of(pod: &PodSpec, container: &Container, given: &Configuration, wrong: &mut Vec<Finding>) -> Pull {
    let mut login = None;
    for (index, named) in pod.image_pull_secrets.iter().enumerate() {
        let secret = given.secrets.get(&named.name);
        let secret = secret.ok_or_else(|| format!("there is no Secret {}; apply one", named.name));
        match secret.and_then(|secret| login_of(secret, &container.image)) {
            Ok(found) => login = login.or(found),
            Err(message) => {
                let path = format!("spec.template.spec.imagePullSecrets[{index}]");
                // It is of all containers, and said once.
                if wrong.iter().all(|finding| finding.path != path) {
                    wrong.push(Finding::at(path, message));
                }
            }
        }
    }
    Pull {
        policy: match container.image_pull_policy {
            Some(ImagePullPolicy::Always) => PullPolicy::Always,
            Some(ImagePullPolicy::IfNotPresent) | None => PullPolicy::IfAbsent,
            Some(ImagePullPolicy::Never) => PullPolicy::Never,
        },
        login,
    }
}

/// That for the registry of an image, if the Secret has one.
fn login_of(secret: &Secret, image: &str) -> Result<Option<Login>, String> {
    let name = &secret.metadata.name;
    let text = opened(secret)?.remove(LOGINS);
    let text = text.ok_or_else(|| format!("the Secret {name} has no {LOGINS:?}"))?;
    let wrong = |what: &str| format!("{LOGINS} of the Secret {name} {what}");
    let logins: Logins = serde_json::from_str(&text).map_err(|_| wrong("is not as docker login writes it"))?;
    let Ok(image) = name::parse(image) else {
        return Ok(None);
    };
    let is_meant = |key: &str| {
        let host = key.trim_start_matches("https://").trim_start_matches("http://");
        let host = host.split('/').next().unwrap_or_default();
        host == image.registry()
            || host == image.resolve_registry()
            || host == DOCKER && image.registry() == "docker.io"
    };
    let Some((registry, entry)) = logins.auths.iter().find(|(key, _)| is_meant(key)) else {
        return Ok(None);
    };
    let pair = match (&entry.auth, &entry.username, &entry.password) {
        (Some(auth), ..) => {
            let pair = Base64::decode_vec(auth)
                .ok()
                .and_then(|pair| String::from_utf8(pair).ok());
            pair.and_then(|pair| {
                pair.split_once(':')
                    .map(|(user, password)| (user.to_owned(), password.to_owned()))
            })
        }
        (None, Some(user), Some(password)) => Some((user.clone(), password.clone())),
        (None, ..) => None,
    };
    let (user, password) = pair.ok_or_else(|| wrong(&format!("has no user and password for {registry}")))?;
    Ok(Some(Login { user, password }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(image: &str, json: &str, expected: Result<Option<(&str, &str)>, &str>) {
        let secret = Secret {
            metadata: manifest::workload::Metadata {
                name: "pull".to_owned(),
                ..Default::default()
            },
            kind: "kubernetes.io/dockerconfigjson".to_owned(),
            data: BTreeMap::new(),
            string_data: BTreeMap::from([(LOGINS.to_owned(), json.to_owned())]),
            immutable: false,
        };
        let found = login_of(&secret, image).map(|login| login.map(|login| (login.user, login.password)));
        match expected {
            Ok(expected) => {
                let owned = |(user, password): (&str, &str)| (user.to_owned(), password.to_owned());
                assert_eq!(found, Ok(expected.map(owned)), "{image}");
            }
            Err(words) => assert!(found.as_ref().is_err_and(|error| error.contains(words)), "{found:?}"),
        }
    }

    #[test]
    fn a_login_is_the_one_for_the_images_registry() {
        let one = r#"{"auths": {"registry.example:5000": {"username": "u", "password": "p:q"}}}"#;
        check("registry.example:5000/web", one, Ok(Some(("u", "p:q"))));
        check("registry.example/web", one, Ok(None));
        check("web", one, Ok(None));
        let docker = r#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpwOnE="}}}"#;
        check("web", docker, Ok(Some(("u", "p:q"))));
        check(
            "web",
            r#"{"auths": {"docker.io": {"username": "u"}}}"#,
            Err("no user and password for docker.io"),
        );
        check("web", "{}", Err("docker login"));
    }
}
