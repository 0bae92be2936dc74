//! The way to the cloud, and in the cloud the edges: who is connected, and what became of every message.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use hub::{ArrivalCounts, ArrivalFigures, Discarded, Observation, QueueFigures};
use identity::{ClientKind, DEFAULT_TENANT, MAX_PAGE};
use link::cloud::{Connected, ConnectedEdge};
use link::edge::State as LinkState;

use crate::clients::date_time;
use crate::desk::Desk;
use crate::member::Member;
use crate::page::MetricsPage;
use crate::types::{ArrivalInfo, EdgeState, LedgerInfo, LinkInfo, Page, TenantLink, Upstream};
use crate::wrong::{Done, Wrong};

/// The way to the cloud, or in a cloud to its database, and what became of every message.
#[utoipa::path(get, path = "/v1/link", tag = "edges", operation_id = "show_link",
    responses((status = 200, body = LinkInfo)))]
pub(crate) async fn show(State(desk): State<Arc<Desk>>) -> Done<Json<LinkInfo>> {
    let status = desk.link.as_ref().map(|link| link.snapshot());
    let shards = observe(&desk).await?;
    let queues = || shards.iter().flat_map(|shard| &shard.queues);
    let member = desk.member.as_ref();
    let membership = member.and_then(|member| member.membership());
    let cloud = status.as_ref().and_then(|status| status.target.clone());
    Ok(Json(LinkInfo {
        goes_to: goal(&desk),
        is_connected: is_connected(&desk),
        since_s: status
            .as_ref()
            .filter(|_| goal(&desk) == Upstream::Cloud)
            .map_or(0, |status| status.since.as_secs()),
        cloud,
        last_error: status.as_ref().and_then(|status| status.last_error.clone()),
        certificate_until: membership.map(|membership| date_time(membership.not_after_unix_s)),
        renewal_error: member.and_then(|member| member.trouble()),
        rate_bytes_per_s: status.as_ref().and_then(|status| status.rate_bytes_per_s),
        round_trip_ms: status
            .and_then(|status| status.round_trip)
            .map(|took| took.as_secs_f64() * 1_000.0),
        oldest_s: queues().filter_map(|queue| queue.oldest_s).max(),
        queued_bytes: queues().map(|queue| queue.bytes).sum(),
        limit_bytes: shards.iter().map(|shard| shard.upstream_limit_bytes).sum(),
        ledgers: queues().map(ledger).collect(),
    }))
}

fn goal(desk: &Desk) -> Upstream {
    match (&desk.connected, desk.has_upstream()) {
        (Some(_), _) => Upstream::Database,
        (None, true) => Upstream::Cloud,
        (None, false) => Upstream::Nowhere,
    }
}

/// Whether an edge has a connection to its cloud.
fn is_connected(desk: &Desk) -> bool {
    let status = desk.link.as_ref().map(|link| link.snapshot());
    status.is_some_and(|status| status.state == LinkState::Connected)
}

/// What became of a tenant's own messages that routes send upstream; in a cloud also of those that edges brought, and
/// whether these are connected.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/link", tag = "edges", operation_id = "show_link_of_tenant",
    responses((status = 200, body = TenantLink)))]
