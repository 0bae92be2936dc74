//! What a port serves: to whom, and to whom not.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{About, Desk, Parts, public_router};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use identity::{
    Audit, AuditOptions, ClientKind, ClientName, Credential, Identity, IdentityOptions, Issued, NewClient, Quotas,
    Role, UserName,
};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

const PASSWORD: &str = "a password of the tests";

/// A cloud without doors, with tenants acme and beta.
struct Cloud {
    _directory: TempDir,
    identity: Arc<Identity>,
    router: Router,
}

fn now_unix_s() -> i64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64
}

impl Cloud {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let database = format!("sqlite:{}", data.join("telemetry.db").display());
        drop(cloud::Database::open(&database).unwrap());
        let identity = Arc::new(Identity::open(data, IdentityOptions::default(), now_unix_s()).unwrap());
        for tenant in ["acme", "beta"] {
            identity.registry().add_tenant(tenant, &Quotas::default()).unwrap();
        }
        let desk = Desk::new(Parts {
            data: data.to_owned(),
            identity: Arc::clone(&identity),
            audit: Arc::new(Audit::open(data, AuditOptions::default()).unwrap()),
            hub: None,
            hub_options: hub::Options::new(data),
            about: About::default(),
            link: None,
            member: None,
            nodes: None,
            enrolment: None,
            connected: None,
            database: Some(database),
            history: None,
            feed: Some(cloud::Feed::default()),
            supervisor: None,
            mesh: None,
            login_files: None,
        });
        Self {
            _directory: directory,
            identity,
            router: public_router(Arc::new(desk)),
        }
    }

    /// A token of a new user.
    fn token(&self, user: &str, role: Role) -> String {
        let name = UserName::parse(user).unwrap();
        let password = identity::Secret::new(PASSWORD.to_owned());
        self.identity
            .add_user(&name, role, Some(&password), now_unix_s())
            .unwrap();
        let tokens = self.identity.log_in(user, PASSWORD.as_bytes(), now_unix_s()).unwrap();
        tokens.access.expose().to_owned()
    }

    async fn ask(&self, method: &Method, path: &str, token: Option<&str>, body: Body) -> (StatusCode, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let answer = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let status = answer.status();
        let kind = answer.headers().get(header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind == "text/event-stream") {
            // It goes on and on.
            return (status, Value::Null);
        }
        let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn status(&self, route: &Route, token: Option<&str>) -> StatusCode {
        let (status, answer) = self
            .ask(&route.method, &route.path("acme"), token, Body::from("{}"))
            .await;
        if !status.is_success() {
            assert!(answer["error"].is_string(), "{route:?}: {status} {answer}");
        }
        status
    }

    /// All that the document describes.
    async fn routes(&self) -> Vec<Route> {
        let (status, document) = self.ask(&Method::GET, "/v1/openapi.json", None, Body::empty()).await;
        assert_eq!((status, &document["openapi"]), (StatusCode::OK, &"3.1.0".into()));
        let paths: BTreeMap<String, BTreeMap<String, Value>> =
            serde_json::from_value(document["paths"].clone()).unwrap();
        let routes = paths.into_iter().flat_map(|(template, operations)| {
            operations.into_iter().map(move |(method, operation)| Route {
                template: template.clone(),
                method: method.to_uppercase().parse().unwrap(),
                is_open: operation["security"].is_null(),
            })
        });
        routes.collect()
    }
}

#[derive(Debug)]
struct Route {
    template: String,
    method: Method,
    is_open: bool,
}

impl Route {
    fn path(&self, tenant: &str) -> String {
        let mut path = self.template.replace("{tenant}", tenant).replace("{kinds}", "devices");
        for name in ["{id}", "{name}", "{stream}", "{credential}", "{namespace}", "{kind}"] {
            path = path.replace(name, "token");
        }
        assert!(!path.contains('{'), "{path}: a parameter that this test does not know");
        path
    }

