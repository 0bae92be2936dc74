//! What operators ask of an edge that does not run: the same requests, answered in this process.

use std::path::Path;

use api::{
    Add, Added, Applied, Apply, Client, ClientInfo, Credential, CredentialInfo, Give, IssuedCredential, Page, Patch,
    RouteInfo, paths,
};
use hyper::Method;
use identity::{ClientKind, ClientName, HeldCredential};
use serde_json::{Value, json};

const ROUTE: &str = "\
apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: water-alarm}
spec:
  from: devices/+/telemetry
  to:
    - topic: apps/dash/alarms/{device}
";

async fn open(data: &Path) -> Client {
    Client::open(data, true).await.unwrap()
}

async fn add(client: &Client, id: &str) -> Vec<Added> {
    let add = Add {
        edge: None,
        ids: vec![id.to_owned()],
        credential: Credential::GeneratedPassword,
        labels: [("kind".to_owned(), "pump".to_owned())].into(),
    };
    client
        .post(&paths::clients("default", ClientKind::Device), &add)
        .await
        .unwrap()
}

async fn apply(client: &Client, text: &str, is_dry_run: bool) -> Result<Applied, String> {
    let apply = Apply {
        file: "a.yaml".to_owned(),
        text: text.to_owned(),
        is_dry_run,
        takes_over: false,
    };
    client
        .post("/v1/apply", &apply)
        .await
        .map_err(|error| error.to_string())
}

async fn routes(client: &Client) -> Vec<String> {
    let page: Page<RouteInfo> = client.get(&paths::routes("default")).await.unwrap();
    page.items.into_iter().map(|route| route.name).collect()
}

fn pump() -> ClientName {
    ClientName::new("default", "pump-7").unwrap()
}

#[tokio::test]
async fn a_device_is_added_shown_changed_and_removed() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    let added = add(&client, "pump-7").await;
    assert!(matches!(added[0].issued, IssuedCredential::Password(_)));
    let path = paths::client(&pump(), ClientKind::Device);
    let patch = Patch {
        edge: None,
        is_disabled: Some(true),
        labels: [("kind".to_owned(), None), ("site".to_owned(), Some("a".to_owned()))].into(),
    };
    let body = serde_json::to_vec(&patch).unwrap();
    client.good(Method::PATCH, &path, body).await.unwrap();
    let info: ClientInfo = client.get(&path).await.unwrap();
    assert!(info.is_disabled && info.is_connected.is_none());
    assert_eq!(info.labels, [("site".to_owned(), "a".to_owned())].into());
    client.good(Method::DELETE, &path, Vec::new()).await.unwrap();
    let error = client.get::<ClientInfo>(&path).await.unwrap_err().to_string();
    assert_eq!(error, "no device \"pump-7\"; add it: selvedge device add pump-7");
}

#[tokio::test]
async fn credentials_are_added_listed_and_revoked_one_by_one() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    add(&client, "pump-7").await;
    let path = paths::credentials(&pump(), ClientKind::Device);
    let credential = Credential::Certificate { valid_s: 60 };
    let given: Added = client.post(&path, &Give { credential }).await.unwrap();
    let IssuedCredential::Certificate { serial, .. } = given.issued else {
        panic!("no certificate: {given:?}")
    };
    let held: Page<CredentialInfo> = client.get(&path).await.unwrap();
    let found: Vec<_> = held
        .items
        .iter()
        .map(|held| (&*held.sort, held.serial.as_deref()))
        .collect();
    assert_eq!(found, [("password", None), ("certificate", Some(&*serial))]);
    let revoke = async |credential: &str| {
        let credential: HeldCredential = credential.parse().unwrap();
        let path = paths::credential(&pump(), ClientKind::Device, &credential);
        client.send::<Page<CredentialInfo>>(Method::DELETE, &path, &()).await
    };
    assert_eq!(revoke(&serial).await.unwrap().items.len(), 1);
    let refused = revoke(&serial).await.unwrap_err().to_string();
    assert_eq!(refused, format!("\"pump-7\" has no certificate {serial}"));
    assert_eq!(revoke("password").await.unwrap().items.len(), 0);
    let refused = client
        .good(Method::DELETE, &format!("{path}/passwd"), Vec::new())
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("\"passwd\": a credential is password, token, "),
        "{refused}"
    );
}

