//! Where a link goes, as its URL says.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::Url;

/// Where a WebSocket is asked for if the URL does not say.
const WEBSOCKET_PATH: &str = "/mqtt";

/// What a scheme says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scheme {
    name: &'static str,
    /// The port that goes without saying.
    port: u16,
    is_secure: bool,
    is_websocket: bool,
}

const SCHEMES: [Scheme; 4] = [
    scheme("mqtt", 1883, false, false),
    scheme("mqtts", 8883, true, false),
    scheme("ws", 80, false, true),
    scheme("wss", 443, true, true),
];

const HTTPS: [Scheme; 1] = [scheme("https", 443, true, false)];

const SITE: [Scheme; 1] = [scheme("site", 8444, true, false)];

const fn scheme(name: &'static str, port: u16, is_secure: bool, is_websocket: bool) -> Scheme {
    Scheme {
        name,
        port,
        is_secure,
        is_websocket,
    }
}

/// The other end of a link: `mqtts://host:8883`, `wss://host/mqtt`, or `mqtt://` and `ws://` without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    scheme: Scheme,
    /// A name or an address, without brackets.
    host: String,
    port: u16,
    /// Path and query of a WebSocket.
    path: String,
}

/// A text that says nowhere to go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongTarget {
    /// It is no URL at all.
    #[error(
        "{0:?} is no URL ({1}); one is \"mqtts://cloud.example:8883\", or \"wss://cloud.example/mqtt\" where port 443 \
         alone is open"
    )]
    NoUrl(String, url::ParseError),
    /// Its scheme is another.
    #[error("the scheme {0:?} is none of mqtts, wss, mqtt and ws")]
    Scheme(String),
    /// It does not say "https".
    #[error("{0:?} is no URL of HTTPS; one is \"https://cloud.example:8443\"")]
    NoHttps(String),
    /// It names no host.
    #[error("{0:?} names no host")]
    NoHost(String),
    /// It holds a user name or a password.
    #[error("a user name and a password do not stand in the URL but in user_name and password_file")]
    Login,
    /// It has a path, and MQTT without WebSocket has none.
    #[error("{0}:// has no path, and {1:?} is one; ws:// and wss:// have")]
    Path(&'static str, String),
}

impl FromStr for Target {
    type Err = WrongTarget;

    fn from_str(text: &str) -> Result<Self, WrongTarget> {
        Self::of(text, &SCHEMES)
    }
}

impl Target {
    /// A server of HTTPS, such as `https://cloud.example:8443`.
    ///
    /// # Errors
    /// It is no such URL.
    pub fn https(text: &str) -> Result<Self, WrongTarget> {
        Self::of(text, &HTTPS).map_err(|_| WrongTarget::NoHttps(text.to_owned()))
    }

    /// A node of a site, such as `site://10.0.0.1:8444`.
    ///
    /// # Errors
    /// It is no such URL.
    pub fn site(text: &str) -> Result<Self, WrongTarget> {
        Self::of(text, &SITE)
    }

    fn of(text: &str, schemes: &[Scheme]) -> Result<Self, WrongTarget> {
        let url = Url::parse(text).map_err(|error| WrongTarget::NoUrl(text.to_owned(), error))?;
        let scheme = schemes.iter().find(|scheme| scheme.name == url.scheme());
        let scheme = *scheme.ok_or_else(|| WrongTarget::Scheme(url.scheme().to_owned()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(WrongTarget::Login);
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| WrongTarget::NoHost(text.to_owned()))?;
        let has_path = !matches!(url.path(), "" | "/") || url.query().is_some();
        if has_path && !scheme.is_websocket {
            return Err(WrongTarget::Path(scheme.name, url.path().to_owned()));
        }
        Ok(Self {
            scheme,
            // An IPv6 address stands in brackets in a URL alone.
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(scheme.port),
            path: match has_path {
                true => url[url::Position::BeforePath..url::Position::AfterQuery].to_owned(),
                false => WEBSOCKET_PATH.to_owned(),
            },
        })
    }
}

impl Target {
    /// Its host as a URL has it: an IPv6 address in brackets.
    pub fn url_host(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Host and port.
    pub fn place(&self) -> String {
        place(&self.host, self.port)
    }

    /// What a person finds it in.
    pub(super) fn said_by(&self) -> &'static str {
        match self.scheme.name {
            "https" => "the URL",
            _ => "link.url",
        }
    }