    fn is_of_tenant(&self) -> bool {
        self.template.contains("{tenant}")
    }

    /// For devices, which no user is.
    fn is_of_devices(&self) -> bool {
        self.method == Method::POST && self.template.ends_with("/telemetry")
    }

    fn is(&self, method: &Method, template: &str) -> bool {
        self.method == *method && self.template == template
    }
}

#[tokio::test]
async fn without_a_users_token_every_route_is_closed_but_those_to_log_in_and_to_join() {
    let cloud = Cloud::start();
    let device = NewClient {
        name: ClientName::from_user_name("acme/pump-7").unwrap(),
        kind: ClientKind::Device,
        labels: BTreeMap::new(),
        credential: Credential::Token { valid_s: 3_600 },
        edge: None,
    };
    let Issued::Token(of_device) = cloud.identity.add(&device, now_unix_s()).unwrap() else {
        panic!("no token");
    };
    let stranger = Cloud::start().token("admin", Role::Admin);
    let removed = cloud.token("gone", Role::Admin);
    cloud
        .identity
        .registry()
        .remove_user(&UserName::parse("gone").unwrap())
        .unwrap();
    let mut open = Vec::new();
    for route in cloud.routes().await {
        if route.is_open {
            open.push(route.template);
            continue;
        }
        let of_users = [Some(of_device.expose()), Some(&*stranger), Some(&*removed), Some("x")];
        // Those of devices would be asked to wait.
        let wrong: &[_] = if route.is_of_devices() { &[] } else { &of_users };
        for token in wrong.iter().copied().chain([None]) {
            let status = cloud.status(&route, token).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{route:?} {token:?}");
        }
    }
    let to_log_in_and_to_join = [
        "/v1/authority",
        "/v1/join",
        "/v1/login",
        "/v1/openapi.json",
        "/v1/refresh",
        "/v1/renew",
    ];
    assert_eq!(open, to_log_in_and_to_join);
}

#[tokio::test]
async fn another_tenants_ids_are_absent_in_every_route_and_the_cloud_is_forbidden() {
    let cloud = Cloud::start();
    let token = cloud.token("beta/anna", Role::Admin);
    for route in cloud.routes().await {
        if route.is_open || route.is_of_devices() || route.template == "/v1/logout" {
            continue;
        }
        let (status, answer) = cloud
            .ask(&route.method, &route.path("acme"), Some(&token), Body::from("{}"))
            .await;
        if route.is_of_tenant() {
            assert_eq!(status, StatusCode::NOT_FOUND, "{route:?} {answer}");
            let (_, of_nobody) = cloud
                .ask(&route.method, &route.path("nobody"), Some(&token), Body::from("{}"))
                .await;
            let expected = answer["error"].as_str().unwrap().replace("acme", "nobody");
            assert_eq!(of_nobody["error"], expected, "it says which of the two is there");
        } else {
            assert_eq!(status, StatusCode::FORBIDDEN, "{route:?} {answer}");
        }
    }
}

#[tokio::test]
async fn a_viewer_changes_nothing_and_an_operator_no_users() {
    let cloud = Cloud::start();
    let (viewer, operator) = (
        cloud.token("acme/vera", Role::Viewer),
        cloud.token("acme/olga", Role::Operator),
    );
    for route in cloud.routes().await {
        if route.is_open || route.is_of_devices() || !route.is_of_tenant() {
            continue;
        }
        let users = route.template.contains("/users");
        let invitations = route.template.ends_with("/invitation");
        // A restore applies manifests.
        let of_whole_cloud = route.template.contains("/edges/{id}/manifests")
            || route.template.ends_with("/restore")
            || route.template == "/v1/tenants/{tenant}";
        let is_of_others = users || invitations || of_whole_cloud && route.method != Method::GET;
        // All that an application keeps is more than there is to be viewed.
        let archives = route.template.ends_with("/archive");
        let may_view = route.method == Method::GET && !users && !archives;
        let is_forbidden = |status| status == StatusCode::FORBIDDEN;
        assert_eq!(
            is_forbidden(cloud.status(&route, Some(&viewer)).await),
            !may_view,
            "{route:?}"
        );
        assert_eq!(
            is_forbidden(cloud.status(&route, Some(&operator)).await),
            is_of_others,
            "{route:?}"
        );
    }
}

