//! The cloud's end of the link: serves the edges that the hub's doors let in.

mod registry;
mod session;
mod twins;

use std::sync::Arc;

use hub::{EdgeCall, Edges, Hub};
use identity::Identity;
use serde_json::json;
use tokio::task::JoinSet;

pub use self::registry::{Connected, ConnectedEdge};
use self::session::Session;

/// Serves edges until the hub ends. Who is connected can be read from `connected`.
pub async fn run(hub: Arc<Hub>, identity: Arc<Identity>, mut edges: Edges, connected: Arc<Connected>) {
    let mut sessions = JoinSet::new();
    let mut changes = hub.take_twin_changes().expect("a cloud shares twins with its edges");
    loop {
        tokio::select! {
            biased;
            call = edges.calls.recv() => match call {
                Some(call) => pass_on(&hub, &connected, call).await,
                None => return,
            },
            connection = edges.connections.recv() => match connection {
                Some(connection) => {
                    let (hub, identity) = (Arc::clone(&hub), Arc::clone(&identity));
                    let connected = Arc::clone(&connected);
                    sessions.spawn(async move { Session::serve(connection, hub, identity, &connected).await });
                }
                None => return,
            },
            change = changes.recv() => match change {
                Some(change) => connected.tell(change),
                None => return,
            },
            Some(_) = sessions.join_next() => {}
        }
    }
}

/// Passes a call on to the connection of its edge, or answers it in place of the edge.
async fn pass_on(hub: &Hub, connected: &Connected, call: EdgeCall) {
    if let Err(call) = connected.call(Box::new(call)) {
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