    /// Whether it is reached over TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.scheme.is_secure
    }

    /// Path and query of the WebSocket, if it is one.
    pub(super) fn websocket_path(&self) -> Option<&str> {
        self.scheme.is_websocket.then_some(&self.path)
    }

    /// Whether it is this machine.
    pub(super) fn is_loopback(&self) -> bool {
        let address: Option<IpAddr> = self.host.parse().ok();
        address.map_or(self.host == "localhost", |address| address.is_loopback())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.websocket_path().unwrap_or_default();
        write!(f, "{}://{}{path}", self.scheme.name, self.place())
    }
}

/// Host and port as a URL has them.
pub(super) fn place(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_host_port_tls_and_the_path_of_a_websocket() {
        let cases = [
            ("mqtt://edge.example", "edge.example:1883", false, None),
            ("mqtts://edge.example/", "edge.example:8883", true, None),
            ("mqtts://10.0.0.1:443", "10.0.0.1:443", true, None),
            ("mqtts://[fe80::1]", "[fe80::1]:8883", true, None),
            ("ws://edge.example", "edge.example:80", false, Some("/mqtt")),
            ("wss://edge.example", "edge.example:443", true, Some("/mqtt")),
            ("wss://[::1]:8443/a/b?c=d", "[::1]:8443", true, Some("/a/b?c=d")),
        ];
        for (url, place, is_secure, path) in cases {
            let target: Target = url.parse().unwrap();
            let said = (&*target.place(), target.is_secure(), target.websocket_path());
            assert_eq!(said, (place, is_secure, path), "{url}");
        }
    }

    #[test]
    fn a_url_that_leads_nowhere_is_refused_with_what_would_be_right() {
        let cases = [
            ("edge.example", "is no URL"),
            ("https://edge.example", "none of mqtts, wss, mqtt and ws"),
            ("mqtt://", "names no host"),
            ("mqtts://hall-1:secret@edge.example", "in user_name and password_file"),
            ("mqtts://edge.example/mqtt", "ws:// and wss:// have"),
            ("mqtt://edge.example:70000", "is no URL"),
        ];
        for (url, expected) in cases {
            let error = url.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn a_server_of_https_is_a_host_and_a_port() {
        let target = Target::https("https://[::1]:8443/").unwrap();
        assert_eq!((&*target.place(), &*target.url_host()), ("[::1]:8443", "[::1]"));
        assert_eq!(
            Target::https("https://cloud.example").unwrap().place(),
            "cloud.example:443"
        );
        for bad in [
            "cloud.example",
            "http://cloud.example",
            "https://a:b@cloud",
            "https://cloud/path",
            "mqtts://cloud",
        ] {
            let error = Target::https(bad).unwrap_err().to_string();
            assert!(error.contains("is no URL of HTTPS"), "{bad}: {error}");
        }
        assert!("https://cloud".parse::<Target>().is_err());
    }

    #[test]
    fn this_machine_is_known_by_its_name_and_its_addresses() {
        for (url, expected) in [
            ("mqtt://localhost", true),
            ("mqtt://127.1.2.3", true),
            ("mqtt://[::1]", true),
            ("mqtt://10.0.0.1", false),
            ("mqtt://localhost.example", false),
        ] {
            assert_eq!(url.parse::<Target>().unwrap().is_loopback(), expected, "{url}");
        }
    }
}
