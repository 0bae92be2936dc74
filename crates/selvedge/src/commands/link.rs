//! `selvedge get link` and `selvedge get edges`.

use api::{ArrivalInfo, EdgeState, LedgerInfo, LinkInfo, Page, Upstream, paths};

use super::{Target, location};
use crate::output::table;

/// How the way to the cloud is, and what became of the messages of each route.
pub(super) fn show(target: &Target) -> anyhow::Result<()> {
    let (link, is_running): (LinkInfo, _) = target.edge.ask(false, async |client| {
        Ok((client.get(paths::LINK).await?, client.is_running()))
    })?;
    let data = target.edge.directory()?;
    target.output.show(&link, |link| match is_running {
        true => text(link),
        false => format!("nothing runs on {}, so there is no link\n", data.display()),
    });
    Ok(())
}

fn text(link: &LinkInfo) -> String {
    let rows: Vec<[String; 7]> = link.ledgers.iter().map(row).collect();
    let header = ["ROUTE", "RECEIVED", "DELIVERED", "QUEUED", "DROPPED", "BYTES", "OLDEST"];
    let ledgers = if rows.is_empty() {
        String::new()
    } else {
        table(header, &rows)
    };
    match link.goes_to {
        Upstream::Nowhere => "no cloud is configured; join one: selvedge edge join URL --token T\n".to_owned(),
        Upstream::Cloud => format!("{}{}{ledgers}", state(link), waiting(link)),
        Upstream::Database => format!("into this cloud's database\n{}{ledgers}", waiting(link)),
    }
}

/// What waits, of how much that may.
fn waiting(link: &LinkInfo) -> String {
    let queued: u64 = link.ledgers.iter().map(|ledger| ledger.queued).sum();
    let limit = mebibytes(link.limit_bytes);
    match link.oldest_s {
        Some(oldest_s) => format!(
            "messages that wait: {queued}, the oldest for {}, {} of {limit} MiB\n",
            duration(oldest_s),
            mebibytes(link.queued_bytes)
        ),
        None => format!("messages that wait: {queued}, of {limit} MiB\n"),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

fn state(link: &LinkInfo) -> String {
    let cloud = link.cloud.as_deref().unwrap_or("its cloud");
    let since = duration(link.since_s);
    let state = match (link.is_connected, &link.last_error) {
        (true, _) => format!("connected for {since}"),
        (false, Some(error)) => format!("not connected for {since}: {error}"),
        (false, None) => format!("not connected for {since}"),
    };
    let line = match (link.rate_bytes_per_s, link.round_trip_ms) {
        (Some(rate), Some(round_trip)) => format!("   {} kB/s, round trip {round_trip:.1} ms", rate / 1_000),
        (None, Some(round_trip)) => format!("   round trip {round_trip:.1} ms"),
        _ => String::new(),
    };
    format!("{cloud}   {state}{line}\n{}", certificate(link))
}

/// How long an edge that has joined is let in, and what keeps it from being so for longer.
fn certificate(link: &LinkInfo) -> String {
    match (&link.certificate_until, &link.renewal_error) {
        (Some(until), None) => format!("certificate good until {until}\n"),
        (Some(until), Some(why)) => format!("certificate good until {until}, and not renewed: {why}\n"),
        (None, _) => String::new(),
    }
}

fn row(ledger: &LedgerInfo) -> [String; 7] {
    let dropped = ledger.dropped.iter().map(|(why, messages)| format!("{messages} {why}"));
    let dropped = dropped.collect::<Vec<_>>().join(", ");
    let of_edge = ledger.edge.as_ref().map(|edge| format!(" of {edge}"));
    [
        format!("{}/{}{}", ledger.tenant, ledger.route, of_edge.unwrap_or_default()),
        ledger.received.to_string(),
        ledger.delivered.to_string(),
        ledger.queued.to_string(),
        if dropped.is_empty() { "0".to_owned() } else { dropped },
        match ledger.limit_bytes {
            Some(limit_bytes) => format!("{} of {limit_bytes}", ledger.bytes),
            None => ledger.bytes.to_string(),
        },
        ledger.oldest_s.map_or("-".to_owned(), duration),
    ]
}

/// The edges of a cloud.
pub(super) fn edges(target: &Target) -> anyhow::Result<()> {
    let edges: Page<EdgeState> = target
        .edge
        .ask(false, async |client| Ok(client.get(paths::EDGES).await?))?;
    target.output.show(&edges.items, |edges| match edges.is_empty() {
        true => "no edges; let one in: selvedge edge add NAME\n".to_owned(),
        false => table(
            ["NAME", "STATE", "TAKEN", "SENT AGAIN", "QUEUED", "STORED", "DROPPED"],
            &edges.iter().map(edge_row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

fn edge_row(edge: &EdgeState) -> [String; 7] {
    let came = |of: fn(&ArrivalInfo) -> u64| edge.arrivals.iter().map(of).sum::<u64>();
    let became = |of: fn(&LedgerInfo) -> u64| edge.ledgers.iter().map(of).sum::<u64>();
    let dropped = came(|arrival| arrival.forbidden) + became(|ledger| ledger.dropped.values().sum());
    [
        edge.name.clone(),
        presence(edge),
        came(|arrival| arrival.taken).to_string(),
        came(|arrival| arrival.sent_again).to_string(),
        became(|ledger| ledger.queued).to_string(),
        became(|ledger| ledger.delivered).to_string(),
        dropped.to_string(),
    ]
}

fn presence(edge: &EdgeState) -> String {
    match (&edge.address, edge.is_connected) {
        (Some(address), true) => format!("connected from {address} for {}", duration(edge.since_s)),
        (None, true) => format!("connected for {}", duration(edge.since_s)),
        (_, false) => format!("away, {}", location::heard(edge.last_heard_s)),
    }
}

/// An edge, and what came by each of its routes and became of it here.
pub(super) fn of_edge(edge: &EdgeState) -> String {
    let arrivals: Vec<[String; 5]> = edge.arrivals.iter().map(arrival_row).collect();
    let came = match arrivals.is_empty() {
        true => "  came         nothing yet\n".to_owned(),
        false => table(["CAME BY", "TAKEN", "FORBIDDEN", "SENT AGAIN", "RETURNED"], &arrivals),
    };
    let ledgers: Vec<[String; 7]> = edge.ledgers.iter().map(row).collect();
    let became = match ledgers.is_empty() {
        true => String::new(),
        false => table(
            [
                "STORED BY",
                "RECEIVED",
                "DELIVERED",
                "QUEUED",
                "DROPPED",
                "BYTES",
                "OLDEST",
            ],
            &ledgers,
        ),
    };
    format!("  link         {}\n{came}{became}", presence(edge))
}

fn arrival_row(arrival: &ArrivalInfo) -> [String; 5] {
    [
        format!("{}/{}", arrival.tenant, arrival.route),
        arrival.taken.to_string(),
        arrival.forbidden.to_string(),
        arrival.sent_again.to_string(),
        arrival.returned.to_string(),
    ]
}

/// Such as `3 h 12 m`.
fn duration(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} m {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} m"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}
