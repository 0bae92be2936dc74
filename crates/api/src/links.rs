//! The way to the cloud, and in the cloud the edges: who is connected, and what became of every message.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hub::{ArrivalCounts, ArrivalFigures, Discarded, Observation, QueueFigures};
use identity::{ClientKind, MAX_PAGE};
use link::cloud::Connected;

use crate::clients::date_time;
use crate::desk::Desk;
use crate::member::Member;
use crate::page::MetricsPage;
use crate::types::{ArrivalInfo, EdgeState, LedgerInfo, LinkInfo, Page};
use crate::wrong::{Done, Wrong};

/// The way to the cloud, or in a cloud to its database, and what became of every message.
#[utoipa::path(get, path = "/v1/link", tag = "edges", operation_id = "show_link",
    responses((status = 200, body = LinkInfo)))]
pub(crate) async fn show(State(desk): State<Arc<Desk>>) -> Done<Json<LinkInfo>> {
    let status = desk.link.as_ref().map(|link| link.snapshot());
    let ledgers = observe(&desk).await?;
    let ledgers = ledgers.iter().flat_map(|shard| &shard.queues);
    let member = desk.member.as_ref();
    let membership = member.and_then(|member| member.membership());
    let cloud = status.as_ref().and_then(|status| status.target.clone());
    Ok(Json(LinkInfo {
        is_connected: status
            .as_ref()
            .is_some_and(|status| status.state == link::edge::State::Connected),
        since_s: status
            .as_ref()
            .filter(|_| cloud.is_some())
            .map_or(0, |status| status.since.as_secs()),
        cloud,
        last_error: status.as_ref().and_then(|status| status.last_error.clone()),
        certificate_until: membership.map(|membership| date_time(membership.not_after_unix_s)),
        renewal_error: member.and_then(|member| member.trouble()),
        rate_bytes_per_s: status.as_ref().and_then(|status| status.rate_bytes_per_s),
        round_trip_ms: status
            .and_then(|status| status.round_trip)
            .map(|took| took.as_secs_f64() * 1_000.0),
        ledgers: ledgers.map(ledger).collect(),
    }))
}

