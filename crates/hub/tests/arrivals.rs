//! What comes from edges, as the cloud's hub takes and counts it.

use std::path::Path;
use std::sync::Arc;

use hub::{ArrivalFigures, Arrived, Arriving, Hub, Options, Origin, Parcel};
use identity::{Audit, AuditOptions, Identity, IdentityOptions};
use mqtt::{Publish, QoS};
use tokio::task::JoinSet;

const TENANT: &str = "default";

fn hub(data: &Path) -> Arc<Hub> {
    let options = Options {
        shards: 1,
        ..Options::new(data)
    };
    let identity = Arc::new(Identity::open(data, IdentityOptions::default(), 0).unwrap());
    let audit = Arc::new(Audit::open(data, AuditOptions::default()).unwrap());
    Arc::new(Hub::start(&options, identity, audit).unwrap())
}

/// The first message of each of these epochs, by the routes named; whether each was new.
async fn arrive(hub: &Arc<Hub>, edge: &'static str, epochs: Vec<(String, u64)>) -> Vec<bool> {
    let mut taking = JoinSet::new();
    for (at, (route, epoch)) in epochs.into_iter().enumerate() {
        let mut parcel = Vec::new();
        let origin = Origin {
            edge,
            epoch,
            sequence: 0,
            after: 0,
        };
        let publish = Publish::new("devices/p7/telemetry", QoS::AtMostOnce, None, b"1");
        Parcel {
            received_ms: 0,
            origin: Some(origin),
            publish,
        }
        .encode(&mut parcel);
        let arriving = Arriving {
            edge: edge.into(),
            route: route.into(),
            epoch,
            floor: 0,
            parcels: vec![parcel],
        };
        let hub = Arc::clone(hub);
        taking.spawn(async move { (at, hub.arrive(TENANT, arriving).await.await.unwrap()) });
    }
    let mut taken = taking.join_all().await;
    taken.sort_unstable_by_key(|(at, _)| *at);
    taken.into_iter().map(|(_, Arrived { new, .. })| new == 1).collect()
}

async fn figures(hub: &Hub, edge: &str) -> Vec<ArrivalFigures> {
    let observed = hub.observe().await.unwrap();
    let figures = observed.into_iter().flat_map(|shard| shard.arrivals);
    figures.filter(|figures| &*figures.edge == edge).collect()
}

fn taken(figures: &[ArrivalFigures]) -> u64 {
    figures.iter().map(|figures| figures.counts.taken).sum()
}

/// Both lanes of routes, of so many starts.
fn lanes(routes: u64, starts: u64) -> Vec<(String, u64)> {
    let all = (0..starts).flat_map(|start| (0..routes).flat_map(move |route| [(start, route, 0), (start, route, 1)]));
    all.map(|(start, route, lane)| (format!("route-{route}"), (start + 1) << 32 | route << 1 | lane))
        .collect()
}

#[tokio::test]
async fn of_as_many_routes_as_a_tenant_may_have_each_message_is_taken_once_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let epochs = lanes(256, 4);
    let mut before = hub(directory.path());
    assert!(arrive(&before, "hall-1", epochs.clone()).await.iter().all(|new| *new));
    for _ in 0..2 {
        assert!(arrive(&before, "hall-1", epochs.clone()).await.iter().all(|new| !*new));
        let figures = figures(&before, "hall-1").await;
        assert_eq!((figures.len(), taken(&figures)), (256, 2_048));
        before.stop().await;
        drop(before);
        before = hub(directory.path());
    }
}

#[tokio::test]
async fn an_edge_that_makes_up_epochs_and_routes_loses_its_own_marks_alone_and_none_of_its_counts() {
    let directory = tempfile::tempdir().unwrap();
    let first = hub(directory.path());
    let good = lanes(10, 1);
    arrive(&first, "good", good.clone()).await;
    let epochs: Vec<(String, u64)> = (0..10_000).map(|number| ("made-up".to_owned(), 2 * number)).collect();
    arrive(&first, "bad", epochs.clone()).await;
    assert!(arrive(&first, "good", good.clone()).await.iter().all(|new| !*new));
    assert!(
        arrive(&first, "bad", epochs[..1].to_vec()).await[0],
        "its mark is forgotten"
    );
    assert!(
        !arrive(&first, "bad", epochs[9_999..].to_vec()).await[0],
        "that of its last is not"
    );
    assert_eq!(taken(&figures(&first, "bad").await), 10_001);
    let routes = (0..1_500).map(|number| (format!("route-{number}"), 2)).collect();
    arrive(&first, "bad", routes).await;
    first.stop().await;
    drop(first);
    let again = hub(directory.path());
    let figures = figures(&again, "bad").await;
    assert!(taken(&figures) >= 11_501, "{}", taken(&figures));
    assert!(arrive(&again, "good", good).await.iter().all(|new| !*new));
    again.stop().await;
}
