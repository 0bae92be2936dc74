//! What `/metrics` says.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use broker::{Dropped, RefusedFilter};
use cloud::Feed;
use hub::{DoorFigures, Observation, Refused, TenantFigures};
use mesh::figures::{BOUNDS_S, OfNode, OfService};

use crate::desk::Desk;
use crate::links;
use crate::page::MetricsPage;
use crate::process;
use crate::routes::routes_of;
use crate::sharing;
use crate::types::RouteInfo;
use crate::wrong::{Done, Wrong};

/// `GET /metrics`, in the text format of Prometheus.
pub(crate) async fn metrics(State(desk): State<Arc<Desk>>) -> Done<impl IntoResponse> {
    let hub = desk.hub().await?;
    let shards = hub.observe().await.ok_or_else(Wrong::no_answer)?;
    let mut routes = Vec::new();
    for tenant in shards.iter().flat_map(|shard| &shard.tenants) {
        routes.extend(routes_of(&desk, &tenant.name).await?);
    }
    let mut page = MetricsPage::default();
    page.gauge("build_info", "Always 1; the version is its label.")
        .value(&[("version", &desk.about.edge.version)], 1);
    write_process(&mut page, &desk);
    write_doors(&mut page, &hub.doors(), &shards);
    write_shards(&mut page, &shards);
    write_logs(&mut page, &shards);
    write_tenants(&mut page, &shards);
    write_routes(&mut page, &routes);
    write_relay(&mut page, &desk);
    write_services(&mut page, &desk);
    links::write(&mut page, &shards);
    links::write_connected(&mut page, &desk);
    links::write_foreign(&mut page, desk.connected.as_deref());
    links::write_member(&mut page, desk.member.as_deref());
    sharing::write(&mut page, &desk);
    write_telemetry(&mut page, &desk);
    Ok((
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        page.into_text(),
    ))
}

fn write_process(page: &mut MetricsPage, desk: &Desk) {
    let process = process::figures();
    page.gauge("process_resident_memory_bytes", "Resident memory of the process.")
        .value(&[], process.resident_bytes);
    page.counter("process_cpu_seconds_total", "Processor time in user and system mode.")
        .value(&[], process.cpu_s);
    page.gauge("process_open_fds", "Open file descriptors.")
        .value(&[], process.open_descriptors);
    let losses = desk.about.log_losses.as_ref();
    page.counter(
        "process_log_lines_lost_total",
        "Lines of the program's own log that nobody took from standard error in time.",
    )
    .value(&[], losses.map_or(0, |losses| losses.dropped_lines() as u64));
}

fn write_telemetry(page: &mut MetricsPage, desk: &Desk) {
    page.gauge("live_readers", "Who watches telemetry as it comes in.")
        .value(&[], desk.feed.as_ref().map_or(0, Feed::count));
    let Some(history) = &desk.history else { return };
    page.counter(
        "history_stored_total",
        "Messages of telemetry that went into the edge's history.",
    )
    .value(&[], history.stored());
    page.counter(
        "history_lost_total",
        "Messages of telemetry that the edge's history has not, because it could not be written in time.",
    )
    .value(&[], history.lost());
}

fn write_doors(page: &mut MetricsPage, doors: &DoorFigures, shards: &[Observation]) {
    page.counter("connections_accepted_total", "Sockets accepted at the doors.")
        .value(&[], doors.accepted);
    page.counter("connections_refused_total", "Clients that were not let in, by reason.");
    for (number, why) in Refused::ALL.iter().enumerate() {
        let by_shards: u64 = shards.iter().map(|shard| shard.counters.refused[number]).sum();
        page.value(&[("reason", why.label())], doors.refused[number] + by_shards);
    }
}

type OfShard = fn(&Observation) -> u64;

