//! Messages into packets: batches for a cloud of Selvedge, for any other broker each by itself.

use std::sync::Arc;

use hub::{Lane, Parcel};
use mqtt::{PacketId, QoS, UserPropertiesBuf, Version};

use super::load::Load;
use crate::batch::{Encoder, EpochName, Place};

/// Messages of a batch, at most.
const BATCH_MESSAGES_MAX: usize = 4_096;
/// Bytes of a batch before it is made smaller, at most but for a longer message: what is live waits for as long as a
/// shard needs for one, some milliseconds, however few bytes the line has to carry.
pub(super) const BATCH_MOST_BYTES: usize = 32 << 10;

/// Puts messages of a lane into a batch, in their order; those that it takes. It has `line_bytes` on the line, and no
/// more than `plain_bytes` before it is made smaller.
pub(super) fn put_batch(
    encoder: &mut Encoder,
    load: &mut Load,
    lane: Lane,
    line_bytes: usize,
    plain_bytes: usize,
) -> Vec<hub::Outgoing> {
    let plain_bytes = plain_bytes.min(BATCH_MOST_BYTES);
    let mut messages = Vec::new();
    while messages.len() < BATCH_MESSAGES_MAX && (messages.is_empty() || encoder.len() < line_bytes) {
        let Some(next) = load.front(lane) else { break };
        let bytes = next.body.len();
        let fits = encoder.len() + bytes <= line_bytes && encoder.plain_len() + bytes <= plain_bytes;
        if !messages.is_empty() && !fits || !encoder.has_room_for(next.ticket.epoch, bytes) {
            break;
        }
        let message = load.pop(lane).expect("looked at just now");
        let name = EpochName {
            tenant: Arc::clone(&message.tenant),
            route: Arc::clone(&message.route),
            epoch: message.ticket.epoch,
        };
        if let Ok(parcel) = Parcel::decode(&message.body) {
            let place = Place {
                sequence: message.ticket.sequence,
                after: message.after,
                floor: message.floor,
            };
            encoder.put(&name, place, &parcel);
        }
        messages.push(message);
    }
    messages
}

/// Sends one message as it is, with where it had its place.
pub(super) fn put_one(load: &mut Load, lane: Lane, packet_id: PacketId, out: &mut Vec<u8>) -> Vec<hub::Outgoing> {
    let message = load.pop(lane).expect("there is one in this lane");
    if let Ok(parcel) = Parcel::decode(&message.body) {
        let mut properties = UserPropertiesBuf::new();
        for (name, value) in parcel.publish.properties.user_properties.iter() {
            properties.push(name, value);
        }
        properties.push("selvedge-epoch", &message.ticket.epoch.to_string());
        properties.push("selvedge-sequence", &message.ticket.sequence.to_string());
        properties.push("selvedge-received-ms", &parcel.received_ms.to_string());
        let mut publish = parcel.publish.clone();
        publish.qos = QoS::AtLeastOnce;
        publish.packet_id = Some(packet_id);
        publish.retain = false;
        publish.properties.user_properties = properties.as_properties();
        publish.encode(Version::V5, out);
    }
    vec![message]
}
