//! Who has how much room while nothing leaves a hub, and what becomes of the rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hub::{Allowance, Discarded, Hub, Options, OutboxOptions, Parcel, Posted, QueueFigures};
use identity::{Audit, AuditOptions, Identity, IdentityOptions};
use manifest::Resource;
use route::CompiledRoute;
use tempfile::TempDir;

/// Bytes that may wait in all.
const BYTES: u64 = 64_000;
/// More than a message costs.
const MESSAGE_BYTES: u64 = 700;

/// A hub of one shard whose messages stay there.
struct Stand {
    hub: Hub,
    /// Messages that each device of a tenant has posted.
    posted: BTreeMap<(String, String), u32>,
    _directory: TempDir,
}

impl Stand {
    /// A tenant and its routes: the device whose messages each takes, which it is named after, and how they wait.
    async fn new(tenants: &[(&str, &[(&str, &str)])]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let options = Options {
            shards: 1,
            outbox: Some(OutboxOptions {
                bytes: BYTES,
                ..OutboxOptions::default()
            }),
            has_upstream: true,
            ..Options::new(data)
        };
        let identity = Arc::new(Identity::open(data, IdentityOptions::default(), 0).unwrap());
        let audit = Arc::new(Audit::open(data, AuditOptions::default()).unwrap());
        let hub = Hub::start(&options, identity, audit).unwrap();
        for (tenant, routes) in tenants {
            let routes = routes.iter().map(|(device, upstream)| route(tenant, device, upstream));
            hub.set_routes(tenant, routes.collect()).await.unwrap();
        }
        Self {
            hub,
            posted: BTreeMap::new(),
            _directory: directory,
        }
    }

    /// Posts as many messages, each with its number; how many of them were refused.
    async fn post(&mut self, tenant: &str, device: &str, messages: u32) -> u32 {
        let next = self.posted.entry((tenant.to_owned(), device.to_owned())).or_default();
        let mut refused = 0;
        for _ in 0..messages {
            let mut payload = vec![b'x'; 500];
            payload[..4].copy_from_slice(&next.to_le_bytes());
            *next += 1;
            let posted = self.hub.post(tenant, device, payload).await.unwrap();
            refused += u32::from(posted == Posted::NoRoom);
        }
        refused
    }

    /// The figures of a route; they balance, and all together are within the bound.
    async fn figures(&self, tenant: &str, device: &str) -> QueueFigures {
        let queues = self.hub.observe().await.unwrap().remove(0).queues;
        assert!(queues.iter().map(|queue| queue.bytes).sum::<u64>() <= BYTES);
        for queue in &queues {
            let dropped: u64 = queue.ledger.dropped.iter().sum();
            let expected = queue.ledger.delivered + queue.queued + dropped;
            assert_eq!(queue.ledger.received, expected, "{queue:?}");
        }
        let is_it = |queue: &QueueFigures| *queue.tenant == *tenant && *queue.route == *device;
        queues.into_iter().find(is_it).expect("a queue of the route")
    }

    async fn bytes(&self, tenant: &str, device: &str) -> u64 {
        self.figures(tenant, device).await.bytes
    }

    /// The numbers of the messages that wait, by tenant and device.
    async fn kept(&self) -> BTreeMap<(String, String), Vec<u32>> {
        let mut outbox = self.hub.take_outbox().unwrap();
        let everything = Allowance {
            live_bytes: BYTES,
            backlog_bytes: BYTES,
        };
        outbox.settler().allow(1, everything).await;
        let mut kept: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        while let Ok(Some(messages)) = tokio::time::timeout(Duration::from_millis(500), outbox.next()).await {
            for message in messages {
                let parcel = Parcel::decode(&message.body).unwrap();
                let number = u32::from_le_bytes(parcel.publish.payload[..4].try_into().unwrap());
                let key = (message.tenant.to_string(), message.route.to_string());
                kept.entry(key).or_default().push(number);
            }
        }
        kept
    }