#[tokio::test]
async fn of_several_ids_all_are_added_or_none() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    add(&client, "pump-7").await;
    let both = Add {
        edge: None,
        ids: vec!["pump-8".to_owned(), "pump-7".to_owned()],
        credential: Credential::GeneratedPassword,
        labels: Default::default(),
    };
    let path = paths::clients("default", ClientKind::Device);
    let refused = client.post::<Vec<Added>>(&path, &both).await.unwrap_err();
    assert_eq!(refused.to_string(), "\"pump-7\" exists and is a device");
    let page: Page<ClientInfo> = client.get(&path).await.unwrap();
    assert_eq!(page.items.len(), 1);
}

#[tokio::test]
async fn an_id_that_is_no_level_of_a_topic_names_no_device() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    let add = json!({"ids": ["_x"], "credential": "generated_password"});
    let path = paths::clients("default", ClientKind::Device);
    let refused = client.post::<Value>(&path, &add).await.unwrap_err().to_string();
    assert!(refused.starts_with("id \"_x\": "), "{refused}");
    let path = paths::clients("default", ClientKind::App);
    client.post::<Value>(&path, &add).await.unwrap();
}

#[tokio::test]
async fn a_twin_that_is_set_is_there_at_the_next_start() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    add(&client, "pump-7").await;
    let path = paths::twin(&pump());
    client.good(Method::PATCH, &path, b"{\"a\": 1}".to_vec()).await.unwrap();
    client.close().await;
    let client = open(data.path()).await;
    let twin: Value = client.get(&path).await.unwrap();
    assert_eq!(twin["desired"], json!({"$version": 1, "a": 1}));
    client.close().await;
}

#[tokio::test]
async fn a_device_that_is_added_again_does_not_inherit_the_twin() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    add(&client, "pump-7").await;
    let twin = paths::twin(&pump());
    client.good(Method::PATCH, &twin, b"{\"a\": 1}".to_vec()).await.unwrap();
    client.close().await;
    let client = open(data.path()).await;
    let device = paths::client(&pump(), ClientKind::Device);
    client.good(Method::DELETE, &device, Vec::new()).await.unwrap();
    client.close().await;
    let client = open(data.path()).await;
    add(&client, "pump-7").await;
    let twin: Value = client.get(&twin).await.unwrap();
    assert_eq!(twin["desired"], json!({"$version": 0}));
    client.close().await;
}

#[tokio::test]
async fn a_twin_of_a_device_that_nobody_added_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    add(&client, "pump-7").await;
    let path = paths::twin(&ClientName::new("default", "pump-8").unwrap());
    let refused = client.get::<Value>(&path).await.unwrap_err().to_string();
    assert_eq!(refused, "no device \"pump-8\"; did you mean \"pump-7\"?");
}

#[tokio::test]
async fn what_is_applied_twice_changes_nothing_the_second_time() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    let dry = apply(&client, ROUTE, true).await.unwrap();
    assert_eq!(dry.changes, ["+ Route/water-alarm"]);
    assert!(routes(&client).await.is_empty());
    assert_eq!(apply(&client, ROUTE, false).await.unwrap(), dry);
    let again = apply(&client, ROUTE, false).await.unwrap();
    assert_eq!((again.changes.len(), &*again.unchanged[0]), (0, "Route/water-alarm"));
    let other = apply(&client, &ROUTE.replace("alarms", "alerts"), false).await.unwrap();
    assert_eq!(other.changes.len(), 1);
    assert!(
        other.changes[0].contains("alarms") && other.changes[0].contains("alerts"),
        "{other:?}"
    );
    client.close().await;
    assert_eq!(routes(&open(data.path()).await).await, ["water-alarm"]);
}

