//! The registry against a map, by random operations.

mod common;

use std::collections::BTreeMap;

use common::{Edge, NOW, name};
use identity::{ClientKind, Credential, Labels, NewClient, Quotas, Registry};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
    Add(u8, bool),
    Remove(u8),
    Disable(u8, bool),
    SetLabel(u8, u8, u8),
    RemoveLabel(u8, u8),
    Reopen,
}

/// What the registry should hold: by user name, whether it is an app, whether it is disabled, its labels.
type Model = BTreeMap<String, (bool, bool, Labels)>;

fn operation() -> impl Strategy<Value = Operation> {
    let client = || 0..6_u8;
    let label = || 0..3_u8;
    prop_oneof![
        3 => (client(), any::<bool>()).prop_map(|(c, app)| Operation::Add(c, app)),
        2 => client().prop_map(Operation::Remove),
        2 => (client(), any::<bool>()).prop_map(|(c, disabled)| Operation::Disable(c, disabled)),
        3 => (client(), label(), any::<u8>()).prop_map(|(c, l, value)| Operation::SetLabel(c, l, value)),
        1 => (client(), label()).prop_map(|(c, l)| Operation::RemoveLabel(c, l)),
        1 => Just(Operation::Reopen),
    ]
}

/// Clients 0 to 2 are of the default tenant, 3 to 5 the same ids of another.
fn user_name(client: u8) -> String {
    if client < 3 {
        format!("c{client}")
    } else {
        format!("acme/c{}", client - 3)
    }
}

fn label(number: u8) -> String {
    format!("l{number}")
}

/// Applies to both, and compares whether they agree on what is possible.
fn apply(edge: &Edge, model: &mut Model, operation: &Operation) {
    let registry = edge.identity.registry();
    match *operation {
        Operation::Add(client, app) => {
            let kind = if app { ClientKind::App } else { ClientKind::Device };
            let (name, credential) = (name(&user_name(client)), Credential::GeneratedPassword);
            let added = edge.identity.add(
                &NewClient {
                    name,
                    kind,
                    labels: Labels::new(),
                    credential,
                    edge: None,
                },
                NOW,
            );
            assert_eq!(added.is_ok(), !model.contains_key(&user_name(client)));
            model.entry(user_name(client)).or_insert((app, false, Labels::new()));
        }
        Operation::Remove(client) => {
            let removed = registry.remove(&name(&user_name(client)));
            assert_eq!(removed.is_ok(), model.remove(&user_name(client)).is_some());
        }
        Operation::Disable(client, disabled) => {
            let set = registry.set_disabled(&name(&user_name(client)), disabled);
            let known = model.get_mut(&user_name(client)).map(|known| known.1 = disabled);
            assert_eq!(set.is_ok(), known.is_some());
        }
        Operation::SetLabel(client, number, value) => {
            let set = registry.set_label(&name(&user_name(client)), &label(number), &value.to_string());
            let known = model.get_mut(&user_name(client));
            let known = known.map(|known| known.2.insert(label(number), value.to_string()));
            assert_eq!(set.is_ok(), known.is_some());
        }
        Operation::RemoveLabel(client, number) => {
            let removed = registry.remove_label(&name(&user_name(client)), &label(number));
            let known = model
                .get_mut(&user_name(client))
                .map(|known| known.2.remove(&label(number)));
            assert_eq!(removed.is_ok(), known.is_some());
        }
        Operation::Reopen => {}
    }
}

fn held(registry: &Registry) -> Model {
    let lists = ["default", "acme"]
        .into_iter()
        .flat_map(|tenant| [ClientKind::Device, ClientKind::App].map(|kind| (tenant, kind)))
        .flat_map(|(tenant, kind)| registry.clients(tenant, kind, None, 100).unwrap());
    lists
        .map(|c| (c.name.user_name(), (c.kind == ClientKind::App, c.disabled, c.labels)))
        .collect()
}

fn check(edge: &Edge, model: &Model) {
    let registry = edge.identity.registry();
    assert_eq!(&held(registry), model);
    let snapshot = registry.snapshot().unwrap();
    for client in (0..6).map(user_name) {
        let name = name(&client);
        let labels = snapshot
            .labels(name.tenant(), name.id())
            .map(|labels| (**labels).clone());
        assert_eq!(
            labels.unwrap_or_default(),
            model.get(&client).map(|known| known.2.clone()).unwrap_or_default()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_registry_holds_what_a_map_would(operations in prop::collection::vec(operation(), 1..40)) {
        let mut edge = Edge::new();
        edge.identity.registry().add_tenant("acme", &Quotas::default()).unwrap();
        let mut model = Model::new();
        for operation in &operations {
            if matches!(operation, Operation::Reopen) {
                edge = edge.reopened();
            }
            apply(&edge, &mut model, operation);
            check(&edge, &model);
        }
    }
}