/// What shards count, all of them together.
const TOTALS: [(&str, &str, OfShard); 17] = [
    ("connects_total", "Clients that came in.", |s| s.counters.connects),
    ("disconnects_total", "Connections that ended.", |s| {
        s.counters.disconnects
    }),
    ("messages_received_total", "PUBLISH packets from clients.", |s| {
        s.counters.messages_received
    }),
    ("messages_sent_total", "PUBLISH packets to clients.", |s| {
        s.counters.messages_sent
    }),
    ("received_bytes_total", "Bytes of MQTT from clients.", |s| {
        s.counters.bytes_received
    }),
    (
        "malformed_packets_total",
        "Packets that the standard forbids; each ended its connection.",
        |s| s.counters.malformed,
    ),
    (
        "publishes_refused_total",
        "PUBLISH packets to topics that their sender may not publish to.",
        |s| s.counters.refused_publishes,
    ),
    (
        "log_waits_total",
        "PUBLISH packets that waited until the disk had caught up.",
        |s| s.counters.waits_for_log,
    ),
    (
        "log_refusals_total",
        "Promises refused because the log had no room for them.",
        |s| s.counters.refused_by_log,
    ),
    (
        "twin_changes_refused_total",
        "Changes of twins refused: no room for them, or no patch that can be understood.",
        |s| s.counters.refused_twins,
    ),
    (
        "twin_conflicts_total",
        "Edits of desired states that were given up for others, made on the other side of a link.",
        |s| s.counters.twin_conflicts,
    ),
    (
        "calls_refused_total",
        "Method calls refused: as many waited for their results as may, one with that id waited already, or it could not be one.",
        |s| s.counters.refused_calls,
    ),
    (
        "route_copies_over_limit_total",
        "Copies that routes asked for beyond the bound for one message.",
        |s| s.counters.copies_over_limit,
    ),
    (
        "route_copies_refused_total",
        "Messages of QoS 2 and copies of them that were lost for want of room, after others of the same message had been taken.",
        |s| s.counters.copies_refused,
    ),
    (
        "calls_away_total",
        "Method calls answered 404: the device was away.",
        |s| s.counters.calls_away,
    ),
    (
        "calls_timed_out_total",
        "Method calls answered 504: no result came in time.",
        |s| s.counters.calls_timed_out,
    ),
    (
        "late_results_total",
        "Results of method calls that nobody waited for.",
        |s| s.counters.late_results,
    ),
];

fn write_shards(page: &mut MetricsPage, shards: &[Observation]) {
    let sum = |of: OfShard| shards.iter().map(of).sum::<u64>();
    page.gauge("connections", "Open connections.")
        .value(&[], sum(|s| s.connections as u64));
    for (name, help, of) in TOTALS {
        page.counter(name, help).value(&[], sum(of));
    }
    page.counter(
        "messages_dropped_total",
        "Messages not delivered to a session that asked for them, by reason.",
    );
    for (number, why) in Dropped::ALL.iter().enumerate() {
        let dropped: u64 = shards.iter().map(|shard| shard.counters.dropped[number]).sum();
        page.value(&[("reason", why.label())], dropped);
    }
    page.counter(
        "subscriptions_refused_total",
        "Topic filters of SUBSCRIBE packets that were refused, by reason.",
    );
    for (number, why) in RefusedFilter::ALL.iter().enumerate() {
        let refused: u64 = shards.iter().map(|shard| shard.counters.refused_filters[number]).sum();
        page.value(&[("reason", why.label())], refused);
    }
}

type OfLog = fn(&Observation) -> u64;

/// What is said of each shard's log.
const LOGS: [(&str, &str, OfLog); 6] = [
    ("log_segments", "Segment files of the log.", |s| s.log.segments as u64),
    ("log_size_bytes", "Bytes of the log's files.", |s| s.log.total_bytes),
    ("log_live_bytes", "Bytes of records that are still needed.", |s| {
        s.log.live_bytes
    }),
    ("log_pending_bytes", "Bytes that wait in memory to be written.", |s| {
        s.log.pending_bytes as u64
    }),
    (
        "log_full",
        "1 while the disk or the log's limit is full and nothing new is kept.",
        |s| s.log.full.into(),
    ),
    (
        "log_stopped",
        "1 once a write has failed: nothing further is made durable.",
        |s| s.log_has_stopped.into(),
    ),
];

fn write_logs(page: &mut MetricsPage, shards: &[Observation]) {
    for (name, help, of) in LOGS {
        page.gauge(name, help);
        write_of_shards(page, shards, of);
    }
    page.counter(
        "log_faults_total",
        "Records of the log that were lost, and files of it that could not be read or accounted for.",
    );
    write_of_shards(page, shards, |shard| shard.log.faults);
}