#[tokio::test]
async fn a_tenants_admin_neither_raises_its_quotas_nor_adds_an_edge() {
    let cloud = Cloud::start();
    let token = cloud.token("acme/anna", Role::Admin);
    let ask = async |method: Method, path: &str, body: &'static str| {
        cloud.ask(&method, path, Some(&token), Body::from(body)).await.0
    };
    let quotas = ask(Method::PATCH, "/v1/tenants/acme", r#"{"devices": null}"#).await;
    let add = r#"{"ids": ["x"], "credential": "generated_password"}"#;
    let edge = ask(Method::POST, "/v1/tenants/acme/edges", add).await;
    let label = r#"{"labels": {"tenants": "beta"}}"#;
    let labelled = ask(Method::PATCH, "/v1/tenants/acme/edges/x", label).await;
    assert_eq!([quotas, edge, labelled], [StatusCode::FORBIDDEN; 3]);
    assert_eq!(
        ask(Method::POST, "/v1/tenants/acme/devices", add).await,
        StatusCode::CREATED
    );
}

#[tokio::test]
async fn the_document_lists_exactly_the_routes_that_are_served() {
    let cloud = Cloud::start();
    let routes = cloud.routes().await;
    let token = cloud.token("root", Role::Admin);
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    for route in &routes {
        for method in &methods {
            let is_listed = routes.iter().any(|listed| listed.is(method, &route.template));
            // It would end the login.
            if route.template == "/v1/logout" {
                continue;
            }
            let (status, answer) = cloud
                .ask(method, &route.path("default"), Some(&token), Body::from("["))
                .await;
            assert_eq!(
                status != StatusCode::METHOD_NOT_ALLOWED,
                is_listed,
                "{method} {route:?}"
            );
            assert!(
                !answer["error"].as_str().unwrap_or_default().starts_with("nothing here"),
                "{route:?}"
            );
        }
    }
    for of_operators in ["/v1/configuration", "/v1/log", "/v1", "/v1/"] {
        let (status, _) = cloud.ask(&Method::GET, of_operators, Some(&token), Body::empty()).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{of_operators}");
    }
    assert!(routes.len() > 30, "{}", routes.len());
}

#[tokio::test]
async fn a_long_body_is_refused_and_not_even_looked_at_where_a_token_is_missing() {
    let cloud = Cloud::start();
    for length in [20_000, 2_000_000] {
        let long = Body::from(vec![b'x'; length]);
        let (status, answer) = cloud.ask(&Method::POST, "/v1/login", None, long).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{answer}");
        let long = Body::from(vec![b'x'; length]);
        let (status, answer) = cloud.ask(&Method::POST, "/v1/apply", None, long).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{answer}");
    }
}

