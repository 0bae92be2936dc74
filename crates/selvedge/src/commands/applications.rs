//! What becomes of applications: `selvedge get deployments`, `describe deployment` and `logs`.

use std::time::Duration;

use anyhow::{Context, bail};
use api::{Client, ContainerInfo, DeploymentInfo, Page, RolloutInfo, ServiceInfo, ValuesInfo, paths};
use clap::Args;
use hyper::Method;
use identity::check_name;
use serde::Serialize;

use super::follow::Output;
use super::{Target, Where, tenant_name};
use crate::node::unix_now_s;
use crate::output::{say, table};

/// Between two looks at a log that is followed.
const LOOK: Duration = Duration::from_millis(100);
/// Between two questions whether it still is that of the last start.
const LOOKS: u32 = 5;

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
        match one.max_replicas > one.replicas {
            true => format!("{ready}/{} (≤ {})", one.replicas, one.max_replicas),
            false => format!("{ready}/{}", one.replicas),
        },
        one.restarts.to_string(),
        state(one),
    ]
}

/// The first thing that is not as it should be.
fn state(one: &DeploymentInfo) -> String {
    if let Some(missing) = one.waits_for.first() {
        return format!("waits: {missing}");
    }
    if let Some(why) = one.closed_doors.first() {
        return why.clone();
    }
    if one.sleeps {
        // One that is there while it sleeps is paused, and ready for whoever asks.
        let has_ended = |container: &&ContainerInfo| {
            let is_to_run = !container.is_running && !container.is_done;
            container.trouble.is_some() || is_to_run && container.last_end.is_some()
        };
        let in_trouble = one.containers.iter().find(has_ended);
        return match in_trouble {
            Some(container) => format!("{}: {}", container.name, doing(container)),
            None if one.containers.iter().any(|container| container.is_paused) => {
                "is paused until somebody asks".to_owned()
            }
            None => "sleeps until somebody asks".to_owned(),
        };
    }
    if let Some(rollout) = &one.rollout {
        return rollout_words(rollout);
    }
    let is_right = |container: &&ContainerInfo| container.is_ready || container.is_done;
    let not_ready = one.containers.iter().find(|container| !is_right(container));
    match (one.ready, not_ready) {
        (None, _) => "no edge runs here".to_owned(),
        (Some(_), Some(container)) => format!("{}: {}", container.name, doing(container)),
        (Some(ready), None) if ready < one.replicas => "starts".to_owned(),
        (Some(_), None) => "runs".to_owned(),
    }
}

