//! `selvedge get link` and `selvedge get edges`.

use api::{ArrivalInfo, EdgeState, LedgerInfo, LinkInfo, Page};

use super::Target;
use crate::output::table;

/// How the way to the cloud is, and what became of the messages of each route.
pub(super) fn show(target: &Target) -> anyhow::Result<()> {
    let link: LinkInfo = target
        .edge
        .ask(false, async |client| Ok(client.get("/v1/link").await?))?;
    target.output.show(&link, text);
    Ok(())
}

fn text(link: &LinkInfo) -> String {
    let rows: Vec<[String; 6]> = link.ledgers.iter().map(row).collect();
    let header = ["ROUTE", "RECEIVED", "DELIVERED", "QUEUED", "DROPPED", "BYTES"];
    let ledgers = if rows.is_empty() {
        String::new()
    } else {
        table(header, &rows)
    };
    format!("{}{ledgers}", state(link))
}

fn state(link: &LinkInfo) -> String {
    let Some(cloud) = &link.cloud else {
        return String::new();
    };
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

fn row(ledger: &LedgerInfo) -> [String; 6] {
    let dropped = ledger.dropped.iter().map(|(why, messages)| format!("{messages} {why}"));
    let dropped = dropped.collect::<Vec<_>>().join(", ");
    let of_edge = ledger.edge.as_ref().map(|edge| format!(" of {edge}"));
    [
        format!("{}/{}{}", ledger.tenant, ledger.route, of_edge.unwrap_or_default()),
        ledger.received.to_string(),
        ledger.delivered.to_string(),
        ledger.queued.to_string(),
        if dropped.is_empty() { "0".to_owned() } else { dropped },
        ledger.bytes.to_string(),
    ]
}

/// The edges of a cloud.
pub(super) fn edges(target: &Target) -> anyhow::Result<()> {
    let edges: Page<EdgeState> = target
        .edge
        .ask(false, async |client| Ok(client.get("/v1/edges").await?))?;
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
    let state = match (&edge.address, edge.is_connected) {
        (Some(address), true) => format!("connected from {address} for {}", duration(edge.since_s)),
        (None, true) => format!("connected for {}", duration(edge.since_s)),
        (_, false) => "away".to_owned(),
    };
    let came = |of: fn(&ArrivalInfo) -> u64| edge.arrivals.iter().map(of).sum::<u64>();
    let became = |of: fn(&LedgerInfo) -> u64| edge.ledgers.iter().map(of).sum::<u64>();
    let dropped = came(|arrival| arrival.forbidden) + became(|ledger| ledger.dropped.values().sum());
    [
        edge.name.clone(),
        state,
        came(|arrival| arrival.taken).to_string(),
        came(|arrival| arrival.sent_again).to_string(),
        became(|ledger| ledger.queued).to_string(),
        became(|ledger| ledger.delivered).to_string(),
        dropped.to_string(),
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
