//! What containers of applications said: those that are there, and those that ran last.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use agent::supervise::{Key, start_before};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::IntoResponse;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::applications::{find, held};
use crate::desk::Desk;
use crate::types::ContainerInfo;
use crate::wrong::{Done, Wrong};

/// Lines of a log that are given where it is not said how many.
const LINES: usize = 1_000;

/// Which output is asked for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Output {
    /// Of this container; it need not be said where there is one.
    container: Option<String>,
    /// Of this replica; the first that there is, or that ran last, where it is not said.
    replica: Option<u32>,
    /// Of the start before the last one.
    #[serde(default)]
    previous: bool,
    /// So many lines at most, the last ones; 1000 where it is not said.
    lines: Option<usize>,
}

/// A container that said something, by its replica.
struct Known {
    replica: u32,
    name: String,
    is_init: bool,
    /// It is wanted now, whether it has been started or not.
    is_here: bool,
}

/// The end of a container's output: lines of time, stream (`stdout` or `stderr`), `F` (`P`: goes on in the next line)
/// and text. At most 4 MiB of it; 1 MiB of one that sleeps or is not wanted any more.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/deployments/{name}/log", tag = "applications",
    operation_id = "show_deployment_log", params(Output),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn show(
    State(desk): State<Arc<Desk>>,
    Path((tenant, application)): Path<(String, String)>,
    Query(output): Query<Output>,
) -> Done<impl IntoResponse> {
    let does = find(&desk, &tenant, &application).await?;
    let supervisor = desk.supervisor.as_ref();
    let supervisor = supervisor.ok_or_else(|| Wrong::absent("no edge runs here, and so nothing is known of output"))?;
    let key = Key { tenant, application };
    let (runtime, status, kept) = {
        let supervisor = held(supervisor);
        let runtime = Arc::clone(supervisor.runtime());
        (runtime, supervisor.status(&key), supervisor.kept_logs().clone())
    };
    let unreadable = |error: io::Error| Wrong::here(error.to_string());
    let gone = kept.containers(&key).map_err(unreadable)?;
    let known = known(&desk, &key, does.containers, gone);
    let running = known.iter().filter(|one| one.is_here);
    let first = running.map(|one| one.replica).min();
    let first = first.or_else(|| known.iter().map(|one| one.replica).min());
    let replica = output.replica.or(first).unwrap_or_default();
    let container = chosen(&output, replica, &known)?;

    let here = status
        .into_iter()
        .find(|status| status.replica == replica && status.container == container);
    let last = here.and_then(|status| status.doing.start);
    let before = last.as_deref().and_then(start_before);
    let lines = output.lines.unwrap_or(LINES);
    // Those that are there, and then those that have gone, the last one first.
    let mut ago = usize::from(output.previous);
    for start in [last, before].into_iter().flatten() {
        let said = runtime.log_tail(&start, lines).await;
        match said.map_err(|error| Wrong::here(error.to_string()))? {
            Some(said) if ago == 0 => return Ok(text(said)),
            Some(_) => ago -= 1,
            None => {}
        }
    }
    let said = kept.read(&key, replica, &container, ago, lines).map_err(unreadable)?;
    said.map(text).ok_or_else(|| {
        let why = match output.previous {
            true => format!("there is no earlier start of {container}, or it is not kept any more"),
            false => format!("{container} has not been started yet"),
        };
        Wrong::absent(why)
    })
}

fn text(said: Vec<u8>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], said)
}

/// Those that are wanted now, and those of which something is kept.
fn known(desk: &Desk, key: &Key, here: Vec<ContainerInfo>, gone: BTreeSet<(u32, String)>) -> Vec<Known> {
    let inits: BTreeSet<String> = desk.manifests.with_workloads(&key.tenant, |workloads| {
        let found = workloads.deployments.get(&key.application);
        let inits = found.map(|deployment| &deployment.spec.template.spec.init_containers);
        inits.into_iter().flatten().map(|init| init.name.clone()).collect()
    });
    let is_here = |replica: u32, name: &str| here.iter().any(|one| one.replica == replica && one.name == name);
    let gone = gone.into_iter().filter(|(replica, name)| !is_here(*replica, name));
    let gone = gone.map(|(replica, name)| Known {
        replica,
        is_init: inits.contains(&name),
        is_here: false,
        name,
    });
    let mut known: Vec<Known> = gone.collect();
    known.extend(here.into_iter().map(|one| Known {
        replica: one.replica,
        is_init: one.is_init,
        is_here: true,
        name: one.name,
    }));
    known
}

fn chosen(output: &Output, replica: u32, known: &[Known]) -> Done<String> {
    let of_replica = || known.iter().filter(|one| one.replica == replica);
    let mut others = of_replica().filter(|one| !one.is_init);
    let names = || {
        let names: BTreeSet<&str> = known.iter().map(|one| &*one.name).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    match (&output.container, others.next(), others.next()) {
        (_, None, _) => Err(Wrong::absent(format!("replica {replica} has not been started"))),
        (None, Some(only), None) => Ok(only.name.clone()),
        (None, ..) => Err(Wrong::request(format!("of which container? There are {}", names()))),
        (Some(name), ..) if of_replica().any(|one| one.name == *name) => Ok(name.clone()),
        (Some(name), ..) => Err(Wrong::absent(format!("no container \"{name}\"; there are {}", names()))),
    }
}
