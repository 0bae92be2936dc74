//! Whether the edge lives, and whether it should be sent clients.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use hub::Observation;

use crate::desk::Desk;

/// Time that the shards have to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// `GET /healthz`: 200 while every shard's loop turns.
pub(crate) async fn live(State(desk): State<Arc<Desk>>) -> (StatusCode, &'static str) {
    match observe(&desk).await {
        Some(_) => (StatusCode::OK, "ok\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "a shard does not answer\n"),
    }
}

/// `GET /readyz`: 200 while clients are served and promises can be kept.
pub(crate) async fn ready(State(desk): State<Arc<Desk>>) -> (StatusCode, &'static str) {
    let unready = |why| (StatusCode::SERVICE_UNAVAILABLE, why);
    if desk.is_stopping() {
        return unready("stopping\n");
    }
    match observe(&desk).await {
        None => unready("a shard does not answer\n"),
        Some(shards) if shards.iter().any(|shard| shard.log_has_stopped) => {
            unready("the log has stopped after a failed write; nothing further is made durable\n")
        }
        Some(shards) if shards.iter().any(|shard| shard.log.full) => {
            unready("the log is full; nothing further is kept until there is room\n")
        }
        Some(_) => (StatusCode::OK, "ready\n"),
    }
}

async fn observe(desk: &Desk) -> Option<Vec<Observation>> {
    let hub = desk.running_hub()?;
    tokio::time::timeout(PATIENCE, hub.observe()).await.ok()?
}
