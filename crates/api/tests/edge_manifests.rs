//! Manifests across a link whose other end says what no edge and no cloud says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::{About, Desk, ManifestsForEdges, ManifestsFromCloud, Parts, control_router};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use identity::{Audit, AuditOptions, ClientKind, ClientName, Credential, Identity, IdentityOptions, NewClient};
use link::Talk;
use link::cloud::Correspondent as _;
use link::edge::Correspondent as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::ServiceExt;

const PATH: &str = "/v1/tenants/default/edges/hall-1/manifests";

fn route(name: &str) -> String {
    format!(
        "apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {{name: {name}}}\nspec: {{from: a, to: [{{topic: b}}]}}\n"
    )
}

fn desk(data: &Path) -> Arc<Desk> {
    let identity = Arc::new(Identity::open(data, IdentityOptions::default(), 1_790_000_000).unwrap());
    let edge = NewClient {
        name: ClientName::from_user_name("hall-1").unwrap(),
        kind: ClientKind::Edge,
        labels: BTreeMap::new(),
        credential: Credential::Elsewhere,
        edge: None,
    };
    identity.add(&edge, 1_790_000_000).unwrap();
    Arc::new(Desk::new(Parts {
        data: data.to_owned(),
        identity,
        audit: Arc::new(Audit::open(data, AuditOptions::default()).unwrap()),
        hub: None,
        hub_options: hub::Options::new(data),
        about: About::default(),
        link: None,
        member: None,
        nodes: None,
        enrolment: None,
        connected: None,
        database: None,
        history: None,
        feed: None,
        supervisor: None,
        mesh: None,
        login_files: None,
    }))
}

/// The other end of a talk.
struct Other {
    say: mpsc::Sender<Vec<u8>>,
    heard: mpsc::Receiver<Vec<u8>>,
}

fn talk() -> (Talk, Other) {
    let (say, heard) = mpsc::channel(link::WAITING_MAX);
    let (answer, answers) = mpsc::channel(link::WAITING_MAX);
    let other = Other { say, heard: answers };
    (Talk { heard, say: answer }, other)
}

impl Other {
    async fn say(&self, what: &Value) {
        self.say.send(what.to_string().into_bytes()).await.unwrap();
    }

    /// What is answered; `None`: the talk is over, or nothing comes.
    async fn answer(&mut self) -> Option<Value> {
        let answer = tokio::time::timeout(Duration::from_millis(500), self.heard.recv()).await;
        answer.ok()?.map(|answer| serde_json::from_slice(&answer).unwrap())
    }

    async fn is_left(&mut self) -> bool {
        let ended = async { while self.heard.recv().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(10), ended).await.is_ok()
    }
}

/// A cloud, and an edge that it speaks with.
struct Cloud {
    router: Router,
    edge: Other,
}

fn cloud(data: &Path) -> Cloud {
    let desk = desk(data);
    let (talk, edge) = talk();
    ManifestsForEdges::new(Arc::clone(&desk)).begin(&"hall-1".into(), &["default".to_owned()], talk);
    let router = control_router(desk);
    Cloud { router, edge }
}

impl Cloud {
    async fn ask(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn apply(&self, text: String) {
        let (status, said) = self
            .ask(Method::POST, PATH, &json!({"file": "m.yaml", "text": text}))
            .await;
        assert_eq!(status, StatusCode::OK, "{said}");
    }

    async fn states(&self) -> Vec<(String, String)> {
        let (_, said) = self.ask(Method::GET, PATH, &Value::Null).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let items = said["items"].as_array().unwrap().iter();
        items.map(|item| (text(&item["name"]), text(&item["state"]))).collect()
    }
}

fn key(tenant: &str, name: &str) -> Value {
    json!({"tenant": tenant, "kind": "Route", "name": name})
}

fn there(number: u64) -> Value {
    json!({"revision": {"number": number, "tag": 1}, "verdict": "applied", "in_effect": number, "error": null})
}

fn list(entries: &Value) -> Value {
    json!({"entries": {"after": null, "entries": entries, "is_last": true}})
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path.display().to_string()),
        }
    }
    found
}

