//! Telemetry that a device sends by another way than MQTT.

use device::topic::{Channel, DeviceTopic};
use mqtt::{PacketId, Publish, PublishProperties, QoS};

use crate::pipeline::{self, Outcome};
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// What became of a message that a device posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It went where a PUBLISH with QoS 1 would have gone, and is as safe as its acknowledgement promises.
    Taken,
    /// The tenant has used up its rate; it may be posted again after a second.
    TooFast,
    /// There is no room for it.
    NoRoom,
}

/// Takes a message for `devices/{id}/telemetry` of a device that may send it.
pub(crate) fn take(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, payload: &[u8]) -> Outcome {
    turn.counters.messages_received += 1;
    let topic = DeviceTopic {
        device,
        channel: Channel::Telemetry,
    };
    let publish = Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: &topic.to_string(),
        packet_id: Some(PacketId::MIN),
        properties: PublishProperties::default(),
        payload,
    };
    pipeline::telemetry(tenant, turn, None, &topic, &publish)
}
