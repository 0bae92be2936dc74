//! What leaves a hub, as the one sees it who carries it away.

use std::sync::Arc;
use std::time::Duration;

use hub::{Allowance, Hub, Options, Outbox, OutboxOptions};
use identity::{Audit, AuditOptions, Identity, IdentityOptions};
use manifest::Resource;
use route::CompiledRoute;
use tempfile::TempDir;

const TENANT: &str = "default";
const PAYLOAD: [u8; 500] = [b'x'; 500];
/// More than any message of these tests costs.
const MESSAGE_BYTES: u64 = 800;
const ALLOWED: Allowance = Allowance {
    live_bytes: 10_000,
    backlog_bytes: 20_000,
};

async fn hub() -> (Hub, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let options = Options {
        shards: 1,
        outbox: Some(OutboxOptions::default()),
        has_upstream: true,
        ..Options::new(data)
    };
    let identity = Arc::new(Identity::open(data, IdentityOptions::default(), 0).unwrap());
    let audit = Arc::new(Audit::open(data, AuditOptions::default()).unwrap());
    let hub = Hub::start(&options, identity, audit).unwrap();
    let route = "apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {name: r}\nspec: \
                 {from: devices/+/telemetry, to: [{upstream: {}}]}";
    let Resource::Route(route) = manifest::parse("r.yaml", route).unwrap().remove(0).resource else {
        panic!("a route");
    };
    let routes = vec![CompiledRoute::compile(&route).unwrap()];
    hub.set_routes(TENANT, routes).await.unwrap();
    (hub, directory)
}

async fn post(hub: &Hub, messages: usize) {
    for _ in 0..messages {
        hub.post(TENANT, "pump-7", PAYLOAD.to_vec()).await.unwrap();
    }
}

/// Bytes that come within a while.
async fn bytes(outbox: &mut Outbox) -> u64 {
    let mut bytes = 0;
    while let Ok(Some(messages)) = tokio::time::timeout(Duration::from_millis(500), outbox.next()).await {
        bytes += messages.iter().map(|message| message.cost_bytes()).sum::<u64>();
    }
    bytes
}

#[tokio::test]
async fn what_is_with_a_carrier_is_what_it_allows_and_a_message_of_each_lane_however_much_waits() {
    let (hub, _directory) = hub().await;
    let mut outbox = hub.take_outbox().unwrap();
    outbox.settler().allow(1, ALLOWED).await;
    post(&hub, 1_000).await;
    let held = bytes(&mut outbox).await;
    let allowed = ALLOWED.live_bytes + ALLOWED.backlog_bytes;
    assert!((allowed..=allowed + 2 * MESSAGE_BYTES).contains(&held), "{held}");
    // What is not settled counts on, from one connection to the next.
    outbox.settler().allow(2, Allowance::default()).await;
    outbox.settler().allow(3, ALLOWED).await;
    post(&hub, 100).await;
    assert_eq!(bytes(&mut outbox).await, 0);
    hub.stop().await;
}
