//! Questions to the cloud's database: a few connections, each used by one question at a time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use cloud::{Error, Queries};
use tokio::sync::Semaphore;

use crate::wrong::{Done, Wrong};

/// Questions answered at one time; others wait.
const CONNECTIONS: usize = 4;

/// How long a question waits for its turn before it is refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the database that a URL names; connects when somebody asks, and keeps what it has connected.
pub(crate) struct Questions {
    url: String,
    idle: std::sync::Arc<Mutex<Vec<Queries>>>,
    turns: Semaphore,
}

impl Questions {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            idle: std::sync::Arc::default(),
            turns: Semaphore::new(CONNECTIONS),
        }
    }

    /// Runs `question`, which blocks, on a thread for that.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Queries) -> Result<T, Error> + Send + 'static,
    ) -> Done<T> {
        let turn = tokio::time::timeout(PATIENCE, self.turns.acquire()).await;
        let _turn = turn.map_err(|_| busy())?.expect("never closed");
        let (url, idle) = (self.url.clone(), std::sync::Arc::clone(&self.idle));
        let asking = tokio::task::spawn_blocking(move || {
            let held = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut queries = held.map_or_else(|| Queries::open(&url), Ok)?;
            let answer = question(&mut queries);
            // One whose database is away connects anew next time.
            if !matches!(answer, Err(Error::Away { .. } | Error::Unusable { .. })) {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(queries);
            }
            answer
        });
        let answer = asking.await.map_err(|error| Wrong::here(error.to_string()))?;
        Ok(answer?)
    }
}

fn busy() -> Wrong {
    let message = format!("the database answers {CONNECTIONS} questions at a time, and others wait; try again");
    Wrong::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(1)
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Bounds { .. } => StatusCode::BAD_REQUEST,
            Error::Away { .. } | Error::Full { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
