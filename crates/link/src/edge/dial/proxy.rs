//! A way through an HTTP proxy: which one, and the tunnel that it is asked for (RFC 9110, section 9.3.6).

use std::sync::Arc;

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::http::Uri;

use super::target::{Target, place};

/// The port of a proxy that goes without saying, as curl has it.
const PORT: u16 = 1080;
/// Bytes of a proxy's answer, and its header lines.
const ANSWER_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// Bytes of what a proxy says with a refusal that are shown.
const REASON_BYTES_MAX: usize = 100;

/// Which proxy stands between an edge and its cloud, if there is one.
#[derive(Clone, Debug)]
pub struct Proxies(Which);

#[derive(Clone, Debug)]
enum Which {
    /// This one, whatever the target.
    Always(HttpProxy),
    /// As the environment says.
    OfEnvironment(Arc<Matcher>),
}

/// A proxy that makes tunnels.
#[derive(Clone, Debug)]
pub(super) struct HttpProxy(Intercept);

/// A text that names no proxy that a link can go through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongProxy {
    /// It is no URL of a proxy.
    #[error(
        "it is no URL of a proxy; one is \"http://proxy.example:3128\", or \"http://user:password@proxy.example:3128\""
    )]
    NoUrl,
    /// It speaks another protocol.
    #[error("the proxy {0}: a link goes through proxies that speak HTTP, such as \"http://proxy.example:3128\"")]
    Scheme(String),
}

/// Why a proxy makes no tunnel.
#[derive(Debug, thiserror::Error)]
pub(in crate::edge) enum ProxyError {
    #[error("the proxy {proxy}: {source}")]
    Socket { proxy: String, source: std::io::Error },
    #[error("the proxy {0} closed the connection before it answered CONNECT")]
    Closed(String),
    #[error("the proxy {0} does not answer CONNECT as HTTP/1.1 has it")]
    NoHttp(String),
    #[error("the proxy {proxy} answers \"{status}\" to CONNECT {target}{hint}")]
    Refused {
        proxy: String,
        target: String,
        status: String,
        hint: &'static str,
    },
}

impl Proxies {
    /// The proxy that an operator names: `http://proxy:3128`, `http://user:password@proxy:3128` with what is special in
    /// the latter percent-encoded.
    ///
    /// # Errors
    /// Says what would be right, and never the password.
    pub fn always(url: &str) -> Result<Self, WrongProxy> {
        let matcher = Matcher::builder().all(url.to_owned()).build();
        let proxy = matcher.intercept(&Uri::from_static("https://any.invalid"));
        let proxy = HttpProxy::try_from(proxy.ok_or(WrongProxy::NoUrl)?)?;
        Ok(Self(Which::Always(proxy)))
    }

    /// Those of the environment variables that curl reads for HTTPS: `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in
    /// capitals or not. None stands between this machine and itself.
    pub fn of_environment() -> Self {
        Self(Which::OfEnvironment(Arc::new(Matcher::from_env())))
    }

    /// The proxy on the way to the target.
    pub(super) fn between(&self, target: &Target) -> Result<Option<HttpProxy>, WrongProxy> {
        match &self.0 {
            Which::Always(proxy) => Ok(Some(proxy.clone())),
            Which::OfEnvironment(_) if target.is_loopback() => Ok(None),
            Which::OfEnvironment(matcher) => {
                let url: Option<Uri> = format!("https://{}", target.place()).parse().ok();
                let proxy = url.and_then(|url| matcher.intercept(&url));
                proxy.map(HttpProxy::try_from).transpose()
            }
        }
    }
}

impl TryFrom<Intercept> for HttpProxy {
    type Error = WrongProxy;

    fn try_from(proxy: Intercept) -> Result<Self, WrongProxy> {
        match (proxy.uri().scheme_str(), proxy.uri().host()) {
            (Some("http"), Some(_)) => Ok(Self(proxy)),
            _ => Err(WrongProxy::Scheme(proxy.uri().to_string())),
        }
    }
}