#[tokio::test]
async fn what_an_edge_lists_outside_its_tenants_or_by_names_that_are_none_is_not_kept() {
    let data = tempfile::tempdir().unwrap();
    let mut cloud = cloud(data.path());
    cloud.edge.say(&json!({"digest": 7})).await;
    assert_eq!(cloud.edge.answer().await, Some(json!({"list": {"after": null}})));
    let names = [
        ("default", "../../../up"),
        ("..", "up"),
        ("acme", "theirs"),
        ("default", "own"),
    ];
    let entries: Vec<Value> = names
        .iter()
        .map(|(tenant, name)| json!([key(tenant, name), there(1)]))
        .collect();
    cloud.edge.say(&list(&entries.into())).await;
    assert_eq!(cloud.edge.answer().await, None);
    assert_eq!(cloud.states().await, [("own".to_owned(), "unknown".to_owned())]);
    let kept: Vec<String> = files(data.path())
        .into_iter()
        .filter(|path| path.ends_with(".json"))
        .collect();
    assert!(
        kept.len() == 1 && kept[0].ends_with("default/hall-1/default/Route/own.json"),
        "{kept:?}"
    );
}

#[tokio::test]
async fn an_edge_that_says_what_no_edge_says_is_left() {
    let many: Vec<Value> = (0..1_001)
        .map(|n| json!([key("default", &format!("r{n}")), there(1)]))
        .collect();
    for nonsense in [
        json!("nonsense"),
        json!({"became": [key("default", "../x"), null]}),
        json!({"became": [key("default", "x"), {"revision": -1}]}),
        list(&many.into()),
        // It would go on for ever.
        json!({"entries": {"after": null, "entries": [], "is_last": false}}),
    ] {
        let data = tempfile::tempdir().unwrap();
        let mut cloud = cloud(data.path());
        cloud.edge.say(&json!({"digest": 7})).await;
        cloud.edge.say(&nonsense).await;
        assert!(cloud.edge.is_left().await, "{nonsense}");
        assert_eq!(cloud.states().await, []);
    }
}

#[tokio::test]
async fn an_edge_that_answers_something_else_for_ever_is_asked_once() {
    let data = tempfile::tempdir().unwrap();
    let mut cloud = cloud(data.path());
    cloud.apply(route("alarm")).await;
    cloud.edge.say(&json!({"digest": 7})).await;
    assert_eq!(cloud.edge.answer().await, Some(json!({"list": {"after": null}})));
    cloud.edge.say(&list(&json!([]))).await;
    let told = cloud.edge.answer().await.unwrap();
    assert_eq!(told["apply"][0], key("default", "alarm"));
    for answer in [there(99), Value::Null, there(98)] {
        cloud
            .edge
            .say(&json!({"became": [key("default", "alarm"), answer]}))
            .await;
    }
    // Of something that was never applied.
    cloud
        .edge
        .say(&json!({"became": [key("default", "other"), there(1)]}))
        .await;
    assert_eq!(cloud.edge.answer().await, None);
    assert_eq!(cloud.states().await, [("alarm".to_owned(), "waiting".to_owned())]);
}

#[tokio::test]
async fn a_long_list_is_asked_for_part_by_part_and_what_changes_meanwhile_counts() {
    let data = tempfile::tempdir().unwrap();
    let mut cloud = cloud(data.path());
    cloud.edge.say(&json!({"digest": 7})).await;
    assert_eq!(cloud.edge.answer().await, Some(json!({"list": {"after": null}})));
    let part = |after: Value, names: &[&str], is_last: bool| {
        let entries: Vec<Value> = names
            .iter()
            .map(|name| json!([key("default", name), there(1)]))
            .collect();
        json!({"entries": {"after": after, "entries": entries, "is_last": is_last}})
    };
    cloud.edge.say(&part(Value::Null, &["a", "b"], false)).await;
    assert_eq!(
        cloud.edge.answer().await,
        Some(json!({"list": {"after": key("default", "b")}}))
    );
    cloud.edge.say(&json!({"became": [key("default", "a"), null]})).await;
    cloud
        .edge
        .say(&json!({"became": [key("default", "b"), there(2)]}))
        .await;
    cloud
        .edge
        .say(&part(key("default", "z"), &["of another list"], true))
        .await;
    cloud.edge.say(&part(key("default", "b"), &["c"], true)).await;
    assert_eq!(cloud.edge.answer().await, None);
    let (_, said) = cloud.ask(Method::GET, PATH, &Value::Null).await;
    let items = said["items"].as_array().unwrap().iter();
    let listed: Vec<_> = items
        .map(|item| (item["name"].clone(), item["on_edge"].clone()))
        .collect();
    assert_eq!(listed, [(json!("b"), json!(2)), (json!("c"), json!(1))]);
}