/// The edges that were added, those that are connected among them, and what came from each.
#[utoipa::path(get, path = "/v1/edges", tag = "edges", operation_id = "list_edges",
    responses((status = 200, body = Page<EdgeState>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>) -> Done<Json<Page<EdgeState>>> {
    let mut edges = added(&desk).await?;
    for edge in desk.connected.iter().flat_map(|connected| connected.list()) {
        let state = edges.entry(edge.name.to_string()).or_default();
        state.is_connected = true;
        state.since_s = edge.since.as_secs();
        state.address = edge.address.map(|address| address.to_string());
    }
    for shard in observe(&desk).await? {
        for figures in &shard.arrivals {
            let state = edges.entry(figures.edge.to_string()).or_default();
            state.arrivals.push(arrival(figures));
        }
        for queue in &shard.queues {
            if let Some(edge) = &queue.edge {
                edges.entry(edge.to_string()).or_default().ledgers.push(ledger(queue));
            }
        }
    }
    let items = edges.into_iter().map(|(name, state)| EdgeState { name, ..state });
    Ok(Json(Page {
        items: items.collect(),
        has_more: false,
    }))
}

/// Those that are registered, whether they ever connected or not.
async fn added(desk: &Desk) -> Done<BTreeMap<String, EdgeState>> {
    let added = desk.with_registry(|registry| {
        let mut names = Vec::new();
        for tenant in registry.tenants()? {
            let mut last = None;
            loop {
                let page = registry.clients(&tenant.name, ClientKind::Edge, last.as_deref(), MAX_PAGE)?;
                names.extend(page.iter().map(|edge| edge.name.user_name()));
                match page.last().filter(|_| page.len() == MAX_PAGE) {
                    Some(edge) => last = Some(edge.name.id().to_string()),
                    None => break,
                }
            }
        }
        Ok(names)
    });
    Ok(added
        .await?
        .into_iter()
        .map(|name| (name, EdgeState::default()))
        .collect())
}

async fn observe(desk: &Desk) -> Done<Vec<Observation>> {
    desk.hub().await?.observe().await.ok_or_else(Wrong::no_answer)
}

fn arrival(figures: &ArrivalFigures) -> ArrivalInfo {
    let ArrivalCounts {
        taken,
        forbidden,
        sent_again,
        returned,
    } = figures.counts;
    ArrivalInfo {
        tenant: figures.tenant.to_string(),
        route: figures.route.to_string(),
        taken,
        forbidden,
        sent_again,
        returned,
    }
}

fn ledger(queue: &QueueFigures) -> LedgerInfo {
    let dropped = Discarded::ALL
        .iter()
        .map(|why| (why.label().to_owned(), queue.ledger.dropped[*why as usize]));
    LedgerInfo {
        tenant: queue.tenant.to_string(),
        route: queue.route.to_string(),
        edge: queue.edge.as_deref().map(str::to_owned),
        received: queue.ledger.received,
        delivered: queue.ledger.delivered,
        queued: queue.ledger.queued(),
        dropped: dropped.filter(|(_, messages)| *messages > 0).collect(),
        bytes: queue.bytes,
    }
}

/// What is said of an edge in a cloud on the page of metrics: its operator is to hear of a certificate that is not renewed.
pub(crate) fn write_member(page: &mut MetricsPage, member: Option<&Member>) {
    let help = "End of the certificate of an edge that has joined a cloud, in seconds of Unix time.";
    page.gauge("link_certificate_end_seconds", help);
    if let Some(membership) = member.and_then(Member::membership) {
        page.value(&[], membership.not_after_unix_s);
    }
}

/// What is said of all this on the page of metrics.
pub(crate) fn write(page: &mut MetricsPage, shards: &[Observation]) {
    let queues = || shards.iter().flat_map(|shard| &shard.queues);
    type OfQueue = fn(&QueueFigures) -> u64;
    let counters: [(&str, &str, OfQueue); 2] = [
        ("upstream_received_total", "Messages that routes sent upstream.", |q| {
            q.ledger.received
        }),
        ("upstream_delivered_total", "Of these, those that are there.", |q| {
            q.ledger.delivered
        }),
    ];
    for (name, help, of) in counters {
        page.counter(name, help);
        queues().for_each(|queue| write_one(page, queue, of(queue)));
    }
    page.counter("upstream_dropped_total", "Those that never will be, by reason.");
    for queue in queues() {
        for why in Discarded::ALL {
            let mut labels = labels(queue);
            labels.push(("reason", why.label()));
            page.value(&labels, queue.ledger.dropped[why as usize]);
        }
    }
    page.gauge("upstream_queued_messages", "Those that wait, or are on their way.");
    queues().for_each(|queue| write_one(page, queue, queue.ledger.queued()));
    page.gauge("upstream_queued_bytes", "Bytes of the log that they take.");
    queues().for_each(|queue| write_one(page, queue, queue.bytes));
    type OfArrivals = fn(&ArrivalCounts) -> u64;
    let counters: [(&str, &str, OfArrivals); 4] = [
        (
            "edge_messages_total",
            "Messages that came from an edge and were taken, each counted once.",
            |counts| counts.taken,
        ),
        (
            "edge_messages_forbidden_total",
            "Those that no edge may send, and that went no further.",
            |counts| counts.forbidden,
        ),
        (
            "edge_messages_sent_again_total",
            "Those that came again, though they had been taken.",
            |counts| counts.sent_again,
        ),
        (
            "edge_messages_returned_total",
            "Those that there was no room for, and that the edge was to send again later.",
            |counts| counts.returned,
        ),
    ];
    for (name, help, of) in counters {
        page.counter(name, help);
        for arrival in shards.iter().flat_map(|shard| &shard.arrivals) {
            let labels = [
                ("edge", &*arrival.edge),
                ("tenant", &arrival.tenant),
                ("route", &arrival.route),
            ];
            page.value(&labels, of(&arrival.counts));
        }
    }
}

/// What is said in a cloud of edges that bring what they may not.
pub(crate) fn write_foreign(page: &mut MetricsPage, connected: Option<&Connected>) {
    if let Some(connected) = connected {
        let help =
            "Messages of tenants that the edge which brought them may not speak for, and which it was told to drop.";
        page.counter("edge_messages_foreign_total", help);
        page.value(&[], connected.foreign_messages());
    }
}

fn write_one(page: &mut MetricsPage, queue: &QueueFigures, value: u64) {
    page.value(&labels(queue), value);
}

fn labels(queue: &QueueFigures) -> Vec<(&str, &str)> {
    let edge = queue.edge.as_deref().map(|edge| ("edge", edge));
    let mut labels = vec![("tenant", &*queue.tenant), ("route", &*queue.route)];
    labels.extend(edge);
    labels
}
