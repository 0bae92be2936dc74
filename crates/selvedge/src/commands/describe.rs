//! `selvedge describe KIND NAME`.

use anyhow::Context;
use api::{Client, ClientInfo, EdgeState, LocationInfo, Page, RouteInfo, SessionInfo, paths};
use clap::{Args, ValueEnum};
use hyper::Method;
use identity::{ClientKind, ClientName, check_name};
use serde::Serialize;
use serde_json::Value;

use super::twin::pretty;
use super::{Target, applications, clients, link, location};

#[derive(Args)]
pub(crate) struct Describe {
    /// What it is
    #[arg(value_name = "KIND")]
    kind: Described,
    /// Its name
    name: String,
    #[command(flatten)]
    target: Target,
}

/// Kinds of what is described.
#[derive(Clone, Copy, ValueEnum)]
enum Described {
    /// A route
    Route,
    /// A device
    Device,
    /// An application, as the hub knows it
    App,
    /// An application, as it is run
    #[value(alias = "deploy")]
    Deployment,
    /// At a cloud: an edge
    Edge,
}

#[derive(Serialize)]
struct RouteDescription {
    manifest: String,
    did: Option<RouteInfo>,
}

#[derive(Serialize)]
struct ClientDescription {
    client: ClientInfo,
    /// Of a device.
    location: Option<LocationInfo>,
    sessions: Vec<SessionInfo>,
    twin: Option<Value>,
}

impl Describe {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        if matches!(self.kind, Described::Edge) {
            self.target.edge.of_cloud();
        }
        let target = &self.target;
        match self.kind {
            Described::Route => {
                check_name("route", &self.name)?;
                let ask = async |client: &Client| route(client, &target.tenant, &self.name).await;
                target.output.show(&target.edge.ask(false, ask)?, route_text);
            }
            Described::Device => self.client(ClientKind::Device)?,
            Described::App => self.client(ClientKind::App)?,
            Described::Deployment => applications::describe(target, &self.name)?,
            Described::Edge => {
                let name = self.client_name()?;
                let ask = async |client: &Client| edge(client, &name).await;
                target.output.show(&target.edge.ask(false, ask)?, edge_text);
            }
        }
        Ok(())
    }

    fn client(&self, kind: ClientKind) -> anyhow::Result<()> {
        let name = self.client_name()?;
        let ask = async |client: &Client| about(client, &name, kind).await;
        self.target.output.show(&self.target.edge.ask(false, ask)?, client_text);
        Ok(())
    }

    fn client_name(&self) -> anyhow::Result<ClientName> {
        Ok(ClientName::new(&self.target.tenant, &self.name)?)
    }
}

async fn route(client: &Client, tenant: &str, name: &str) -> anyhow::Result<RouteDescription> {
    let manifest = client
        .good(Method::GET, &paths::route(tenant, name), Vec::new())
        .await?;
    let routes: Page<RouteInfo> = client.get(&paths::routes(tenant)).await?;
    Ok(RouteDescription {
        manifest: String::from_utf8(manifest).context("the manifest")?,
        did: routes.items.into_iter().find(|route| route.name == name),
    })
}

fn route_text(route: &RouteDescription) -> String {
    let mut text = route.manifest.clone();
    if let Some(did) = &route.did {
        text += &format!(
            "# matched {}, condition not met {}, copies made {}, failed {}, over the limit on hops {}\n",
            did.matched, did.not_met, did.delivered, did.failed, did.hop_limit
        );
    }
    if let Some(failure) = route.did.as_ref().and_then(|did| did.last_failure.as_ref()) {
        text += &format!("# last failed for a message on {}: {}\n", failure.topic, failure.reason);
    }
    text
}

async fn about(client: &Client, name: &ClientName, kind: ClientKind) -> anyhow::Result<ClientDescription> {
    let info: ClientInfo = client.get(&paths::client(name, kind)).await?;
    let sessions: Page<SessionInfo> = client.get(&paths::sessions(name.tenant())).await?;
    let (location, twin) = match kind {
        ClientKind::Device => (
            Some(client.get(&paths::location(name)).await?),
            Some(client.get(&paths::twin(name)).await?),
        ),
        ClientKind::App | ClientKind::Edge => (None, None),
    };
    let theirs = sessions.items.into_iter().filter(|session| session.owner == info.id);
    Ok(ClientDescription {
        sessions: theirs.collect(),
        client: info,
        location,
        twin,
    })
}

#[derive(Serialize)]
struct EdgeDescription {
    client: ClientInfo,
    /// Of an edge of a cloud that runs.
    link: Option<EdgeState>,
}

async fn edge(client: &Client, name: &ClientName) -> anyhow::Result<EdgeDescription> {
    let info: ClientInfo = client.get(&paths::client(name, ClientKind::Edge)).await?;
    let edges: Page<EdgeState> = client.get(paths::EDGES).await?;
    let link = edges.items.into_iter().find(|edge| edge.name == info.user_name);
    Ok(EdgeDescription {
        link: link.filter(|_| client.is_running()),
        client: info,
    })
}

fn edge_text(edge: &EdgeDescription) -> String {
    let link = edge.link.as_ref().map(link::of_edge);
    clients::text(&edge.client) + &link.unwrap_or_default()
}

fn client_text(described: &ClientDescription) -> String {
    let mut text = clients::text(&described.client);
    if let Some(location) = &described.location {
        text += &format!("  reached      {}\n", location_text(location));
    }
    for session in &described.sessions {
        text += &format!(
            "  session      {} {}, {} subscriptions, {} messages queued, {} in flight\n",
            session.client_id,
            if session.is_connected { "connected" } else { "away" },
            session.subscriptions,
            session.queued_messages,
            session.in_flight
        );
    }
    if let Some(twin) = &described.twin {
        text += &format!("twin\n{}", pretty(twin));
    }
    text
}

fn location_text(location: &LocationInfo) -> String {
    match location {
        LocationInfo::Here => "here".to_owned(),
        LocationInfo::Nowhere => "nowhere: it is away".to_owned(),
        LocationInfo::Edge {
            edge,
            is_connected,
            last_heard_s,
        } => format!("through {}", location::edge(edge, *is_connected, *last_heard_s)),
    }
}