#[tokio::test]
async fn so_much_is_on_the_way_as_a_thin_line_carries_in_two_seconds() {
    let data = tempfile::tempdir().unwrap();
    let mut cloud = cloud(data.path());
    let all: Vec<String> = (0..100).map(|number| route(&format!("alarm-{number}"))).collect();
    cloud.apply(all.join("---\n")).await;
    cloud.edge.say(&json!({"digest": 7})).await;
    cloud.edge.say(&list(&json!([]))).await;
    assert_eq!(cloud.edge.answer().await, Some(json!({"list": {"after": null}})));
    let mut told = Vec::new();
    while let Some(said) = cloud.edge.answer().await {
        told.push(said["apply"].clone());
    }
    let bytes: usize = told.iter().map(|told| told[1]["text"].as_str().unwrap().len()).sum();
    assert!((1_800..=2_048).contains(&bytes), "{bytes}");
    let revision = told[0][1]["revision"].clone();
    let became = json!({"revision": revision, "verdict": "applied", "in_effect": 1, "error": null});
    cloud.edge.say(&json!({"became": [told[0][0], became]})).await;
    assert!(cloud.edge.answer().await.is_some() && cloud.edge.answer().await.is_none());
}

#[tokio::test]
async fn what_a_cloud_wants_under_names_that_are_none_or_without_end_is_not_taken() {
    let applied = |name: &str, text: String| {
        let applied = json!({"revision": {"number": 1, "tag": 1}, "file": "m.yaml", "line": 1, "text": text});
        json!({"apply": [key("default", name), applied]})
    };
    for nonsense in [
        json!({"dance": 1}),
        applied("../../up", route("up")),
        json!({"remove": key("..", "up")}),
    ] {
        let data = tempfile::tempdir().unwrap();
        let (talk, mut cloud) = talk();
        ManifestsFromCloud::new(desk(data.path())).begin(talk);
        cloud.say(&nonsense).await;
        assert!(cloud.is_left().await, "{nonsense}");
        assert!(files(data.path()).iter().all(|path| !path.ends_with("up.json")));
    }
    let data = tempfile::tempdir().unwrap();
    let (talk, mut cloud) = talk();
    ManifestsFromCloud::new(desk(data.path())).begin(talk);
    assert!(cloud.answer().await.unwrap()["digest"].is_u64());
    let newer = route("newer").replace("kind: Route", "kind: Rule");
    for (name, text, expected) in [
        ("other", route("alarm"), "Route/alarm came as Route/other"),
        (
            "long",
            format!("# {}\n{}", "x".repeat(64 << 10), route("long")),
            "has at most 65536",
        ),
        ("newer", newer, "m.yaml:2: kind: unknown kind \"Rule\""),
        ("none", String::new(), "0 manifests where one was expected"),
        ("anchor", "a: &a [*a]".to_owned(), "anchors"),
    ] {
        cloud.say(&applied(name, text)).await;
        let answer = cloud.answer().await.unwrap();
        let (of, became) = (&answer["became"][0], &answer["became"][1]);
        assert_eq!((of, &became["verdict"]), (&key("default", name), &json!("refused")));
        assert!(became["error"].as_str().unwrap().contains(expected), "{became}");
    }
}
