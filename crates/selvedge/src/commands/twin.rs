//! `selvedge twin get` and `selvedge twin set`.

use anyhow::{Context, bail};
use api::{Client, LocationInfo, Page, TwinConflict, paths};
use clap::{Args, Subcommand};
use hyper::Method;
use identity::ClientName;
use serde_json::Value;

use super::{Target, location};
use crate::output::table;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Both states with their versions, as JSON
    Get(Get),
    /// Edits of the desired state that were given up for others, made on the other side of a link
    History(History),
    /// Change the desired state by a merge patch (RFC 7396), such as '{"interval_s": 10}'; null removes a member
    Set(Set),
}

#[derive(Args)]
pub(crate) struct Get {
    /// Id of the device
    device: String,
    #[command(flatten)]
    target: Target,
}

#[derive(Args)]
pub(crate) struct History {
    /// Id of the device
    device: String,
    #[command(flatten)]
    target: Target,
}

#[derive(Args)]
pub(crate) struct Set {
    /// Id of the device
    device: String,
    /// A JSON object; with $version it is refused unless that is the present one
    patch: String,
    #[command(flatten)]
    target: Target,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Get(get) => get.run(),
            Command::History(history) => history.run(),
            Command::Set(set) => set.run(),
        }
    }
}

impl Get {
    fn run(self) -> anyhow::Result<()> {
        let device = ClientName::new(&self.target.tenant, &self.device)?;
        let path = paths::twin(&device);
        let twin: Value = self
            .target
            .edge
            .ask(false, async |client| Ok(client.get(&path).await?))?;
        self.target.output.show(&twin, pretty);
        Ok(())
    }
}

impl History {
    fn run(self) -> anyhow::Result<()> {
        let device = ClientName::new(&self.target.tenant, &self.device)?;
        let path = paths::twin_conflicts(&device);
        let lost: Page<TwinConflict> = self
            .target
            .edge
            .ask(false, async |client| Ok(client.get(&path).await?))?;
        self.target.output.show(&lost.items, |lost| match lost.is_empty() {
            true => format!("no edit of {device} was given up\n"),
            false => table(
                ["FOUND", "EDIT", "VALUE", "KEPT", "LOST"],
                &lost.iter().map(lost_row).collect::<Vec<_>>(),
            ),
        });
        Ok(())
    }
}

fn lost_row(edit: &TwinConflict) -> [String; 5] {
    [
        edit.at.clone(),
        format!("{} {}", edit.side, edit.number),
        edit.pointer.clone(),
        edit.kept.to_string(),
        edit.lost.to_string(),
    ]
}

impl Set {
    fn run(self) -> anyhow::Result<()> {
        let device = ClientName::new(&self.target.tenant, &self.device)?;
        let (answer, where_it_is) = self.target.edge.ask(false, async |client| {
            let answer = client
                .ask(Method::PATCH, &paths::twin(&device), self.patch.into())
                .await?;
            if !answer.status.is_success() && answer.status != 409 {
                bail!("{}", answer.message());
            }
            let answer: Value = serde_json::from_slice(&answer.body).context("the edge's answer")?;
            Ok((answer, where_it_is(client, &device).await?))
        })?;
        if answer["status"] == 409 {
            let desired = &answer["desired"];
            bail!(
                "the desired state of {device} is version {} now: {desired}",
                desired["$version"]
            );
        }
        self.target.output.show(&answer, |answer| {
            format!(
                "desired of {device} is now version {}; {where_it_is}\n",
                answer["version"]
            )
        });
        Ok(())
    }
}

/// How the device hears of it.
async fn where_it_is(client: &Client, device: &ClientName) -> anyhow::Result<String> {
    if !client.is_running() {
        return Ok("the device gets it once the edge runs and it connects".to_owned());
    }
    Ok(match location::of(client, device).await? {
        LocationInfo::Here => "the device is connected".to_owned(),
        LocationInfo::Nowhere => "the device is away and gets it when it is back".to_owned(),
        LocationInfo::Edge {
            edge,
            is_connected,
            last_heard_s,
        } => format!(
            "the device gets it by {}",
            location::edge(&edge, is_connected, last_heard_s)
        ),
    })
}

pub(crate) fn pretty(value: &Value) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).expect("a value is JSON"))
}
