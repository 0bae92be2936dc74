//! A message on its way into the outbox.

use broker::Position;
use mqtt::{PacketId, Publish, QoS, ReasonCode};

use crate::outbox::{Incoming, Origin, Parcel, Taken};
use crate::pipeline::Outcome;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Has the outbox take a message of a tenant; its sender is acknowledged once the log has it.
pub(crate) fn send(tenant: &Tenant, turn: &mut Turn<'_>, queue: u32, publish: &Publish<'_>) -> Outcome {
    let Some(queues) = turn.queues.as_deref_mut() else {
        return Outcome::now(ReasonCode::Success);
    };
    let provenance = turn.provenance.as_ref();
    let queue = provenance.map_or(queue, |provenance| queues.queue_of_edge(queue, &provenance.edge));
    let parcel = Parcel {
        received_ms: provenance.map_or(turn.now.unix_ms, |provenance| provenance.received_ms),
        origin: provenance.map(|provenance| Origin {
            edge: &provenance.edge,
            epoch: provenance.epoch,
            sequence: provenance.sequence,
            after: provenance.after,
        }),
        publish: Publish {
            dup: false,
            packet_id: (publish.qos != QoS::AtMostOnce).then_some(PacketId::MIN),
            ..publish.clone()
        },
    };
    let mut body = Vec::with_capacity(publish.topic.len() + publish.payload.len() + 32);
    parcel.encode(&mut body);
    let incoming = Incoming {
        queue,
        received_ms: parcel.received_ms,
        body,
        expiry_s: publish.properties.message_expiry_interval_s,
        tenant_limit_bytes: tenant.quotas.upstream_bytes.unwrap_or(u64::MAX),
        // At QoS 0 nobody hears of it, but for another hub, which keeps its messages until they are taken.
        may_come_again: provenance.is_some() || publish.qos != QoS::AtMostOnce,
    };
    match queues.take(turn.journal, turn.now, incoming) {
        Taken::Kept(after) => Outcome {
            reason: ReasonCode::Success,
            after,
        },
        Taken::Dropped => Outcome::now(ReasonCode::Success),
        Taken::Refused => Outcome {
            reason: ReasonCode::QuotaExceeded,
            after: Position::default(),
        },
    }
}
