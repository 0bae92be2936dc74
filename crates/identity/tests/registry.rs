//! The registry of tenants, devices and apps.

mod common;

use std::sync::Barrier;

use common::{Edge, NOW, chosen, name};
use identity::{
    Change, ClientKind, Credential, HeldCredential, IdentityError, MAX_LABELS, NewClient, OpenError, Quotas, Registry,
    RegistryError, What,
};

fn new_device(user_name: &str) -> NewClient {
    NewClient {
        name: name(user_name),
        kind: ClientKind::Device,
        labels: [("hall".to_owned(), "3".to_owned())].into(),
        credential: Credential::GeneratedPassword,
        edge: None,
    }
}

fn ids(registry: &Registry, kind: ClientKind, after: Option<&str>, limit: usize) -> Vec<String> {
    let page = registry.clients("default", kind, after, limit).unwrap();
    page.iter().map(|client| client.name.id().to_string()).collect()
}

#[test]
fn what_is_added_is_shown_and_survives_a_restart() {
    let edge = Edge::new();
    edge.identity.add(&new_device("pump-7"), NOW).unwrap();
    let edge = edge.reopened();
    let shown = edge.identity.registry().client(&name("pump-7")).unwrap().unwrap();
    assert_eq!(
        (shown.kind, shown.created_unix_s, shown.disabled),
        (ClientKind::Device, NOW, false)
    );
    assert!(shown.has_password && !shown.has_tokens);
    assert_eq!(shown.labels["hall"], "3");
}

#[test]
fn clients_are_listed_by_kind_in_pages() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    for i in 0..25 {
        edge.device(&format!("d{i:02}"));
    }
    edge.add("dashboard", ClientKind::App, Credential::GeneratedPassword);
    let first = ids(registry, ClientKind::Device, None, 10);
    assert_eq!((first.len(), &*first[0], &*first[9]), (10, "d00", "d09"));
    assert_eq!(
        ids(registry, ClientKind::Device, Some("d19"), 10),
        ["d20", "d21", "d22", "d23", "d24"]
    );
    assert_eq!(ids(registry, ClientKind::App, None, 10), ["dashboard"]);
    assert!(matches!(
        registry.clients("nobody", ClientKind::App, None, 1),
        Err(RegistryError::NoTenant(_))
    ));
}

#[test]
fn an_id_is_taken_once_in_its_tenant_by_devices_and_apps_together() {
    let edge = Edge::new();
    edge.device("pump");
    let app = NewClient {
        kind: ClientKind::App,
        ..new_device("pump")
    };
    let refused = edge.identity.add(&app, NOW).unwrap_err();
    assert_eq!(refused.to_string(), "\"pump\" exists and is a device");
    edge.identity.registry().add_tenant("acme", &Quotas::default()).unwrap();
    edge.identity
        .add(
            &NewClient {
                kind: ClientKind::App,
                ..new_device("acme/pump")
            },
            NOW,
        )
        .unwrap();
}

#[test]
fn a_client_of_an_unknown_tenant_is_not_added() {
    let edge = Edge::new();
    let refused = edge.identity.add(&new_device("nobody/pump"), NOW).unwrap_err();
    assert_eq!(refused.to_string(), "no tenant \"nobody\"");
}

#[test]
fn nothing_is_added_if_a_label_is_refused() {
    let edge = Edge::new();
    let bad = NewClient {
        labels: [("a b".to_owned(), String::new())].into(),
        ..new_device("pump")
    };
    assert!(matches!(
        edge.identity.add(&bad, NOW),
        Err(IdentityError::Registry(RegistryError::Label { .. }))
    ));
    assert_eq!(edge.identity.registry().client(&name("pump")).unwrap(), None);
    assert_eq!(edge.identity.registry().last_change(), 0);
}

#[test]
fn the_quota_of_devices_bounds_a_tenant() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    registry
        .add_tenant(
            "small",
            &Quotas {
                devices: Some(2),
                ..Quotas::default()
            },
        )
        .unwrap();
    edge.device("small/a");
    edge.device("small/b");
    let refused = edge.identity.add(&new_device("small/c"), NOW).unwrap_err().to_string();
    assert!(refused.contains("has its 2 devices"), "{refused}");
    registry.remove(&name("small/a")).unwrap();
    edge.device("small/c");
}

#[test]
fn many_are_added_in_one_step_or_none_of_them() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    registry
        .set_quotas(
            "default",
            &Quotas {
                devices: Some(10),
                ..Quotas::default()
            },
        )
        .unwrap();
    let eleven: Vec<_> = (0..11).map(|i| new_device(&format!("d{i:02}"))).collect();
    assert!(edge.identity.add_all(&eleven, NOW).is_err());
    assert_eq!(ids(registry, ClientKind::Device, None, 100).len(), 0);
    let issued = edge.identity.add_all(&eleven[..10], NOW).unwrap();
    assert_eq!(ids(registry, ClientKind::Device, None, 100).len(), 10);
    edge.login("d07", &common::password(issued[7].clone())).unwrap();
    assert_eq!(registry.last_change(), 2);
}

