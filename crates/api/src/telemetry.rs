//! What devices said, out of the database of a cloud or the history of an edge.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use cloud::Cursor;
use identity::ClientName;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::desk::Desk;
use crate::points::{Latest, Series, bucket, shown};
use crate::wrong::{Done, Wrong};

/// Rows of an answer where nothing is said.
const DEFAULT_LIMIT: u64 = 1_000;

/// Which part of a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Part {
    /// The last stream of the part before; with none, the list begins.
    after: Option<String>,
    /// Most items, 1 to 10,000; 1,000 where nothing is said.
    limit: Option<u64>,
}

/// Which rows of a stream.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Span {
    /// First time of measurement, in ms since 1970 UTC; the oldest where nothing is said.
    from_ms: Option<i64>,
    /// Time of measurement before which it ends, likewise; the newest where nothing is said.
    to_ms: Option<i64>,
    /// Most points, 1 to 10,000; 1,000 where nothing is said. Not for buckets.
    limit: Option<u64>,
    /// `next` of the part before. Not for buckets.
    cursor: Option<String>,
    /// Width of the buckets to down-sample into, of which an answer has 10,000 at most.
    bucket_ms: Option<i64>,
}

/// The latest reading of each stream of a device.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/devices/{id}/telemetry", tag = "telemetry",
    operation_id = "latest_telemetry", params(Part), responses((status = 200, body = Latest)))]
pub(crate) async fn latest(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id)): Path<(String, String)>,
    Query(part): Query<Part>,
) -> Done<Json<Latest>> {
    let device = ClientName::new(&tenant, &id)?;
    let limit = part.limit.unwrap_or(DEFAULT_LIMIT);
    let latest = desk
        .ask_telemetry(move |queries| queries.latest(device.tenant(), device.id(), part.after.as_deref(), limit))
        .await?;
    let next = latest.last().filter(|_| latest.len() as u64 == limit);
    Ok(Json(Latest {
        next: next.map(|(stream, _)| stream.clone()),
        streams: latest
            .into_iter()
            .map(|(stream, point)| (stream, shown(point)))
            .collect(),
    }))
}

/// A stream of a device: its points in the order of their times, or with `bucket_ms` buckets of them.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/devices/{id}/telemetry/{stream}", tag = "telemetry",
    operation_id = "telemetry_of_stream", params(Span), responses((status = 200, body = Series)))]
pub(crate) async fn stream(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id, stream)): Path<(String, String, String)>,
    Query(span): Query<Span>,
) -> Done<Json<Series>> {
    let device = ClientName::new(&tenant, &id)?;
    let within = span.from_ms.unwrap_or(i64::MIN)..span.to_ms.unwrap_or(i64::MAX);
    if let Some(width_ms) = span.bucket_ms {
        let buckets = desk
            .ask_telemetry(move |queries| queries.buckets(device.tenant(), device.id(), &stream, within, width_ms))
            .await?;
        let buckets = buckets.iter().map(bucket).collect();
        return Ok(Json(Series::Buckets { buckets }));
    }
    let limit = span.limit.unwrap_or(DEFAULT_LIMIT);
    let cursor = span.cursor.as_deref().map(str::parse::<Cursor>).transpose();
    let cursor = cursor.map_err(|error| Wrong::request(format!("cursor: {error}")))?;
    let page = desk
        .ask_telemetry(move |queries| {
            queries.range(device.tenant(), device.id(), &stream, within, limit, cursor.as_ref())
        })
        .await?;
    Ok(Json(Series::Points {
        points: page.items.into_iter().map(shown).collect(),
        next: page.next.map(|cursor| cursor.to_string()),
    }))
}
