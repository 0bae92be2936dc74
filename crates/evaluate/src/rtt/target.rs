//! The address of a broker that runs already, with what it takes to log in.

use std::fmt;
use std::str::FromStr;

use crate::generator::login::Secret;

const SCHEMES: [(&str, bool, u16); 2] = [("mqtt://", false, 1883), ("mqtts://", true, 8883)];
const FORM: &str = "mqtt[s]://[user[:password]@]host[:port]";

/// Where a broker is. Its password is never shown and never written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Secret>,
}

impl Target {
    /// Whether `text` means a target rather than a named arm.
    pub(super) fn is_meant_by(text: &str) -> bool {
        SCHEMES.iter().any(|(scheme, ..)| text.starts_with(scheme))
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let parts = SCHEMES
            .into_iter()
            .find_map(|(scheme, tls, port)| Some((text.strip_prefix(scheme)?, tls, port)));
        let (rest, tls, usual_port) = parts.ok_or_else(refusal)?;
        let (login, address) = match rest.rsplit_once('@') {
            Some((login, address)) => (Some(login), address),
            None => (None, rest),
        };
        let (host, port) = host_and_port(address, usual_port)?;
        let (user_name, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some(("", _)) => return Err(refusal()),
            Some((user_name, password)) => (Some(user_name.to_owned()), password),
            None => (None, ""),
        };
        Ok(Target {
            tls,
            host: host.to_owned(),
            port,
            user_name,
            password: (!password.is_empty()).then(|| Secret(password.to_owned())),
        })
    }
}

/// What was given is not repeated: it may hold a password.
fn refusal() -> String {
    format!("that is no broker's address: write {FORM}")
}

fn host_and_port(address: &str, usual_port: u16) -> Result<(&str, u16), String> {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| refusal())?),
        _ => (address, usual_port),
    };
    if host.is_empty() || port == 0 {
        return Err(refusal());
    }
    Ok((host, port))
}

/// Without the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "mqtts" } else { "mqtt" };
        write!(f, "{scheme}://")?;
        if let Some(user_name) = &self.user_name {
            write!(f, "{user_name}@")?;
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_its_login_and_shown_without_the_password() {
        let cases = [
            ("mqtt://localhost", "mqtt://localhost:1883", None),
            ("mqtts://broker.example", "mqtts://broker.example:8883", None),
            ("mqtt://[::1]", "mqtt://[::1]:1883", None),
            ("mqtt://[::1]:1884", "mqtt://[::1]:1884", None),
            ("mqtt://ann@host:1", "mqtt://ann@host:1", None),
            ("mqtt://ann:p@ss:word@host:1", "mqtt://ann@host:1", Some("p@ss:word")),
        ];
        for (text, shown, password) in cases {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(target.password.as_ref().map(|secret| secret.0.as_str()), password);
            assert!(!format!("{target:?}").contains("p@ss"));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        for text in [
            "mqtt://:1883",
            "mqtt://ann:secret@host:port",
            "mqtt://@host",
            "mqtt://host:0",
            "http://host",
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains(FORM) && !error.contains("secret"), "{error}");
        }
    }
}
