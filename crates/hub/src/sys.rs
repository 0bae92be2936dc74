//! What the hub says of itself under `$SYS/` (MQTT section 4.7.2), to each tenant of its own tree alone.

use mqtt::QoS;

use crate::pipeline;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Time in milliseconds between two reports.
const INTERVAL_MS: u64 = 10_000;

/// Time in milliseconds between the reports of two tenants.
const SPREAD_MS: u64 = 97;

/// Publishes the figures of a tenant, retained, if it is time.
pub(crate) fn report(tenant: &mut Tenant, turn: &mut Turn<'_>) {
    if turn.now.monotonic_ms < tenant.reports_at_ms {
        return;
    }
    // The first interval of each tenant is shorter by another time, so that not all report in one turn ever after.
    let is_first = tenant.reports_at_ms == 0;
    let earlier_ms = u64::from(is_first) * (u64::from(turn.tenant) * SPREAD_MS % INTERVAL_MS);
    tenant.reports_at_ms = turn.now.monotonic_ms + INTERVAL_MS - earlier_ms;
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
