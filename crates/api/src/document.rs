//! The API in OpenAPI 3.1, made of the routes themselves.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use utoipa::ToSchema;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr, ResponseBuilder, Schema,
};

use crate::clients::Kinds;
use crate::routers::described;
use crate::types::Failure;

/// Names of the ways in which callers say who they are.
const BEARER: &str = "access_token";
const DEVICE_PASSWORD: &str = "device_password";
const DEVICE_TOKEN: &str = "device_token";

/// Made once: it is the same for every door.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let document = finished(described());
    document.to_json().expect("a document is JSON")
});

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "document", operation_id = "openapi",
    responses((status = 200, body = serde_json::Value)))]
pub(crate) async fn show() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str())
}

/// Says of every operation that its caller has to log in.
pub(crate) fn require_login(document: &mut OpenApi) {
    for operation in operations(document) {
        operation.security = Some(vec![SecurityRequirement::new(BEARER, [""; 0])]);
    }
}

/// Says of every operation that its caller is a device.
pub(crate) fn require_device(document: &mut OpenApi) {
    for operation in operations(document) {
        let ways = [DEVICE_PASSWORD, DEVICE_TOKEN].map(|way| SecurityRequirement::new(way, [""; 0]));
        operation.security = Some(ways.into());
    }
}

fn finished(mut routes: OpenApi) -> OpenApi {
    for operation in operations(&mut routes) {
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name(Failure::name())));
        let failure = ResponseBuilder::new()
            .description("What happened and what would be right.")
            .content("application/json", body.build());
        let failure = RefOr::T(failure.build());
        operation.responses.responses.insert("default".to_owned(), failure);
    }
    let components = routes.components.get_or_insert_with(Components::new);
    for (name, scheme) in [
        (BEARER, HttpAuthScheme::Bearer),
        (DEVICE_PASSWORD, HttpAuthScheme::Basic),
        (DEVICE_TOKEN, HttpAuthScheme::Bearer),
    ] {
        let scheme = HttpBuilder::new().scheme(scheme).build();
        components.add_security_scheme(name, SecurityScheme::Http(scheme));
    }
    // What no route's body or answer brings along.
    components.schemas.extend([schema::<Failure>(), schema::<Kinds>()]);
    let info = InfoBuilder::new()
        .title("Selvedge")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Tenants, users, devices, twins, methods and telemetry of a cloud and its edges.",
        ));
    let mut document = OpenApiBuilder::new().info(info.build()).build();
    document.merge(routes);
    document
}

fn schema<T: ToSchema>() -> (String, RefOr<Schema>) {
    (T::name().into_owned(), T::schema())
}

fn operations(document: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    document.paths.paths.values_mut().flat_map(|path: &mut PathItem| {
        [
            &mut path.get,
            &mut path.post,
            &mut path.put,
            &mut path.patch,
            &mut path.delete,
        ]
        .into_iter()
        .flatten()
    })
}
