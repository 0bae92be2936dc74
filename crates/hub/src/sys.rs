//! What the hub says of itself under `$SYS/` (MQTT section 4.7.2), to each tenant of its own tree alone.

use mqtt::QoS;

use crate::pipeline;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Time in milliseconds between two reports.
const INTERVAL_MS: u64 = 10_000;

/// Publishes the figures of a tenant, retained, if it is time.
pub(crate) fn report(tenant: &mut Tenant, turn: &mut Turn<'_>) {
    if turn.now.monotonic_ms < tenant.reports_at_ms {
        return;
    }
    tenant.reports_at_ms = turn.now.monotonic_ms + INTERVAL_MS;
    let figures = tenant.broker.statistics();
    let report = [
        ("$SYS/broker/version", format!("selvedge {}", env!("CARGO_PKG_VERSION"))),
        ("$SYS/broker/uptime", (turn.now.monotonic_ms / 1_000).to_string()),
        ("$SYS/broker/clients/connected", figures.connected.to_string()),
        ("$SYS/broker/clients/total", figures.sessions.to_string()),
        ("$SYS/broker/subscriptions/count", figures.subscriptions.to_string()),
        (
            "$SYS/broker/retained messages/count",
            figures.retained_messages.to_string(),
        ),
        ("$SYS/broker/messages/inflight", figures.in_flight.to_string()),
        ("$SYS/broker/messages/queued", figures.queued_messages.to_string()),
    ];
    for (topic, text) in report {
        pipeline::announce(tenant, turn, topic, text.as_bytes(), QoS::AtMostOnce, true);
    }
}
