//! A method that a path does not have is answered so before anybody is asked who they are: which there are is no
//! secret.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::PathItem;

use crate::routers::described;
use crate::wrong::Wrong;

/// What each path has, as `Allow` says it (RFC 9110, section 10.2.1).
static ALLOWED: LazyLock<BTreeMap<String, Arc<str>>> = LazyLock::new(|| {
    let paths = described().paths.paths.into_iter();
    paths.map(|(path, item)| (path, allowed(&item).into())).collect()
});

fn allowed(item: &PathItem) -> String {
    let methods = [
        ("GET, HEAD", item.get.is_some()),
        ("POST", item.post.is_some()),
        ("PUT", item.put.is_some()),
        ("PATCH", item.patch.is_some()),
        ("DELETE", item.delete.is_some()),
    ];
    let there = methods.iter().filter(|(_, is_there)| *is_there);
    there.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Lets a request through whose path has its method.
pub(crate) async fn check(path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let allowed = path.as_ref().and_then(|path| ALLOWED.get(path.as_str()));
    match allowed.filter(|allowed| !is_among(request.method(), allowed)) {
        None => next.run(request).await,
        Some(allowed) => refusal(request.method(), allowed),
    }
}

fn is_among(method: &Method, allowed: &str) -> bool {
    allowed.split(", ").any(|one| one == method.as_str())
}

fn refusal(method: &Method, allowed: &str) -> Response {
    let message = format!("there is no {method} of this; there are {allowed}");
    let mut response = Wrong::new(StatusCode::METHOD_NOT_ALLOWED, message).into_response();
    let allowed = HeaderValue::from_str(allowed).expect("names of methods are a header's value");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}