#[tokio::test]
async fn json_and_sql_of_wrong_shapes_are_answered_in_json() {
    let cloud = Cloud::start();
    let token = cloud.token("acme/anna", Role::Admin);
    for (method, path, body) in [
        (Method::POST, "/v1/login", "["),
        (Method::POST, "/v1/login", "null"),
        (Method::POST, "/v1/login", r#"{"user": 1, "password": []}"#),
        (Method::POST, "/v1/refresh", r#"{"refresh_token": "' OR 1=1 --"}"#),
        (Method::POST, "/v1/tenants/acme/devices", r#"{"ids": "x"}"#),
        (
            Method::POST,
            "/v1/tenants/acme/users",
            r#"{"name": "x'; DROP TABLE users; --", "role": "admin"}"#,
        ),
        (
            Method::POST,
            "/v1/tenants/acme/users",
            r#"{"name": "x", "role": "root"}"#,
        ),
        (Method::GET, "/v1/tenants/acme/nothing", ""),
        (Method::GET, "/v1/tenants/acme/devices/x'%20OR%201=1/telemetry", ""),
        (Method::GET, "/v1/tenants/acme/devices/x/telemetry?limit=-1", ""),
        (Method::GET, "/v1/tenants/acme/devices/x/telemetry/t?limit=10001", ""),
        (Method::GET, "/v1/tenants/acme/devices/x/telemetry/t?cursor=1;DROP", ""),
        (Method::GET, "/v1/tenants/acme/devices/x/telemetry/t?bucket_ms=0", ""),
        (Method::GET, "/v1/tenants/acme/devices/x/telemetry/t?bucket_ms=1", ""),
        (
            Method::GET,
            "/v1/tenants/acme/devices/x/telemetry/t?from_ms=yesterday",
            "",
        ),
        (Method::GET, "/v1/tenants/acme/devices/x/telemetry/t?fro_ms=1", ""),
        (Method::GET, "/v1/tenants/acme/devices/x/telemetry/%ff", ""),
    ] {
        let (status, answer) = cloud.ask(&method, path, Some(&token), Body::from(body)).await;
        assert!(status.is_client_error(), "{method} {path} {body}: {status} {answer}");
        assert!(answer["error"].is_string(), "{method} {path} {body}: {status} {answer}");
    }
}

#[tokio::test]
async fn a_method_that_is_not_there_is_named_with_those_that_are_before_anybody_is_asked_who_they_are() {
    let cloud = Cloud::start();
    let routes = cloud.routes().await;
    for route in &routes {
        let of_path = |method: &Method| routes.iter().any(|listed| listed.is(method, &route.template));
        for method in [
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            let request = Request::builder().method(&method).uri(route.path("acme"));
            let request = request.body(Body::empty()).unwrap();
            let answer = cloud.router.clone().oneshot(request).await.unwrap();
            let is_refused = answer.status() == StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(is_refused, !of_path(&method), "{method} {route:?}");
            let allowed = answer.headers().get(header::ALLOW).map(|value| value.to_str().unwrap());
            let allowed: Vec<&str> = allowed.into_iter().flat_map(|value| value.split(", ")).collect();
            let lists_all = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE]
                .iter()
                .all(|one| allowed.contains(&one.as_str()) == of_path(one));
            assert!(!is_refused || lists_all, "{method} {route:?}: {allowed:?}");
        }
    }
}

#[tokio::test]
async fn a_watch_ends_when_its_token_expires() {
    let cloud = Cloud::start();
    cloud.token("acme/vera", Role::Viewer);
    // Valid for some seconds more.
    let begun = now_unix_s() - i64::from(identity::ACCESS_TOKEN_VALID_S) + 3;
    let tokens = cloud.identity.log_in("acme/vera", PASSWORD.as_bytes(), begun).unwrap();
    let request = Request::builder()
        .uri("/v1/tenants/acme/telemetry/live")
        .header(header::AUTHORIZATION, format!("Bearer {}", tokens.access.expose()));
    let request = request.body(Body::empty()).unwrap();
    let answer = cloud.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let said = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    let said = String::from_utf8(said.to_vec()).unwrap();
    assert!(said.contains("event: end") && said.contains("expired"), "{said}");
}

#[tokio::test]
async fn a_method_that_no_one_has_is_told_of_with_no_word_about_the_tenant() {
    let cloud = Cloud::start();
    for tenant in ["acme", "nobody"] {
        let path = format!("/v1/tenants/{tenant}/devices/p7/twin");
        let (status, answer) = cloud.ask(&Method::DELETE, &path, None, Body::empty()).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(
            answer["error"],
            "there is no DELETE of this; there are GET, HEAD, PATCH"
        );
    }
}
