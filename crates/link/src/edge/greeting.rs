//! CONNECT, and what the other end answers.

use std::time::Duration;

use mqtt::{Connect, Packet, ReasonCode, UserPropertiesBuf, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Options;
use super::dial::Stream;
use super::life::KEEP_ALIVE_S;
use super::session::PACKET_BYTES_MAX;
use crate::packets::Packets;
use crate::topics;

/// What the other end says of itself.
pub(super) struct Told {
    pub(super) speaks_selvedge: bool,
    /// Packets that may be on the way.
    pub(super) receive_maximum: usize,
    pub(super) packet_bytes_max: usize,
}

/// A connection whose CONNECT was answered.
pub(super) struct Greeted {
    pub(super) stream: Stream,
    pub(super) told: Told,
    /// What came behind the answer.
    pub(super) packets: Packets,
}

/// Logs in.
pub(super) async fn log_in(
    mut stream: Stream,
    options: &Options,
    instance: &str,
    timeout: Duration,
) -> Result<Greeted, String> {
    let mut packets = Packets::new(PACKET_BYTES_MAX);
    let answer = async {
        let bytes = connect_packet(options, instance);
        stream.write_all(&bytes).await.map_err(|error| error.to_string())?;
        stream.flush().await.map_err(|error| error.to_string())?;
        answer_to_connect(&mut stream, &mut packets).await
    };
    let answer = tokio::time::timeout(timeout, answer).await;
    let told = answer.map_err(|_| "the cloud accepts the connection and does not answer".to_owned())??;
    Ok(Greeted { stream, told, packets })
}

fn connect_packet(options: &Options, instance: &str) -> Vec<u8> {
    let mut properties = UserPropertiesBuf::new();
    properties.push(topics::DIALECT.0, topics::DIALECT.1);
    properties.push(topics::INSTANCE, instance);
    let mut connect = Connect::new(Version::V5, &options.edge);
    connect.keep_alive_s = KEEP_ALIVE_S;
    connect.maximum_packet_size = Some(PACKET_BYTES_MAX as u32);
    connect.user_name = options.login.as_ref().map(|login| &*login.user_name);
    connect.password = options.login.as_ref().map(|login| &*login.password);
    connect.user_properties = properties.as_properties();
    let mut bytes = Vec::new();
    Packet::Connect(Box::new(connect)).encode(Version::V5, &mut bytes);
    bytes
}

async fn answer_to_connect(stream: &mut Stream, packets: &mut Packets) -> Result<Told, String> {
    loop {
        match packets.next().map_err(|error| error.to_string())? {
            Some(Packet::ConnAck(answer)) if answer.reason == ReasonCode::Success => {
                let (name, version) = topics::DIALECT;
                return Ok(Told {
                    speaks_selvedge: answer.user_properties.get(name) == Some(version),
                    receive_maximum: answer
                        .receive_maximum
                        .map_or(usize::from(u16::MAX), |most| most.get().into()),
                    packet_bytes_max: answer.maximum_packet_size.unwrap_or(u32::MAX) as usize,
                });
            }
            Some(Packet::ConnAck(answer)) => {
                return Err(refusal(answer.reason, answer.reason_string.unwrap_or_default()));
            }
            Some(_) => return Err("the cloud answered CONNECT with another packet than CONNACK".to_owned()),
            None => {}
        }
        let buffer = packets.buffer();
        match stream.read_buf(buffer).await {
            Ok(0) => return Err("the cloud closed the connection before it answered CONNECT".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Why the cloud refused the edge. Who has no right credential is told no more, so what it may be is said here.
fn refusal(reason: ReasonCode, why: &str) -> String {
    let hint = match reason {
        ReasonCode::BadUserNameOrPassword | ReasonCode::NotAuthorized if why.is_empty() => {
            "its credential is wrong or was revoked, or the edge is disabled or removed there"
        }
        _ => why,
    };
    format!("the cloud refused the edge: {reason:?} {hint}")
}
