//! Who has the name of an edge, where two connections want it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hub::EdgeConnection;
use mqtt::{ConnAck, Packet, ReasonCode, Version};
use tokio::time::sleep;

use super::registry::{Connected, Entered};

/// How often it is looked whether an older connection still lives.
const LOOK: Duration = Duration::from_millis(200);

/// What an edge asks for when it connects: its name.
pub(super) struct Claim {
    pub(super) name: Arc<str>,
    pub(super) instance: String,
    pub(super) keep_alive: Duration,
}

impl Claim {
    /// Enters, once an older connection of this name is seen to be dead; else who has it. An edge whose line or machine
    /// failed leaves one behind that nobody ended.
    pub(super) async fn enter(
        &self,
        connected: &Connected,
        connection: &EdgeConnection,
    ) -> Result<Entered, Option<SocketAddr>> {
        let asked_at = Instant::now();
        let mut is_asked = false;
        loop {
            let name = Arc::clone(&self.name);
            match connected.enter(name, &self.instance, connection.address(), self.keep_alive) {
                Ok(entered) => return Ok(entered),
                Err(taken) if taken.heard_at > asked_at => return Err(taken.by),
                Err(_) => {
                    if !is_asked {
                        connected.look_for_life(&self.name);
                    }
                    is_asked = true;
                    sleep(LOOK).await;
                }
            }
        }
    }
}

/// Another edge has its name.
pub(super) async fn refuse(mut connection: EdgeConnection, by: Option<SocketAddr>) {
    let edge = connection.name();
    let from = by.map_or_else(|| "a Unix socket".to_owned(), |by| by.to_string());
    let why = format!(
        "an edge \"{edge}\" is connected already, from {from}; if this one is a copy of it, join it under a name of its own"
    );
    tracing::warn!(%edge, address = ?connection.address(), %from, "two edges have one name");
    let mut answer = ConnAck::new(ReasonCode::ClientIdentifierNotValid);
    answer.reason_string = Some(&why);
    let mut bytes = Vec::new();
    Packet::ConnAck(Box::new(answer)).encode(Version::V5, &mut bytes);
    // A few bytes into an empty buffer.
    let _ = connection.write(&bytes).await;
}