    /// Of each of these devices the last messages wait: those that came before gave way.
    async fn keeps_the_newest(&self, tenant: &str, devices: &[&str]) {
        let all = self.kept().await;
        for device in devices {
            let key = (tenant.to_owned(), (*device).to_owned());
            let (posted, kept) = (self.posted[&key], &all[&key]);
            assert_eq!(*kept, Vec::from_iter(posted - kept.len() as u32..posted), "{device}");
        }
    }
}

fn route(tenant: &str, device: &str, upstream: &str) -> CompiledRoute {
    let route = format!(
        "apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {{name: {device}, namespace: {tenant}}}\nspec: \
         {{from: devices/{device}/telemetry, to: [{{upstream: {upstream}}}]}}"
    );
    let Resource::Route(route) = manifest::parse("r.yaml", &route).unwrap().remove(0).resource else {
        panic!("a route");
    };
    CompiledRoute::compile(&route).unwrap()
}

const OLDEST: &str = "{full: oldest}";
const NEWEST: &str = "{full: newest}";
const REFUSE: &str = "{full: refuse}";

#[tokio::test]
async fn a_route_alone_has_all_the_room_there_is() {
    for full in [OLDEST, NEWEST, REFUSE] {
        let mut stand = Stand::new(&[("default", &[("a", full)])]).await;
        stand.post("default", "a", 200).await;
        let bytes = stand.bytes("default", "a").await;
        assert!(bytes > BYTES - MESSAGE_BYTES, "{full}: {bytes}");
    }
}

#[tokio::test]
async fn a_route_that_keeps_what_it_has_leaves_others_their_part_and_they_drop_their_own_oldest() {
    for full in [NEWEST, REFUSE] {
        let mut stand = Stand::new(&[("default", &[("a", full), ("b", OLDEST)])]).await;
        stand.post("default", "a", 200).await;
        stand.post("default", "b", 200).await;
        let [a, b] = [stand.bytes("default", "a").await, stand.bytes("default", "b").await];
        assert!(
            (BYTES * 3 / 4 - MESSAGE_BYTES..=BYTES * 3 / 4).contains(&a),
            "{full}: {a}"
        );
        assert!(b > BYTES / 4 - MESSAGE_BYTES, "{full}: {b}");
        stand.keeps_the_newest("default", &["b"]).await;
    }
}

#[tokio::test]
async fn two_routes_that_send_the_same_have_the_same_room_and_keep_their_newest() {
    // One message more or less of another: then as many of both find room, else there is one more of one.
    for others in [0, 1] {
        let routes = [("a", OLDEST), ("b", OLDEST), ("other", REFUSE)];
        let mut stand = Stand::new(&[("default", &routes)]).await;
        stand.post("default", "other", others).await;
        for _ in 0..200 {
            stand.post("default", "a", 1).await;
            stand.post("default", "b", 1).await;
        }
        let [a, b] = [stand.bytes("default", "a").await, stand.bytes("default", "b").await];
        assert!(a.abs_diff(b) <= MESSAGE_BYTES, "{a} {b}");
        stand.keeps_the_newest("default", &["a", "b"]).await;
    }
}

#[tokio::test]
async fn a_tenant_has_no_more_room_for_having_more_routes() {
    let many = [
        ("a", OLDEST),
        ("b", OLDEST),
        ("c", OLDEST),
        ("d", OLDEST),
        ("e", REFUSE),
    ];
    let mut stand = Stand::new(&[("default", &[("a", OLDEST)]), ("plant-b", &many)]).await;
    for _ in 0..60 {
        for (device, _) in many {
            stand.post("plant-b", device, 1).await;
        }
        stand.post("default", "a", 1).await;
    }
    let one = stand.bytes("default", "a").await;
    assert!(BYTES.abs_diff(2 * one) <= 2 * MESSAGE_BYTES, "{one}");
    assert_eq!(stand.figures("default", "a").await.ledger.received, 60);
}