impl HttpProxy {
    pub(super) fn host(&self) -> &str {
        let host = self.0.uri().host().expect("it was made with one");
        host.trim_matches(['[', ']'])
    }

    pub(super) fn port(&self) -> u16 {
        self.0.uri().port_u16().unwrap_or(PORT)
    }

    /// Has the proxy connect the stream with the target.
    pub(super) async fn tunnel(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        target: &Target,
    ) -> Result<(), ProxyError> {
        let failed = |source| ProxyError::Socket {
            proxy: self.place(),
            source,
        };
        stream.write_all(&self.request(target)).await.map_err(failed)?;
        let mut answer = Vec::new();
        loop {
            let limit = (ANSWER_BYTES_MAX - answer.len()) as u64;
            match (&mut *stream).take(limit).read_buf(&mut answer).await.map_err(failed)? {
                0 if limit == 0 => return Err(ProxyError::NoHttp(self.place())),
                0 => return Err(ProxyError::Closed(self.place())),
                _ => {}
            }
            if let Some(verdict) = self.verdict(&answer, target) {
                return verdict;
            }
        }
    }

    fn place(&self) -> String {
        place(self.host(), self.port())
    }

    fn request(&self, target: &Target) -> Vec<u8> {
        let place = target.place();
        let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n").into_bytes();
        if let Some(authorization) = self.0.basic_auth() {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(authorization.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        request
    }

    /// What an answer says, once its head is whole. Whatever the target is, it waits for us to speak: bytes behind the
    /// head of a success are none of its.
    fn verdict(&self, answer: &[u8], target: &Target) -> Option<Result<(), ProxyError>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let len = match response.parse(answer) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) => return None,
            Err(_) => return Some(Err(ProxyError::NoHttp(self.place()))),
        };
        let code = response.code.unwrap_or_default();
        match code {
            200..=299 if len == answer.len() => Some(Ok(())),
            200..=299 => Some(Err(ProxyError::NoHttp(self.place()))),
            _ => Some(Err(self.refused(code, response.reason.unwrap_or_default(), target))),
        }
    }

    fn refused(&self, code: u16, reason: &str, target: &Target) -> ProxyError {
        let reason: String = reason.chars().take(REASON_BYTES_MAX).collect();
        let hint = match (code, self.0.basic_auth()) {
            (407, None) => "; it wants a user name and a password: link.proxy = \"http://user:password@…\"",
            (401 | 407, Some(_)) => "; it does not take the user name and the password of link.proxy",
            (403, _) => "; it lets nobody there",
            (502..=504, _) => "; it does not reach it",
            _ => "",
        };
        ProxyError::Refused {
            proxy: self.place(),
            target: target.place(),
            status: format!("{code} {reason}").trim_end().to_owned(),
            hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::duplex;

    use super::*;

    fn target() -> Target {
        "mqtts://cloud.example".parse().unwrap()
    }

    fn proxy(url: &str) -> HttpProxy {
        let proxies = Proxies::always(url).unwrap();
        proxies.between(&target()).unwrap().unwrap()
    }

    /// What comes of an answer, and what was asked.
    async fn ask(url: &str, answer: &[u8]) -> (Result<(), String>, String) {
        let (mut near, mut far) = duplex(64 << 10);
        far.write_all(answer).await.unwrap();
        let (mut reader, writer) = tokio::io::split(far);
        drop(writer);
        let asked = proxy(url).tunnel(&mut near, &target()).await;
        near.shutdown().await.unwrap();
        drop(near);
        let mut request = String::new();
        reader.read_to_string(&mut request).await.unwrap();
        (asked.map_err(|error| error.to_string()), request)
    }

    #[tokio::test]
    async fn a_tunnel_is_asked_for_as_rfc_9110_has_it_with_name_and_password() {
        let (asked, request) = ask("http://me:p%40ss@10.0.0.9:3128", b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\n").await;
        asked.unwrap();
        let expected = "CONNECT cloud.example:8883 HTTP/1.1\r\nHost: cloud.example:8883\r\nProxy-Authorization: Basic \
                        bWU6cEBzcw==\r\n\r\n";
        assert_eq!(request, expected);
    }

    #[tokio::test]
    async fn a_refusal_is_shown_with_its_status_and_what_would_be_right() {
        for (url, answer, expected) in [
            (
                "http://p:1",
                "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
                "the proxy p:1 answers \"407 Proxy Authentication Required\" to CONNECT cloud.example:8883; it wants a user name",
            ),
            (
                "http://me:secret@p:1",
                "HTTP/1.0 401 No\r\n\r\n",
                "it does not take the user name",
            ),
            ("http://p:1", "HTTP/1.1 403 Filtered\r\n\r\nhtml", "\"403 Filtered\""),
            (
                "http://p:1",
                "HTTP/1.1 502\r\n\r\n",
                "\"502\" to CONNECT cloud.example:8883; it does not reach it",
            ),
            (
                "http://p:1",
                "SSH-2.0-OpenSSH\r\n",
                "does not answer CONNECT as HTTP/1.1 has it",
            ),
            (
                "http://p:1",
                "HTTP/1.1 200 OK\r\n\r\nmore",
                "does not answer CONNECT as HTTP/1.1 has it",
            ),
        ] {
            let error = ask(url, answer.as_bytes()).await.0.unwrap_err();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_answer_without_end_is_given_up_at_its_bound() {
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(3 * ANSWER_BYTES_MAX));
        let error = ask("http://p:1", endless.as_bytes()).await.0.unwrap_err();
        assert!(error.contains("does not answer CONNECT as HTTP/1.1 has it"), "{error}");
        let many = format!("HTTP/1.1 200 OK\r\n{}", "a:b\r\n".repeat(HEADERS_MAX + 1));
        let error = ask("http://p:1", many.as_bytes()).await.0.unwrap_err();
        assert!(error.contains("does not answer CONNECT as HTTP/1.1 has it"), "{error}");
    }

    #[test]
    fn a_proxy_that_a_link_cannot_use_is_refused_without_its_password() {
        for (url, expected) in [
            ("", "is no URL of a proxy"),
            ("http://", "is no URL of a proxy"),
            ("ftp://p:1", "is no URL of a proxy"),
            (
                "socks5://me:secret@p:1",
                "the proxy socks5://p:1/: a link goes through proxies that speak HTTP",
            ),
            ("https://me:secret@p:1", "the proxy https://p:1/: "),
        ] {
            let error = Proxies::always(url).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{url}: {error}");
        }
        assert_eq!((proxy("p").host(), proxy("p").port()), ("p", 1080));
        assert_eq!(
            (proxy("http://[::1]:8").host(), proxy("http://[::1]:8").port()),
            ("::1", 8)
        );
    }

    #[test]
    fn the_environment_is_read_as_curl_does_and_this_machine_is_never_behind_its_proxy() {
        let matcher = Matcher::builder()
            .https("http://p:3128")
            .no("plant.example, 10.0.0.0/8")
            .build();
        let proxies = Proxies(Which::OfEnvironment(Arc::new(matcher)));
        let is_between = |url: &str| proxies.between(&url.parse().unwrap()).unwrap().is_some();
        for url in [
            "mqtts://cloud.example",
            "mqtt://11.0.0.1",
            "wss://cloud.example",
            "mqtts://[fd00::1]",
        ] {
            assert!(is_between(url), "{url}");
        }
        for url in [
            "mqtts://hub.plant.example",
            "mqtts://10.1.2.3",
            "mqtt://localhost",
            "ws://127.0.0.1",
            "ws://[::1]",
        ] {
            assert!(!is_between(url), "{url}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_proxy_answers_is_judged_or_waited_for(answer in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = proxy("http://p:1").verdict(&answer, &target());
        }
    }
}
