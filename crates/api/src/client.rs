//! How a command asks: over the control socket of a running edge, or a desk of its own where none runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as HttpBody, Bytes};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use identity::{Audit, AuditOptions, EdgeLock, Identity, IdentityOptions, LockError};
use link::edge::Proxies;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tower::ServiceExt;

use crate::desk::{About, Desk, Parts};
use crate::member::Member;
use crate::nodes::Nodes;
use crate::routers::control_router;
use crate::{CONTROL_SOCKET, unix_now_s};

/// Bytes of an answer: a page of a thousand devices with all their labels.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Asks an edge.
pub enum Client {
    /// It runs, and listens on this socket.
    Running(PathBuf),
    /// None runs on this data directory: this process does the work itself, holding the directory's lock.
    Stopped {
        /// Does the work.
        desk: Arc<Desk>,
        /// The way to it.
        router: Router,
        /// Keeps an edge from starting meanwhile.
        lock: EdgeLock,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: Vec<u8>,
}

/// Why there is no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no data directory.
    #[error("{0}: no edge has run here; start one: selvedge edge --data {0}")]
    NoData(String),
    /// The lock cannot be taken, and no control socket answers.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// What is in the directory cannot be opened.
    #[error(transparent)]
    Identity(#[from] identity::IdentityError),
    /// A file or socket failed.
    #[error("{path}: {source}")]
    Io {
        /// The file or socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The edge went away while it was asked.
    #[error("{path}: the edge gave no answer: {message}")]
    NoAnswer {
        /// Its control socket.
        path: PathBuf,
        /// What happened.
        message: String,
    },
    /// It answered that this cannot be done, in words.
    #[error("{0}")]
    Refused(String),
    /// It answered something else than expected.
    #[error("the edge answered what this version does not understand ({0}); are both of one version?")]
    Unexpected(serde_json::Error),
}

impl Client {
    /// Finds the edge of the data directory `data`; `creates` where the command may make a new directory.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn open(data: &Path, creates: bool) -> Result<Self, ClientError> {
        let socket = data.join(CONTROL_SOCKET);
        if UnixStream::connect(&socket).await.is_ok() {
            return Ok(Client::Running(socket));
        }
        if !data.exists() && !creates {
            return Err(ClientError::NoData(data.display().to_string()));
        }
        let lock = EdgeLock::acquire(data)?;
        let identity = Arc::new(Identity::open(data, IdentityOptions::default(), unix_now_s())?);
        let audit = Audit::open(data, AuditOptions::default()).map_err(|source| ClientError::Io {
            path: data.join("audit.log"),
            source,
        })?;
        let desk = Arc::new(Desk::new(Parts {
            data: data.to_owned(),
            identity,
            audit: Arc::new(audit),
            hub: None,
            hub_options: hub::Options::new(data),
            about: About::default(),
            link: None,
            member: Some(Arc::new(Member::new(data, Proxies::of_environment(), false))),
            nodes: Some(Arc::new(Nodes::new(Member::of_site(data, Proxies::of_environment())))),
            enrolment: None,
            connected: None,
            database: None,
            history: None,
            feed: None,
            supervisor: None,
            mesh: None,
            login_files: None,
        }));
        let router = control_router(Arc::clone(&desk));
        Ok(Client::Stopped { desk, router, lock })
    }

    /// Whether an edge runs.
    pub fn is_running(&self) -> bool {
        matches!(self, Client::Running(_))
    }

    /// Asks, and returns whatever the answer is.
    ///
    /// # Errors
    /// There is none.
    pub async fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Answer, ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "edge")
            .header("content-type", "application/json");
        match self {
            Client::Running(socket) => {
                let request = request.body(Full::new(Bytes::from(body))).expect("a checked path");
                ask_over(socket, request).await
            }
            Client::Stopped { router, .. } => {
                let request = request.body(Body::from(body)).expect("a checked path");
                let Ok(response) = router.clone().oneshot(request).await;
                collect(response).await.map_err(ClientError::Refused)
            }
        }
    }

    /// Asks; an answer that says it cannot be done is an error in its words.
    ///
    /// # Errors
    /// There is no answer, or it is such a one.
    pub async fn good(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let answer = self.ask(method, path, body).await?;
        if answer.status.is_success() {
            Ok(answer.body)
        } else {
            Err(ClientError::Refused(answer.message()))
        }
    }

    /// Reads something.
    ///
    /// # Errors
    /// As [`Client::good`], or it cannot be understood.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let body = self.good(Method::GET, path, Vec::new()).await?;
        serde_json::from_slice(&body).map_err(ClientError::Unexpected)
    }

    /// Sends something and reads the answer.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl serde::Serialize) -> Result<T, ClientError> {
        self.send(Method::POST, path, body).await
    }

    /// As [`Client::post`], with another method.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).expect("requests are JSON");
        let answer = self.good(method, path, body).await?;
        serde_json::from_slice(&answer).map_err(ClientError::Unexpected)
    }

    /// Ends what was started for this command.
    pub async fn close(self) {
        if let Client::Stopped { desk, lock, .. } = self {
            desk.close().await;
            drop(lock);
        }
    }
}

impl Answer {
    /// What it says in words of something that cannot be done.
    pub fn message(&self) -> String {
        let json: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let words = ["error", "message"].iter().find_map(|name| json[*name].as_str());
        let plain = || format!("{}: {}", self.status, String::from_utf8_lossy(&self.body));
        words.map_or_else(plain, str::to_owned)
    }
}

async fn ask_over(socket: &Path, request: Request<Full<Bytes>>) -> Result<Answer, ClientError> {
    let no_answer = |message: String| ClientError::NoAnswer {
        path: socket.to_owned(),
        message,
    };
    let stream = UnixStream::connect(socket).await.map_err(|source| ClientError::Io {
        path: socket.to_owned(),
        source,
    })?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| no_answer(error.to_string()))?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await;
    let response = response.map_err(|error| no_answer(error.to_string()))?;
    let answer = collect(response).await.map_err(no_answer)?;
    connection.abort();
    Ok(answer)
}

async fn collect<B>(response: Response<B>) -> Result<Answer, String>
where
    B: HttpBody,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_MAX_BYTES).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes().into();
    Ok(Answer { status, body })
}
