//! What registries are asked by: HTTP, with a token or a password, wherever they send who asks.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64ct::{Base64, Encoding};
use http_auth::ChallengeParser;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderMap, LOCATION, RANGE, USER_AGENT, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use oci_spec::distribution::Reference;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::{Host, Url};

use super::{Error, Login, SILENCE};

/// Until a connection is there.
const CONNECT: Duration = Duration::from_secs(20);
/// Times that somebody who asks is sent elsewhere.
const REDIRECTS_MAX: u32 = 5;
/// Of a token, or of what is said where something is not given.
const WORDS_BYTES_MAX: usize = 64 << 10;
/// All that can be used, the newer before the older.
const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json, \
    application/octet-stream";

/// A stream of bytes both ways.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// A connection, or in words why there is none.
pub type Dialing = Pin<Box<dyn Future<Output = Result<Box<dyn Connection>, String>> + Send>>;

/// Connects to the server of a URL of `https`, which has proved to be that, within the time.
pub type Dial = Arc<dyn Fn(&str, Duration) -> Dialing + Send + Sync>;

/// Asks one registry for one repository.
pub(super) struct Session<'a> {
    dial: &'a Dial,
    /// As people write it.
    registry: &'a str,
    host: &'a str,
    repository: &'a str,
    login: Option<&'a Login>,
    /// Sent with each request to the registry, once it was asked for.
    authorization: Option<String>,
}

/// With what keeps its connection.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    _connection: SendRequest<Empty<Bytes>>,
}

/// What a server of tokens gives.
/// Under one of two names, or under both.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// What a registry asks for.
#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    Password,
    Token {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl<'a> Session<'a> {
    pub(super) fn new(dial: &'a Dial, reference: &'a Reference, login: Option<&'a Login>) -> Self {
        Session {
            dial,
            registry: reference.registry(),
            host: reference.resolve_registry(),
            repository: reference.repository(),
            login,
            authorization: None,
        }
    }

    /// Of the repository, such as `blobs/sha256:…`, from a byte on. It is there, whole or in part.
    pub(super) async fn get(&mut self, path: &str, from_bytes: u64) -> Result<Answer, Error> {
        let scheme = if is_loopback(self.host) { "http" } else { "https" };
        let url = format!("{scheme}://{}/v2/{}/{path}", self.host, self.repository);
        let url = Url::parse(&url).map_err(|error| self.wrong(format!("{url}: {error}")))?;
        let answer = self.follow(&url, from_bytes).await?;
        if answer.response.status() != StatusCode::UNAUTHORIZED {
            return self.given(answer).await;
        }
        // A token that it had may be over by now.
        self.authorization = Some(self.authorize(answer.response.headers()).await?);
        let answer = self.follow(&url, from_bytes).await?;
        self.given(answer).await
    }

    /// All of an answer's body.
    pub(super) async fn whole(&self, answer: Answer, bytes_max: usize) -> Result<Bytes, Error> {
        let reading = Limited::new(answer.response.into_body(), bytes_max).collect();
        match timeout(SILENCE, reading).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) => Err(self.wrong(format!(
                "what it says has more than {bytes_max} bytes, or ends early: {error}"
            ))),
            Err(_) => Err(self.silent()),
        }
    }

    /// Wherever it sends who asks; what proves who that is goes to itself alone.
    async fn follow(&self, home: &Url, from_bytes: u64) -> Result<Answer, Error> {
        let mut url = home.clone();
        for _ in 0..=REDIRECTS_MAX {
            let is_home = url.origin() == home.origin();
            let authorization = self.authorization.as_deref().filter(|_| is_home);
            let answer = self.send(&url, authorization, from_bytes).await?;
            if !answer.response.status().is_redirection() {
                return Ok(answer);
            }
            let location = answer.response.headers().get(LOCATION);
            let location = location.and_then(|location| location.to_str().ok()).unwrap_or_default();
            url = url
                .join(location)
                .map_err(|error| self.wrong(format!("it sends elsewhere, to {location:?}: {error}")))?;
        }
        Err(self.wrong(format!("it sends elsewhere more than {REDIRECTS_MAX} times")))
    }

    async fn send(&self, url: &Url, authorization: Option<&str>, from_bytes: u64) -> Result<Answer, Error> {
        let host = url.host_str().ok_or_else(|| self.wrong(format!("{url} has no host")))?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let mut request = Request::get(target)
            .header(HOST, &authority)
            .header(USER_AGENT, "selvedge")
            .header(ACCEPT, ACCEPTED);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if from_bytes > 0 {
            request = request.header(RANGE, format!("bytes={from_bytes}-"));
        }
        let request = request
            .body(Empty::new())
            .map_err(|error| self.wrong(error.to_string()))?;
        let stream = self.connect(url).await?;
        let asking = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            let response = sender.send_request(request).await?;
            Ok::<_, hyper::Error>(Answer {
                response,
                _connection: sender,
            })
        };
        match timeout(SILENCE, asking).await {
            Ok(answer) => answer.map_err(|error| self.unreachable(error.to_string())),
            Err(_) => Err(self.silent()),
        }
    }

    async fn connect(&self, url: &Url) -> Result<Box<dyn Connection>, Error> {
        if url.scheme() == "https" {
            let dialed = (self.dial)(&url.origin().ascii_serialization(), CONNECT).await;
            return dialed.map_err(|message| self.unreachable(message));
        }
        let host = url.host_str().unwrap_or_default();
        if !is_loopback(host) || !is_loopback(self.host) {
            return Err(self.wrong(format!(
                "it sends to {url}, which anybody could read and change; only https will do"
            )));
        }
        let connecting = TcpStream::connect((host.trim_matches(['[', ']']), url.port().unwrap_or(80)));
        match timeout(CONNECT, connecting).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(self.unreachable(error.to_string())),
            Err(_) => Err(self.silent()),
        }
    }

    /// What is to be sent with each request from now on.
    async fn authorize(&self, headers: &HeaderMap) -> Result<String, Error> {
        let login = self.login.map(|login| {
            let pair = format!("{}:{}", login.user, login.password);
            format!("Basic {}", Base64::encode_string(pair.as_bytes()))
        });
        let challenge = challenge(headers).ok_or_else(|| self.wrong("it does not say how to log in".to_owned()))?;
        let Challenge::Token { realm, service, scope } = challenge else {
            return login.ok_or_else(|| self.unknown());
        };
        let mut url = Url::parse(&realm).map_err(|error| self.wrong(format!("tokens are at {realm:?}: {error}")))?;
        let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.repository));
        let asked = service
            .iter()
            .map(|service| ("service", service))
            .chain([("scope", &scope)]);
        url.query_pairs_mut().extend_pairs(asked);
        let answer = self.send(&url, login.as_deref(), 0).await?;
        if answer.response.status() == StatusCode::UNAUTHORIZED {
            return Err(self.unknown());
        }
        let answer = self.given(answer).await?;
        let text = self.whole(answer, WORDS_BYTES_MAX).await?;
        let token: Token = serde_json::from_slice(&text)
            .map_err(|error| self.wrong(format!("its token cannot be understood: {error}")))?;
        let token = token.token.or(token.access_token);
        let token = token.ok_or_else(|| self.wrong("its answer has no token".to_owned()))?;
        Ok(format!("Bearer {token}"))
    }

    async fn given(&self, answer: Answer) -> Result<Answer, Error> {
        let status = answer.response.status();
        match status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(answer),
            StatusCode::UNAUTHORIZED => Err(self.unknown()),
            _ if status.is_server_error() => Err(self.unreachable(format!("it answers with {status}"))),
            _ => {
                let text = self.whole(answer, WORDS_BYTES_MAX).await.unwrap_or_default();
                let json: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
                let message = json["errors"][0]["message"].as_str().map(str::to_owned);
                Err(Error::Refused {
                    registry: self.registry.to_owned(),
                    status,
                    message,
                })
            }
        }
    }

    fn unknown(&self) -> Error {
        let message = match self.login {
            Some(login) => format!("it does not know {:?} by that password", login.user),
            None => "it wants a user and a password; name them in a Secret (imagePullSecrets)".to_owned(),
        };
        Error::Refused {
            registry: self.registry.to_owned(),
            status: StatusCode::UNAUTHORIZED,
            message: Some(message),
        }
    }

    pub(super) fn silent(&self) -> Error {
        self.unreachable("it says nothing".to_owned())
    }

    pub(super) fn unreachable(&self, message: String) -> Error {
        Error::Unreachable {
            registry: self.registry.to_owned(),
            message,
        }
    }

    pub(super) fn wrong(&self, message: String) -> Error {
        Error::Wrong {
            registry: self.registry.to_owned(),
            message,
        }
    }
}

