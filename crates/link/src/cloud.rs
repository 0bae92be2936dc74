//! The cloud's end of the link: serves the edges that the hub's doors let in.

mod registry;
mod session;

use std::sync::Arc;

use hub::{EdgeCall, Edges, Hub};
use serde_json::json;
use tokio::task::JoinSet;

pub use self::registry::{Connected, ConnectedEdge};
use self::session::Session;

/// Serves edges until the hub ends. Who is connected can be read from `connected`.
pub async fn run(hub: Arc<Hub>, mut edges: Edges, connected: Arc<Connected>) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            call = edges.calls.recv() => match call {
                Some(call) => pass_on(&hub, &connected, call).await,
                None => return,
            },
            connection = edges.connections.recv() => match connection {
                Some(connection) => {
                    let (hub, connected) = (Arc::clone(&hub), Arc::clone(&connected));
                    sessions.spawn(async move { Session::serve(connection, hub, &connected).await });
                }
                None => return,
            },
            Some(_) = sessions.join_next() => {}
        }
    }
}

/// Passes a call on to the connection of its edge, or answers it in place of the edge.
async fn pass_on(hub: &Hub, connected: &Connected, call: EdgeCall) {
    if let Err(call) = connected.send(Box::new(call)) {
        let message = format!(
            "{} is behind the edge {}, which is not connected",
            call.device, call.edge
        );
        hub.finish_call(*call, failure(404, &message)).await;
    }
}

/// The result of a call that no device gave, as [`EdgeCall`]s are answered.
fn failure(status: u16, message: &str) -> Vec<u8> {
    json!({"status": status, "payload": {"message": message}})
        .to_string()
        .into_bytes()
}