fn write_of_shards(page: &mut MetricsPage, shards: &[Observation], of: OfLog) {
    for (number, shard) in shards.iter().enumerate() {
        page.value(&[("shard", &number.to_string())], of(shard));
    }
}

type OfTenant = fn(&TenantFigures) -> u64;

/// What is said of each tenant at the moment.
const TENANTS: [(&str, &str, OfTenant); 15] = [
    ("sessions", "Sessions, connected or not.", |s| s.broker.sessions as u64),
    ("sessions_connected", "Sessions with a connection.", |s| {
        s.broker.connected as u64
    }),
    (
        "session_bytes",
        "Bytes of memory that sessions count as, places in their queues included, for their tenant's quota.",
        |s| s.broker.session_bytes,
    ),
    ("subscriptions", "Subscriptions.", |s| s.broker.subscriptions as u64),
    (
        "subscription_bytes",
        "Bytes of memory that subscriptions count as, for their tenant's quota.",
        |s| s.broker.subscription_bytes,
    ),
    ("retained_messages", "Retained messages.", |s| {
        s.broker.retained_messages as u64
    }),
    ("retained_bytes", "Bytes of retained messages.", |s| {
        s.broker.retained_bytes
    }),
    ("queued_messages", "Messages that wait in sessions.", |s| {
        s.broker.queued_messages as u64
    }),
    (
        "queued_bytes",
        "Bytes of messages that wait, counted for each session.",
        |s| s.broker.queued_bytes,
    ),
    ("in_flight_messages", "Messages sent and not acknowledged.", |s| {
        s.broker.in_flight as u64
    }),
    (
        "message_memory_bytes",
        "Bytes of messages held in memory, each counted once.",
        |s| s.broker.memory_bytes,
    ),
    (
        "stored_bytes",
        "Bytes of messages that wait or are retained, in memory or in the log, each counted once.",
        |s| s.broker.kept_bytes,
    ),
    ("twins", "Twins of devices.", |s| s.twins as u64),
    (
        "twin_bytes",
        "Bytes of memory that twins count as; with stored_bytes, for the tenant's quota of stored bytes.",
        |s| s.twin_bytes,
    ),
    (
        "connections_paused",
        "Connections whose next PUBLISH waits until their tenant's rate lets it pass.",
        |s| s.paused as u64,
    ),
];

/// What is said of each tenant since the start.
const TENANT_TOTALS: [(&str, &str, OfTenant); 2] = [
    (
        "tenant_connections_refused_total",
        "Connections refused because the tenant had as many as its quota allows.",
        |s| s.refused_connections,
    ),
    (
        "tenant_pauses_total",
        "Times that a PUBLISH had to wait until its tenant's rate let it pass.",
        |s| s.pauses,
    ),
];

fn write_tenants(page: &mut MetricsPage, shards: &[Observation]) {
    for (name, help, of) in TENANTS {
        page.gauge(name, help);
        write_of_tenants(page, shards, of);
    }
    for (name, help, of) in TENANT_TOTALS {
        page.counter(name, help);
        write_of_tenants(page, shards, of);
    }
}

fn write_of_tenants(page: &mut MetricsPage, shards: &[Observation], of: OfTenant) {
    for tenant in shards.iter().flat_map(|shard| &shard.tenants) {
        page.value(&[("tenant", &tenant.name)], of(tenant));
    }
}

type OfRoute = fn(&RouteInfo) -> u64;

/// What is said of each route, since it was applied or the edge started.
const ROUTES: [(&str, &str, OfRoute); 5] = [
    ("route_matched_total", "Messages whose topic matched the route.", |r| {
        r.matched
    }),
    (
        "route_not_met_total",
        "Matched messages that the condition was false for.",
        |r| r.not_met,
    ),
    ("route_delivered_total", "Copies that the route made.", |r| r.delivered),
    (
        "route_failed_total",
        "Messages that the condition or a target failed for.",
        |r| r.failed,
    ),
    (
        "route_hop_limit_total",
        "Messages that had come through as many routes as may be.",
        |r| r.hop_limit,
    ),
];