pub(crate) async fn of_tenant(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Done<Json<TenantLink>> {
    desk.check_tenant(&tenant).await?;
    let shards = observe(&desk).await?;
    let queues = shards.iter().flat_map(|shard| &shard.queues);
    let own_queues = queues.filter(|queue| queue.edge.is_none() && *queue.tenant == *tenant);
    let is_own = |edge: &str| tenant_of(edge) == tenant;
    let is_of_tenant = |of: &str| of == tenant;
    let mut edges = edges(&desk, &shards, is_of_tenant).await?;
    edges.retain(|edge| is_own(&edge.name) || !edge.arrivals.is_empty() || !edge.ledgers.is_empty());
    for edge in edges.iter_mut().filter(|edge| !is_own(&edge.name)) {
        edge.address = None;
    }
    Ok(Json(TenantLink {
        goes_to: goal(&desk),
        is_connected: desk.connected.is_some() || is_connected(&desk),
        ledgers: own_queues.map(ledger).collect(),
        edges,
    }))
}

/// The tenant of an edge of this name: `{id}` in the default one, else `{tenant}/{id}`.
fn tenant_of(edge: &str) -> &str {
    edge.split_once('/').map_or(DEFAULT_TENANT, |(tenant, _)| tenant)
}

/// The edges that were added, those that are connected among them, and what came from each.
#[utoipa::path(get, path = "/v1/edges", tag = "edges", operation_id = "list_edges",
    responses((status = 200, body = Page<EdgeState>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>) -> Done<Json<Page<EdgeState>>> {
    let shards = observe(&desk).await?;
    Ok(Json(Page {
        items: edges(&desk, &shards, |_| true).await?,
        has_more: false,
    }))
}

/// All edges of a cloud, by their names, each with what it brought of the tenants that are asked for.
async fn edges(desk: &Desk, shards: &[Observation], is_asked: impl Fn(&str) -> bool) -> Done<Vec<EdgeState>> {
    let mut edges = added(desk).await?;
    for figures in shards.iter().flat_map(|shard| &shard.arrivals) {
        if is_asked(&figures.tenant) {
            let state = edges.entry(figures.edge.to_string()).or_default();
            state.arrivals.push(arrival(figures));
        }
    }
    for queue in shards.iter().flat_map(|shard| &shard.queues) {
        if let Some(edge) = queue.edge.as_ref().filter(|_| is_asked(&queue.tenant)) {
            edges.entry(edge.to_string()).or_default().ledgers.push(ledger(queue));
        }
    }
    if let Some(connected) = &desk.connected {
        for edge in connected.list() {
            connect(edges.entry(edge.name.to_string()).or_default(), &edge);
        }
        for (name, state) in &mut edges {
            let presence = connected.presence(name);
            state.last_heard_s = presence.heard_ago.map(|ago| ago.as_secs());
        }
    }
    let named = edges.into_iter().map(|(name, state)| EdgeState { name, ..state });
    Ok(named.collect())
}

fn connect(state: &mut EdgeState, edge: &ConnectedEdge) {
    state.is_connected = true;
    state.since_s = edge.since.as_secs();
    state.address = edge.address.map(|address| address.to_string());
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
        queued: queue.queued,
        dropped: dropped.filter(|(_, messages)| *messages > 0).collect(),
        bytes: queue.bytes,
        limit_bytes: queue.limit_bytes,
        oldest_s: queue.oldest_s,
    }
}

/// Whether there is a link, on the page of metrics: at an edge with a cloud, and in a cloud of how many edges.
pub(crate) fn write_connected(page: &mut MetricsPage, desk: &Desk) {
    if goal(desk) == Upstream::Cloud {
        let help = "1 while an edge has a connection to its cloud.";
        page.gauge("link_connected", help)
            .value(&[], u8::from(is_connected(desk)));
    }
    if let Some(connected) = &desk.connected {
        let help = "Edges that are connected to this cloud.";
        page.gauge("edges_connected", help).value(&[], connected.count());
    }
}

/// What is said of an edge in a cloud on the page of metrics: its operator is to hear of a certificate that is not
/// renewed.
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
    let counters: [(&str, &str, OfQueue); 3] = [
        ("upstream_received_total", "Messages that routes sent upstream.", |q| {
            q.ledger.received
        }),
        ("upstream_delivered_total", "Of these, those that are there.", |q| {
            q.ledger.delivered
        }),
        (
            "upstream_turned_away_total",
            "Messages that found no room, whose senders were told so; they count nowhere else.",
            |q| q.refused,
        ),
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
    queues().for_each(|queue| write_one(page, queue, queue.queued));
    page.gauge("upstream_queued_bytes", "Bytes of the log that they take.");
    queues().for_each(|queue| write_one(page, queue, queue.bytes));
    let help = "For how long the oldest of them has waited, or up to a second more; 0: none waits.";
    page.gauge("upstream_oldest_seconds", help);
    queues().for_each(|queue| write_one(page, queue, queue.oldest_s.unwrap_or_default()));
    let help = "Bytes of the log that all that waits may take.";
    page.gauge("upstream_limit_bytes", help)
        .value(&[], shards.iter().map(|shard| shard.upstream_limit_bytes).sum::<u64>());
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
