//! The request by which an edge joins a cloud; for the control socket alone.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use identity::JoinToken;
use link::edge::Target;
use serde::{Deserialize, Serialize};

use crate::clients::date_time;
use crate::desk::Desk;
use crate::wrong::{Done, Wrong};

/// Which cloud to join.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinCloud {
    /// Where it is: `https://host:port`.
    pub url: String,
    /// What its operator gave.
    pub token: String,
}

/// How an edge joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Who it is there.
    pub edge: String,
    /// Where its link goes.
    pub link_url: String,
    /// Until when its certificate is good, which it renews by itself.
    pub until: String,
    /// Whether it runs, and links now.
    pub is_running: bool,
}

/// Joins a cloud, or another one than before.
pub(crate) async fn join(State(desk): State<Arc<Desk>>, Json(join): Json<JoinCloud>) -> Done<Json<Joined>> {
    let member = desk
        .member
        .as_ref()
        .ok_or_else(|| Wrong::request("this is a cloud; an edge joins one: give its directory with --data"))?;
    if member.is_configured {
        let message = "the edge's configuration says where its cloud is (link.url), which wins; take it out, start the \
                       edge again, and join then";
        return Err(Wrong::new(StatusCode::CONFLICT, message));
    }
    let target = Target::https(&join.url).map_err(|error| Wrong::request(error.to_string()))?;
    let token = JoinToken::parse(&join.token).map_err(|error| Wrong::request(error.to_string()))?;
    let joined = member.join(&target, join, &token).await;
    let membership = joined.map_err(|error| Wrong::request(error.to_string()))?;
    let is_running = desk.running_hub().is_some();
    if is_running {
        // Before the answer: what devices say after it is for the cloud.
        desk.open_upstream().await.map_err(Wrong::here)?;
    }
    Ok(Json(Joined {
        edge: membership.edge,
        link_url: membership.link_url,
        until: date_time(membership.not_after_unix_s),
        is_running,
    }))
}