fn write_routes(page: &mut MetricsPage, routes: &[RouteInfo]) {
    for (name, help, of) in ROUTES {
        page.counter(name, help);
        for route in routes {
            page.value(&[("tenant", &route.tenant), ("route", &route.name)], of(route));
        }
    }
}

/// What was led between other nodes of the site, which do not reach each other.
fn write_relay(page: &mut MetricsPage, desk: &Desk) {
    let Some(relayed) = desk.nodes.as_ref().and_then(|nodes| nodes.relayed()) else {
        return;
    };
    page.gauge(
        "site_relay_connections",
        "Connections of other nodes to each other that pass this one.",
    );
    page.value(&[], relayed.passing as u64);
    page.counter(
        "site_relay_led_total",
        "Those that it was asked to lead on, and did not refuse.",
    );
    page.value(&[], relayed.led);
    page.counter("site_relay_refused_total", "Those that it refused, by why.");
    for (why, count) in relayed.refused {
        page.value(&[("reason", why.label())], count);
    }
}

/// What doors of services have led to which node of the site; the kernel leads others past them.
fn write_services(page: &mut MetricsPage, desk: &Desk) {
    let Some(mesh) = &desk.mesh else { return };
    let own_name = desk.nodes.as_ref().and_then(|nodes| nodes.name()).unwrap_or_default();
    let services = mesh.figures();
    let of_nodes: Vec<(String, &OfService, &OfNode)> = services
        .iter()
        .flat_map(|service| {
            service
                .nodes
                .iter()
                .map(move |node| (service.port.to_string(), service, node))
        })
        .collect();
    let labels = |(port, service, node): &'_ (String, &OfService, &OfNode)| {
        let node = node.node.clone().unwrap_or_else(|| own_name.clone());
        [
            ("tenant", service.tenant.clone()),
            ("service", service.service.clone()),
            ("port", port.clone()),
            ("policy", service.policy.to_owned()),
            ("node", node),
        ]
    };
    let write = |page: &mut MetricsPage, of: fn(&OfNode) -> u64| {
        for one in &of_nodes {
            let labels = labels(one);
            page.value(&labels.each_ref().map(|(name, value)| (*name, &**value)), of(one.2));
        }
    };
    page.counter(
        "service_requests_total",
        "Requests of HTTP, and connections of all else, that doors of services led to a node of the site.",
    );
    write(page, |node| node.led);
    page.counter(
        "service_failed_total",
        "Those of them that nobody there had, or answered.",
    );
    write(page, |node| node.failed);
    page.gauge("service_in_flight", "Those that are there, or on their way.");
    write(page, |node| node.in_flight.into());
    page.histogram(
        "service_answer_seconds",
        "From a request of HTTP to the head of its answer, the way to the node included.",
    );
    for one in &of_nodes {
        let (labels, answers) = (labels(one), &one.2.answers);
        let labels = labels.each_ref().map(|(name, value)| (*name, &**value));
        page.buckets(&labels, &BOUNDS_S, &answers.counts, answers.sum_s);
    }
    page.counter(
        "service_spilled_total",
        "Requests that did not stay on this node, by why.",
    );
    for service in &services {
        let spilled = service.spilled;
        let reasons = [
            ("nobody-ready", spilled.nobody_ready),
            ("failed", spilled.failed),
            ("policy", spilled.policy),
        ];
        for (reason, count) in reasons {
            let port = service.port.to_string();
            let labels = [
                ("tenant", &*service.tenant),
                ("service", &service.service),
                ("port", &port),
                ("reason", reason),
            ];
            page.value(&labels, count);
        }
    }
    page.counter(
        "service_refused_total",
        "Requests and connections that nobody of the site had.",
    );
    for service in &services {
        let port = service.port.to_string();
        let labels = [
            ("tenant", &*service.tenant),
            ("service", &service.service),
            ("port", &port),
        ];
        page.value(&labels, service.refused);
    }
    page.counter(
        "service_late_total",
        "Requests of HTTP that had no answer in time, by who set it: the service, or who asked.",
    );
    for service in &services {
        for (reason, count) in [("service", service.late.service), ("caller", service.late.caller)] {
            let port = service.port.to_string();
            let labels = [
                ("tenant", &*service.tenant),
                ("service", &service.service),
                ("port", &port),
                ("reason", reason),
            ];
            page.value(&labels, count);
        }
    }
}