fn rollout_words(rollout: &RolloutInfo) -> String {
    match rollout {
        RolloutInfo::Rolling { available, of } => format!("is renewed: {available} of {of} new replicas are ready"),
        RolloutInfo::TakenBack { why } => format!("the new version was taken back, the one before it runs: {why}"),
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
    if container.is_done {
        return "is done".to_owned();
    }
    if container.is_paused {
        return "is paused".to_owned();
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

pub(super) fn services(target: &Target) -> anyhow::Result<()> {
    let path = paths::services(&target.tenant);
    let all: Page<ServiceInfo> = target.edge.ask(false, async |client| Ok(client.get(&path).await?))?;
    target.output.show(&all.items, |all| match all.is_empty() {
        true => format!(
            "no services in tenant {}; apply one: selvedge apply -f FILE\n",
            target.tenant
        ),
        false => table(
            ["NAME", "ADDRESS", "PORTS", "LEADS TO"],
            &all.iter().map(service_row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

fn service_row(one: &ServiceInfo) -> [String; 4] {
    let ports: Vec<String> = one.ports.iter().map(u16::to_string).collect();
    let elsewhere = one.elsewhere.iter().map(|at| match (at.ready, at.sleeps) {
        (_, true) => format!("{} (sleeps)", at.node),
        (ready, false) => format!("{} ({ready} ready)", at.node),
    });
    let all: Vec<String> = one.deployments.iter().cloned().chain(elsewhere).collect();
    let leads_to = match (one.closed_doors.first(), all.is_empty()) {
        (Some(why), _) => why.clone(),
        (None, true) => "nothing that is applied has its labels".to_owned(),
        (None, false) => all.join(", "),
    };
    [
        one.name.clone(),
        one.address.map_or("none".to_owned(), |address| address.to_string()),
        ports.join(" "),
        leads_to,
    ]
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
    /// What those said last that have ended and were to run.
    last_words: Vec<LastWords>,
}

#[derive(Serialize)]
struct LastWords {
    container: String,
    replica: u32,
    lines: Vec<String>,
}

/// What one that has ended said before it, so many lines of it.
const LAST_WORDS: usize = 5;
/// So much of a line.
const LAST_WORDS_CHARS: usize = 500;
/// Of so many containers.
const LAST_WORDS_OF: usize = 5;

pub(super) fn describe(target: &Target, name: &str) -> anyhow::Result<()> {
    check_name("deployment", name)?;
    let ask = async |client: &Client| {
        let path = paths::manifest(&target.tenant, "Deployment", name);
        let does = client.get(&paths::deployment(&target.tenant, name)).await?;
        let manifest = client.good(Method::GET, &path, Vec::new()).await?;
        Ok(Description {
            manifest: String::from_utf8(manifest).context("the manifest")?,
            last_words: last_words(client, &target.tenant, &does).await,
            does,
        })
    };
    target.output.show(&target.edge.ask(false, ask)?, text);
    Ok(())
}

/// One line of a comment, whatever a container has said.
fn printable(line: &str) -> String {
    let shown = line.chars().take(LAST_WORDS_CHARS);
    shown.map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// Of the containers that have ended and were to run: why, in their own words.
async fn last_words(client: &Client, tenant: &str, does: &DeploymentInfo) -> Vec<LastWords> {
    let has_failed = |container: &&ContainerInfo| match does.sleeps {
        true => container.trouble.is_some(),
        false => container.last_end.is_some() && !container.is_done,
    };
    let mut all = Vec::new();
    for container in does.containers.iter().filter(has_failed).take(LAST_WORDS_OF) {
        let ContainerInfo { name, replica, .. } = container;
        let mut path = paths::deployment_log(tenant, &does.name);
        // One that runs again has begun another log.
        path += &format!(
            "?container={name}&replica={replica}&lines={LAST_WORDS}&previous={}",
            container.is_running
        );
        // It may have said nothing, or that may have gone.
        let Ok(said) = client.good(Method::GET, &path, Vec::new()).await else {
            continue;
        };
        let said = String::from_utf8_lossy(&said);
        all.push(LastWords {
            container: name.clone(),
            replica: *replica,
            lines: said.lines().map(printable).collect(),
        });
    }
    all
}

fn text(described: &Description) -> String {
    let does = &described.does;
    let mut text = described.manifest.clone();
    match does.ready {
        Some(ready) => text += &format!("# {ready} of {} replicas are ready\n", does.replicas),
        None => text += "# no edge runs here\n",
    }
    if let Some(rollout) = &does.rollout {
        text += &format!("# {}\n", rollout_words(rollout));
    }
    for missing in &does.waits_for {
        text += &format!("# waits: {missing}\n");
    }
    for why in &does.closed_doors {
        text += &format!("# closed: {why}\n");
    }
    if does.sleeps {
        text += "# sleeps until somebody asks\n";
    }
    for container in &does.containers {
        let ContainerInfo {
            name,
            replica,
            restarts,
            address,
            ..
        } = container;
        let at = address.map_or(String::new(), |address| format!(" at {address}"));
        text += &format!(
            "# {name} of replica {replica}{at}: {}; {restarts} restarts\n",
            doing(container)
        );
        let mut all = described.last_words.iter();
        let own = all.find(|words| (&words.container, words.replica) == (name, *replica));
        for line in own.iter().flat_map(|words| &words.lines) {
            text += &format!("#   {line}\n");
        }
    }
    text
}

/// Which container of an application.
#[derive(Args)]
pub(crate) struct Chosen {
    /// Of this container, where there are several
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Of this replica; where it is not said, of the first that there is
    #[arg(long, value_name = "N")]
    replica: Option<u32>,
}

impl Chosen {
    /// # Errors
    /// There is none such, or it has to be said which.
    pub(crate) fn of<'a>(&self, does: &'a DeploymentInfo) -> anyhow::Result<&'a ContainerInfo> {
        let first = does.containers.iter().map(|one| one.replica).min();
        let replica = self.replica.or(first).unwrap_or_default();
        let of_replica = does.containers.iter().filter(|one| one.replica == replica);
        let of_replica: Vec<&ContainerInfo> = of_replica.collect();
        let names = || of_replica.iter().map(|one| &*one.name).collect::<Vec<_>>().join(", ");
        if of_replica.is_empty() {
            bail!("replica {replica} of {} has not been started", does.name);
        }
        if let Some(wanted) = &self.container {
            let found = of_replica.iter().find(|one| one.name == *wanted);
            return found
                .copied()
                .with_context(|| format!("no container {wanted:?}; there are {}", names()));
        }
        let mut others = of_replica.iter().filter(|one| !one.is_init);
        match (others.next(), others.next()) {
            (Some(only), None) => Ok(only),
            _ => bail!("of which container? There are {}; -c NAME", names()),
        }
    }
}

#[derive(Args)]
pub(crate) struct Logs {
    /// Name of the application
    name: String,
    #[command(flatten)]
    chosen: Chosen,
    /// Of the start before the last one: why it ended
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,
    /// Go on with what it says from now on, also once it is started again
    #[arg(short, long)]
    follow: bool,
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
        if self.follow {
            return self.follow();
        }
        let mut path = paths::deployment_log(&self.tenant, &self.name);
        path += &format!("?previous={}&lines={}", self.previous, self.tail);
        if let Some(replica) = self.chosen.replica {
            path += &format!("&replica={replica}");
        }
        if let Some(container) = &self.chosen.container {
            check_name("container", container)?;
            path += &format!("&container={container}");
        }
        let kept = self.edge.ask(false, async |client| {
            Ok(client.good(Method::GET, &path, Vec::new()).await?)
        })?;
        say(String::from_utf8_lossy(&kept));
        Ok(())
    }

    /// From the files of an edge on this machine, start after start, until the application is deleted.
    fn follow(self) -> anyhow::Result<()> {
        let containers = self.edge.absolute()?.join("containers");
        let path = paths::deployment(&self.tenant, &self.name);
        self.edge.ask(false, async |client| {
            let mut followed: Option<(String, Output)> = None;
            loop {
                let does: DeploymentInfo = client.get(&path).await?;
                let start = self.chosen.of(&does).ok().and_then(|container| container.start.clone());
                let known = followed.as_ref().map(|(start, _)| start);
                if let Some(start) = start.filter(|start| Some(start) != known) {
                    if let Some((_, followed)) = &mut followed {
                        say(followed.more(LOOK).await?);
                    }
                    let lines = if followed.is_none() { self.tail } else { usize::MAX };
                    let output = Output::open(&containers, &start, lines).await?;
                    followed = Some((start, output));
                }
                for _ in 0..LOOKS {
                    match &mut followed {
                        Some((_, followed)) => say(followed.more(LOOK).await?),
                        None => tokio::time::sleep(LOOK).await,
                    }
                }
            }
        })
    }
}