#[tokio::test]
async fn a_tenant_that_gives_nothing_back_does_not_fill_up_the_others() {
    let keeping = [("a", REFUSE), ("b", NEWEST)];
    let tenants = [
        ("default", [("a", REFUSE)].as_slice()),
        ("plant-b", &keeping),
        ("plant-c", &[("a", OLDEST)]),
    ];
    let mut stand = Stand::new(&tenants).await;
    for (tenant, device) in [("plant-b", "a"), ("plant-b", "b"), ("plant-c", "a"), ("default", "a")] {
        stand.post(tenant, device, 200).await;
    }
    let part = BYTES / 2 / 3;
    for (tenant, device, part) in [
        ("default", "a", part),
        ("plant-c", "a", part),
        ("plant-b", "b", part / 2),
    ] {
        let bytes = stand.bytes(tenant, device).await;
        assert!(bytes > part - MESSAGE_BYTES, "{tenant} {device}: {bytes} of {part}");
    }
}

#[tokio::test]
async fn who_has_less_takes_the_place_of_the_oldest_of_who_has_more_until_both_have_the_same() {
    for full in [OLDEST, NEWEST, REFUSE] {
        let mut stand = Stand::new(&[("default", &[("large", OLDEST), ("small", full)])]).await;
        stand.post("default", "large", 200).await;
        assert_eq!(stand.post("default", "small", 40).await, 0);
        assert_eq!(stand.figures("default", "small").await.queued, 40, "{full}");
        stand.post("default", "small", 200).await;
        let [large, small] = [
            stand.bytes("default", "large").await,
            stand.bytes("default", "small").await,
        ];
        assert!(large.abs_diff(small) <= 2 * MESSAGE_BYTES, "{full}: {large} {small}");
        stand.keeps_the_newest("default", &["large"]).await;
    }
}

#[tokio::test]
async fn a_route_finds_its_part_though_another_of_its_tenant_has_more_than_all_others() {
    let tenants = [
        ("default", [("hog", REFUSE), ("b", REFUSE)].as_slice()),
        ("plant-b", &[("a", OLDEST)]),
    ];
    let mut stand = Stand::new(&tenants).await;
    stand.post("default", "hog", 200).await;
    stand.post("plant-b", "a", 200).await;
    let part = BYTES / 2 / 2 / 2;
    assert!(stand.bytes("default", "hog").await > stand.bytes("plant-b", "a").await);
    stand.post("default", "b", 200).await;
    assert!(stand.bytes("default", "b").await > part - MESSAGE_BYTES);
    assert!(stand.bytes("plant-b", "a").await > 2 * part - MESSAGE_BYTES);
}

#[tokio::test]
async fn what_is_refused_is_counted_by_its_route_and_is_in_no_ledger() {
    let mut stand = Stand::new(&[("default", &[("a", REFUSE)])]).await;
    let refused = stand.post("default", "a", 200).await;
    let figures = stand.figures("default", "a").await;
    assert_eq!(
        (figures.refused, figures.ledger.received),
        (u64::from(refused), u64::from(200 - refused))
    );
    assert!(refused > 50);
    assert_eq!(figures.ledger.dropped[Discarded::Full as usize], 0);
}

#[tokio::test]
async fn a_message_that_is_larger_than_its_bound_drives_nothing_out() {
    let upstream = "{limit: 2Ki}";
    let mut stand = Stand::new(&[("default", &[("a", upstream)])]).await;
    stand.post("default", "a", 3).await;
    stand.hub.post("default", "a", vec![b'x'; 4_000]).await.unwrap();
    let figures = stand.figures("default", "a").await;
    assert_eq!(
        (figures.queued, figures.ledger.dropped[Discarded::Full as usize]),
        (3, 1)
    );
}
