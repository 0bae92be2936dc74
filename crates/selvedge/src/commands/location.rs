//! Where a device is, in words.

use api::{Client, LocationInfo, paths};
use identity::ClientName;

/// Asks where a device is reached.
pub(super) async fn of(client: &Client, device: &ClientName) -> anyhow::Result<LocationInfo> {
    Ok(client.get(&paths::location(device)).await?)
}

/// Such as `the edge hall-1, which is not connected (heard last 12 s ago)`.
pub(super) fn edge(name: &str, is_connected: bool, last_heard_s: Option<u64>) -> String {
    match is_connected {
        true => format!("the edge {name}, which is connected"),
        false => format!("the edge {name}, which is not connected ({})", heard(last_heard_s)),
    }
}

/// When an edge that is not connected was heard, such as `heard last 12 s ago`.
pub(super) fn heard(last_heard_s: Option<u64>) -> String {
    match last_heard_s {
        Some(seconds) => format!("heard last {seconds} s ago"),
        None => "not heard since this cloud started".to_owned(),
    }
}