/// The first that can be met.
fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    let texts = headers.get_all(WWW_AUTHENTICATE).into_iter();
    let texts: Vec<&str> = texts.filter_map(|text| text.to_str().ok()).collect();
    let challenges = texts
        .iter()
        .flat_map(|text| ChallengeParser::new(text))
        .filter_map(Result::ok);
    let mut known = challenges.filter_map(|challenge| {
        let value = |name: &str| {
            let mut named = challenge
                .params
                .iter()
                .filter(|(key, _)| key.eq_ignore_ascii_case(name));
            named.next().map(|(_, value)| value.to_unescaped())
        };
        match challenge.scheme.to_ascii_lowercase().as_str() {
            "basic" => Some(Challenge::Password),
            "bearer" => Some(Challenge::Token {
                realm: value("realm")?,
                service: value("service"),
                scope: value("scope"),
            }),
            _ => None,
        }
    });
    known.next()
}

/// Of this machine: nobody else is on the way.
fn is_loopback(authority: &str) -> bool {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let has_port = port.bytes().all(|byte| byte.is_ascii_digit());
    match Host::parse(if has_port { host } else { authority }) {
        Ok(Host::Domain(name)) => name == "localhost",
        Ok(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Ok(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&Challenge>) {
        let mut headers = HeaderMap::new();
        headers.insert(WWW_AUTHENTICATE, text.parse().unwrap());
        assert_eq!(challenge(&headers).as_ref(), expected, "{text}");
    }

    #[test]
    fn what_a_registry_asks_for_is_understood() {
        check("Basic realm=\"registry\"", Some(&Challenge::Password));
        check(
            "Bearer realm=\"https://auth.example/token\",service=\"registry.example\",scope=\"repository:web:pull\"",
            Some(&Challenge::Token {
                realm: "https://auth.example/token".to_owned(),
                service: Some("registry.example".to_owned()),
                scope: Some("repository:web:pull".to_owned()),
            }),
        );
        check("Bearer service=\"none\"", None);
        check("Negotiate", None);
        check("Bearer realm=\"", None);
    }

    #[test]
    fn only_this_machine_is_asked_without_tls() {
        for host in ["localhost", "localhost:5000", "127.0.0.1:80", "127.3.0.1", "[::1]:5000"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "registry.example:5000",
            "localhost.example",
            "10.0.0.1",
            "[::2]:5000",
            "::1",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