#[tokio::test]
async fn of_a_file_with_a_mistake_nothing_is_applied() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    let device = "apiVersion: selvedge.dev/v1\nkind: Device\nmetadata: {name: pump-7}\nspec: {}\n";
    let refused = apply(&client, &format!("{ROUTE}---\n{device}"), false)
        .await
        .unwrap_err();
    assert_eq!(
        refused,
        "a.yaml:11: metadata.name: no device \"pump-7\"; add it: selvedge device add pump-7   (nothing was applied)"
    );
    assert!(routes(&client).await.is_empty());
    let namespace = ROUTE.replace("water-alarm}", "water-alarm, namespace: defualt}");
    let refused = apply(&client, &namespace, false).await.unwrap_err();
    assert_eq!(
        refused,
        "a.yaml:3: metadata.namespace: no tenant \"defualt\"; did you mean \"default\"?   (nothing was applied)"
    );
}

#[tokio::test]
async fn of_a_file_that_fails_half_way_it_is_said_what_was_applied() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    add(&client, "pump-7").await;
    // Stands where the file of the route is written before it gets its name.
    std::fs::create_dir_all(data.path().join("manifests/default/Route/water-alarm.new")).unwrap();
    let device = "apiVersion: selvedge.dev/v1\nkind: Device\nmetadata: {name: pump-7}\nspec: {labels: {a: b}}\n";
    let failed = apply(&client, &format!("{ROUTE}---\n{device}"), false)
        .await
        .unwrap_err();
    assert!(failed.ends_with("   (applied before that: Device/pump-7)"), "{failed}");
}

#[tokio::test]
async fn a_device_gets_the_labels_of_its_manifest_and_keeps_those_of_others() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    add(&client, "pump-7").await;
    let device = "apiVersion: selvedge.dev/v1\nkind: Device\nmetadata: {name: pump-7}\nspec: {labels: {LABEL: x}}\n";
    apply(&client, &device.replace("LABEL", "floor"), false).await.unwrap();
    apply(&client, &device.replace("LABEL", "roof"), false).await.unwrap();
    let info: ClientInfo = client.get(&paths::client(&pump(), ClientKind::Device)).await.unwrap();
    let labels: Vec<&str> = info.labels.keys().map(String::as_str).collect();
    assert_eq!(labels, ["kind", "roof"]);
}

#[tokio::test]
async fn a_route_that_is_deleted_is_gone_and_a_wrong_name_is_told_the_right_one() {
    let data = tempfile::tempdir().unwrap();
    let client = open(data.path()).await;
    apply(&client, ROUTE, false).await.unwrap();
    let wrong = client
        .good(Method::DELETE, &paths::route("default", "water-alrm"), Vec::new())
        .await;
    assert!(
        wrong
            .unwrap_err()
            .to_string()
            .ends_with("did you mean \"water-alarm\"?")
    );
    client
        .good(Method::DELETE, &paths::route("default", "water-alarm"), Vec::new())
        .await
        .unwrap();
    assert!(routes(&client).await.is_empty());
}

#[tokio::test]
async fn two_commands_do_not_write_at_once() {
    let data = tempfile::tempdir().unwrap();
    let first = open(data.path()).await;
    let second = Client::open(data.path(), true).await.err().unwrap().to_string();
    assert!(
        second.contains("edge.lock") && second.contains(&std::process::id().to_string()),
        "{second}"
    );
    first.close().await;
}

#[tokio::test]
async fn a_directory_where_no_edge_has_run_is_not_made_by_looking() {
    let data = tempfile::tempdir().unwrap();
    let nowhere = data.path().join("nowhere");
    assert!(Client::open(&nowhere, false).await.is_err());
    assert!(!nowhere.exists());
}
