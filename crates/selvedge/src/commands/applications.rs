//! What becomes of applications: `selvedge get deployments`, `describe deployment` and `logs`.

use anyhow::Context;
use api::{Client, ContainerInfo, DeploymentInfo, Page, ValuesInfo, paths};
use clap::Args;
use hyper::Method;
use identity::check_name;
use serde::Serialize;

use super::{Target, Where, tenant_name};
use crate::node::unix_now_s;
use crate::output::{say, table};

pub(super) fn list(target: &Target) -> anyhow::Result<()> {
    let path = paths::deployments(&target.tenant);
    let all: Page<DeploymentInfo> = target.edge.ask(false, async |client| Ok(client.get(&path).await?))?;
    target.output.show(&all.items, |all| match all.is_empty() {
        true => format!(
            "no applications in tenant {}; apply one: selvedge apply -f FILE\n",
            target.tenant
        ),
        false => table(
            ["NAME", "READY", "RESTARTS", "STATE"],
            &all.iter().map(row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

fn row(one: &DeploymentInfo) -> [String; 4] {
    let ready = one.ready.map_or("?".to_owned(), |ready| ready.to_string());
    [
        one.name.clone(),
        format!("{ready}/{}", one.replicas),
        one.restarts.to_string(),
        state(one),
    ]
}

/// The first thing that is not as it should be.
fn state(one: &DeploymentInfo) -> String {
    if let Some(missing) = one.waits_for.first() {
        return format!("waits: {missing}");
    }
    let not_ready = one.containers.iter().find(|container| !container.is_ready);
    match (one.ready, not_ready) {
        (None, _) => "no edge runs here".to_owned(),
        (Some(_), Some(container)) => format!("{}: {}", container.name, doing(container)),
        (Some(ready), None) if ready < one.replicas => "starts".to_owned(),
        (Some(_), None) => "runs".to_owned(),
    }
}

fn doing(container: &ContainerInfo) -> String {
    let end = container
        .last_end
        .as_ref()
        .map(|end| format!("{} {} s ago", end.how, (unix_now_s() - end.at_ms / 1_000).max(0)));
    if container.is_preparing {
        return "brings its image here".to_owned();
    }
    let trouble = container.trouble.as_ref().or(container.not_ready.as_ref());
    match (container.is_running, container.is_ready, trouble, end) {
        (true, true, _, None) => "runs".to_owned(),
        (true, true, _, Some(end)) => format!("runs; before that it {end}"),
        (true, false, Some(why), _) => format!("runs, and is not ready: {why}"),
        (true, false, None, _) => "runs, and is not ready yet".to_owned(),
        (false, _, Some(why), Some(end)) => format!("{end}, and is started again; {why}"),
        (false, _, Some(why), None) => why.clone(),
        (false, _, None, Some(end)) => format!("{end}, and is started again"),
        (false, _, None, None) => "starts".to_owned(),
    }
}

/// ConfigMaps or Secrets, by the path of their list.
pub(super) fn values(target: &Target, path: &str, what: &str) -> anyhow::Result<()> {
    let all: Page<ValuesInfo> = target.edge.ask(false, async |client| Ok(client.get(path).await?))?;
    let row = |one: &ValuesInfo| [one.name.clone(), one.keys.join(" ")];
    target.output.show(&all.items, |all| match all.is_empty() {
        true => format!("no {what} in tenant {}\n", target.tenant),
        false => table(["NAME", "VALUES"], &all.iter().map(row).collect::<Vec<_>>()),
    });
    Ok(())
}

#[derive(Serialize)]
struct Description {
    manifest: String,
    does: DeploymentInfo,
}

pub(super) fn describe(target: &Target, name: &str) -> anyhow::Result<()> {
    check_name("deployment", name)?;
    let ask = async |client: &Client| {
        let path = paths::manifest(&target.tenant, "Deployment", name);
        let does = client.get(&paths::deployment(&target.tenant, name)).await?;
        let manifest = client.good(Method::GET, &path, Vec::new()).await?;
        Ok(Description {
            manifest: String::from_utf8(manifest).context("the manifest")?,
            does,
        })
    };
    target.output.show(&target.edge.ask(false, ask)?, text);
    Ok(())
}

fn text(described: &Description) -> String {
    let does = &described.does;
    let mut text = described.manifest.clone();
    match does.ready {
        Some(ready) => text += &format!("# {ready} of {} replicas are ready\n", does.replicas),
        None => text += "# no edge runs here\n",
    }
    for missing in &does.waits_for {
        text += &format!("# waits: {missing}\n");
    }
    for container in &does.containers {
        let ContainerInfo {
            name,
            replica,
            restarts,
            ..
        } = container;
        text += &format!(
            "# {name} of replica {replica}: {}; {restarts} restarts\n",
            doing(container)
        );
    }
    text
}

#[derive(Args)]
pub(crate) struct Logs {
    /// Name of the application
    name: String,
    /// Of this container, where there are several
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Of this replica
    #[arg(long, value_name = "N", default_value_t = 0)]
    replica: u32,
    /// Of the start before the last one: why it ended
    #[arg(short, long)]
    previous: bool,
    /// The last lines
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    tail: usize,
    /// Tenant
    #[arg(long, value_name = "NAME", default_value = identity::DEFAULT_TENANT, value_parser = tenant_name)]
    tenant: String,
    #[command(flatten)]
    edge: Where,
}

impl Logs {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        check_name("deployment", &self.name)?;
        let mut path = paths::deployment_log(&self.tenant, &self.name);
        path += &format!(
            "?replica={}&previous={}&lines={}",
            self.replica, self.previous, self.tail
        );
        if let Some(container) = &self.container {
            check_name("container", container)?;
            path += &format!("&container={container}");
        }
        let kept = self.edge.ask(false, async |client| {
            Ok(client.good(Method::GET, &path, Vec::new()).await?)
        })?;
        say(String::from_utf8_lossy(&kept));
        Ok(())
    }
}