#[test]
fn labels_are_set_replaced_removed_and_bounded() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    let pump = name("pump");
    edge.device("pump");
    for i in 0..MAX_LABELS {
        registry.set_label(&pump, &format!("l{i}"), "x").unwrap();
    }
    assert!(matches!(
        registry.set_label(&pump, "more", "x"),
        Err(RegistryError::Label { .. })
    ));
    registry.set_label(&pump, "l0", "'); DELETE FROM labels; --").unwrap();
    registry.remove_label(&pump, "l1").unwrap();
    registry.remove_label(&pump, "never there").unwrap();
    let labels = registry.client(&pump).unwrap().unwrap().labels;
    assert_eq!(
        (labels.len(), &*labels["l0"]),
        (MAX_LABELS - 1, "'); DELETE FROM labels; --")
    );
    for (label, value) in [
        ("", "x"),
        ("a'b", "x"),
        ("ä", "x"),
        ("n", "line\nbreak"),
        ("n", &"x".repeat(257)),
    ] {
        assert!(
            matches!(
                registry.set_label(&pump, label, value),
                Err(RegistryError::Label { .. })
            ),
            "{label:?}"
        );
    }
    assert!(matches!(
        registry.set_label(&name("nobody"), "a", "b"),
        Err(RegistryError::NoClient(_))
    ));
}

#[test]
fn a_snapshot_has_labels_and_quotas_and_stays_as_it_was() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    edge.identity.add(&new_device("pump"), NOW).unwrap();
    let before = registry.snapshot().unwrap();
    assert_eq!(before.labels("default", "pump").unwrap()["hall"], "3");
    assert_eq!(before.quotas("default"), Some(&Quotas::default()));
    registry.set_label(&name("pump"), "hall", "4").unwrap();
    let tight = Quotas {
        connections: Some(1),
        ..Quotas::default()
    };
    registry.set_quotas("default", &tight).unwrap();
    let after = registry.snapshot().unwrap();
    assert_eq!(before.labels("default", "pump").unwrap()["hall"], "3");
    assert_eq!(after.labels("default", "pump").unwrap()["hall"], "4");
    assert_eq!(
        (after.change(), after.quotas("default")),
        (registry.last_change(), Some(&tight))
    );
    assert!(after.labels("default", "nobody").is_none() && after.quotas("nobody").is_none());
}

#[test]
fn every_change_that_ends_connections_is_told() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    edge.device("pump");
    let before = registry.last_change();
    registry.set_disabled(&name("pump"), true).unwrap();
    registry.set_disabled(&name("pump"), false).unwrap();
    edge.identity.issue(&name("pump"), &chosen("another"), NOW).unwrap();
    registry.remove(&name("pump")).unwrap();
    let changes = registry.changes_since(before).unwrap();
    let told: Vec<_> = changes
        .iter()
        .map(|change| (change.id.as_deref().unwrap(), change.what.clone()))
        .collect();
    let replaced = What::CredentialRevoked(Some(HeldCredential::Password));
    let expected = [What::Disabled, What::Added, replaced, What::Removed].map(|what| ("pump", what));
    assert_eq!(told, expected);
    let ended_by = |proof| {
        let proofs = [proof];
        let ends = |change: &&Change| change.what.ends_connection_by(&proofs);
        changes.iter().filter(ends).count()
    };
    assert_eq!(
        (ended_by(HeldCredential::Password), ended_by(HeldCredential::Tokens)),
        (3, 2)
    );
}

#[test]
fn a_refused_change_is_not_told() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    assert!(registry.remove(&name("nobody")).is_err());
    assert!(registry.set_disabled(&name("nobody"), true).is_err());
    assert!(registry.set_quotas("nobody", &Quotas::default()).is_err());
    assert_eq!(registry.last_change(), 0);
}

#[test]
fn a_tenant_is_removed_only_once_it_is_empty_and_the_default_one_never() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    registry.add_tenant("acme", &Quotas::default()).unwrap();
    assert!(matches!(
        registry.add_tenant("acme", &Quotas::default()),
        Err(RegistryError::TenantExists(_))
    ));
    edge.device("acme/pump");
    assert!(matches!(
        registry.remove_tenant("acme"),
        Err(RegistryError::TenantNotEmpty(_))
    ));
    registry.remove(&name("acme/pump")).unwrap();
    registry.remove_tenant("acme").unwrap();
    assert!(matches!(
        registry.remove_tenant("default"),
        Err(RegistryError::DefaultTenant)
    ));
    let left: Vec<_> = registry
        .tenants()
        .unwrap()
        .into_iter()
        .map(|tenant| tenant.name)
        .collect();
    assert_eq!(left, ["default"]);
}

#[test]
fn several_openings_at_once_make_one_registry_and_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let together = Barrier::new(8);
    std::thread::scope(|scope| {
        for i in 0..8 {
            let (directory, together) = (&directory, &together);
            scope.spawn(move || {
                together.wait();
                let registry = Registry::open(directory.path()).unwrap();
                registry.add_tenant(&format!("t{i}"), &Quotas::default()).unwrap();
            });
        }
    });
    assert_eq!(Registry::open(directory.path()).unwrap().tenants().unwrap().len(), 9);
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let refused = Registry::open("/nonexistent/data".as_ref()).unwrap_err();
    assert!(matches!(refused, OpenError::Io { .. }));
    assert!(
        refused.to_string().starts_with("/nonexistent/data/registry.db: "),
        "{refused}"
    );
}
