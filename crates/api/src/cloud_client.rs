//! How an edge asks its cloud over HTTPS: each request on a connection of its own, straight or through a proxy.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use link::edge::{Proxies, Stream, Target, connect};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Time for a connection, and then for an answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of an answer.
const ANSWER_MAX_BYTES: usize = 64 * 1024;

/// Characters of a refusal that are shown: whoever answers there may say anything.
const WORDS_MAX_CHARS: usize = 500;

pub(crate) struct CloudClient<'a> {
    pub(crate) target: &'a Target,
    pub(crate) proxies: &'a Proxies,
    pub(crate) tls: Arc<rustls::ClientConfig>,
}

/// Why there is no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CloudError {
    /// There is none at all, or none that is HTTP.
    #[error("{0}")]
    NoAnswer(String),
    /// It says that this cannot be done.
    #[error("{place} answers: {words}")]
    Refused {
        place: String,
        status: StatusCode,
        words: String,
    },
    /// It says something else than a cloud would.
    #[error("{0} answers what no cloud of Selvedge does; is the URL right?")]
    Unexpected(String),
}

impl CloudClient<'_> {
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CloudError> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CloudError> {
        let body = serde_json::to_vec(body).expect("requests are JSON");
        self.ask(Method::POST, path, body.into()).await
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, CloudError> {
        let place = self.target.place();
        let stream = connect(self.target, self.proxies, &self.tls, TIMEOUT).await;
        let stream = stream.map_err(CloudError::NoAnswer)?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &place)
            .header("content-type", "application/json")
            .body(Full::new(body))
            .expect("a checked path and host");
        let answered = tokio::time::timeout(TIMEOUT, exchange(stream, request)).await;
        let no_answer = |why: String| CloudError::NoAnswer(format!("{place}: {why}"));
        let late = |_| no_answer(format!("no answer within {} s", TIMEOUT.as_secs()));
        let (status, body) = answered.map_err(late)?.map_err(no_answer)?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| CloudError::Unexpected(place));
        }
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        match json["error"].as_str() {
            Some(words) if status != StatusCode::NOT_FOUND => Err(CloudError::Refused {
                place,
                status,
                words: words
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(WORDS_MAX_CHARS)
                    .collect(),
            }),
            _ => Err(CloudError::Unexpected(place)),
        }
    }
}

async fn exchange(stream: Stream, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await;
    let response = response.map_err(|error| format!("the connection ended before there was an answer ({error})"))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_MAX_BYTES).collect().await;
    connection.abort();
    Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
}
