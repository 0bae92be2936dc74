//! `selvedge get routes|deployments|services|configmaps|secrets|devices|apps|edges|sessions|link|nodes|manifests`.

use anyhow::bail;
use api::{Page, RouteInfo, SessionInfo, paths};
use clap::{Args, ValueEnum};
use identity::ClientKind;

use super::Target;
use super::edge_manifests::ForEdge;
use super::{applications, clients, edge_manifests, link, site};
use crate::output::table;

#[derive(Args)]
pub(crate) struct Get {
    /// What to list
    #[arg(value_name = "WHAT")]
    what: Listed,
    #[command(flatten)]
    for_edge: ForEdge,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, ValueEnum)]
enum Listed {
    #[value(alias = "route")]
    Routes,
    /// Applications, and what each does
    #[value(aliases = ["deployment", "deploy"])]
    Deployments,
    /// Names and addresses of applications
    #[value(aliases = ["service", "svc"])]
    Services,
    #[value(name = "configmaps", aliases = ["configmap", "cm"])]
    ConfigMaps,
    #[value(alias = "secret")]
    Secrets,
    #[value(alias = "device")]
    Devices,
    #[value(alias = "app")]
    Apps,
    #[value(alias = "edge")]
    Edges,
    #[value(alias = "session")]
    Sessions,
    /// The way to the cloud, and what became of every message
    Link,
    /// The nodes of an edge's site, and whether each is there
    #[value(alias = "node")]
    Nodes,
    /// At a cloud, with --edge: what was applied for an edge, and what became of it there
    #[value(alias = "manifest")]
    Manifests,
}

impl Get {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        if matches!(self.what, Listed::Edges | Listed::Manifests) {
            self.target.edge.of_cloud();
        }
        if matches!(self.what, Listed::Nodes) {
            self.target.edge.of_edge();
        }
        match (self.what, self.for_edge.edge_name) {
            (Listed::Manifests, Some(edge)) => edge_manifests::list(&self.target, &edge),
            (Listed::Manifests, None) => bail!("of which edge? selvedge get manifests --edge NAME, at a cloud"),
            (_, Some(edge)) => bail!("of an edge only manifests are listed: selvedge get manifests --edge {edge}"),
            (Listed::Routes, None) => routes(&self.target),
            (Listed::Deployments, None) => applications::list(&self.target),
            (Listed::Services, None) => applications::services(&self.target),
            (Listed::ConfigMaps, None) => {
                applications::values(&self.target, &paths::config_maps(&self.target.tenant), "ConfigMaps")
            }
            (Listed::Secrets, None) => {
                applications::values(&self.target, &paths::secrets(&self.target.tenant), "Secrets")
            }
            (Listed::Devices, None) => clients::list(&self.target, ClientKind::Device),
            (Listed::Apps, None) => clients::list(&self.target, ClientKind::App),
            (Listed::Edges, None) => link::edges(&self.target),
            (Listed::Sessions, None) => sessions(&self.target),
            (Listed::Link, None) => link::show(&self.target),
            (Listed::Nodes, None) => site::nodes(&self.target),
        }
    }
}

fn routes(target: &Target) -> anyhow::Result<()> {
    let path = paths::routes(&target.tenant);
    let routes: Page<RouteInfo> = target.edge.ask(false, async |client| Ok(client.get(&path).await?))?;
    target.output.show(&routes.items, |routes| match routes.is_empty() {
        true => format!(
            "no routes in tenant {}; apply one: selvedge apply -f FILE\n",
            target.tenant
        ),
        false => table(
            ["NAME", "FROM", "MATCHED", "NOT MET", "DELIVERED", "FAILED"],
            &routes.iter().map(route_row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

fn route_row(route: &RouteInfo) -> [String; 6] {
    let failed = route.failed + route.hop_limit;
    [
        route.name.clone(),
        route.from.clone(),
        route.matched.to_string(),
        route.not_met.to_string(),
        route.delivered.to_string(),
        failed.to_string(),
    ]
}

fn sessions(target: &Target) -> anyhow::Result<()> {
    let path = paths::sessions(&target.tenant);
    let sessions: Page<SessionInfo> = target.edge.ask(false, async |client| Ok(client.get(&path).await?))?;
    target
        .output
        .show(&sessions.items, |sessions| match sessions.is_empty() {
            true => format!("no sessions in tenant {}\n", target.tenant),
            false => table(
                ["OWNER", "CLIENT ID", "STATE", "SUBSCRIPTIONS", "QUEUED", "IN FLIGHT"],
                &sessions.iter().map(session_row).collect::<Vec<_>>(),
            ),
        });
    Ok(())
}

fn session_row(session: &SessionInfo) -> [String; 6] {
    let owner = if session.owner.is_empty() {
        "(anonymous)"
    } else {
        &session.owner
    };
    let state = match (&session.address, session.is_connected) {
        (Some(address), true) => format!("connected from {address}"),
        (None, true) => "connected".to_owned(),
        (_, false) => "away".to_owned(),
    };
    [
        owner.to_owned(),
        session.client_id.clone(),
        state,
        session.subscriptions.to_string(),
        format!("{} ({} B)", session.queued_messages, session.queued_bytes),
        session.in_flight.to_string(),
    ]
}
