//! `selvedge device …` and `selvedge app …`.

use anyhow::bail;
use api::{Add, Added, Client, ClientInfo, EdgeInfo, Page, Patch, paths};
use clap::{Args, Subcommand};
use hyper::Method;
use identity::{ClientKind, ClientName};

use super::Target;
use super::chosen::Chosen;
use super::{credential, issued};
use crate::output::{Output, labels, say, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Add one or more, each with a password that is made and shown once, or another credential
    Add(AddThem),
    /// List all
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Show one
    Show(Named),
    /// Give one a new credential in place of all it had: those are worthless at once, its connections end
    #[command(visible_alias = "passwd")]
    Rotate(credential::Given),
    /// Add, list and revoke single credentials: of two certificates the old one once the new one is in use
    #[command(subcommand)]
    Credential(credential::Command),
    /// Remove one: its connections end at once, its credentials, sessions and twin are forgotten
    Remove(Named),
    /// Keep one from connecting: its connections end at once, its sessions and credentials stay
    Disable(Named),
    /// Let a disabled one connect again
    Enable(Named),
    /// In a cloud: have a device log in at an edge from now on, and nowhere else; its connections end, its credentials
    /// stay
    Move {
        #[command(flatten)]
        named: Named,
        /// Name of the edge
        #[arg(required_unless_present = "here")]
        edge: Option<String>,
        /// In the cloud itself, at no edge
        #[arg(long, conflicts_with = "edge")]
        here: bool,
    },
    /// Set labels, such as kind=pump, and remove them, such as kind-
    Label {
        #[command(flatten)]
        named: Named,
        /// NAME=VALUE to set, NAME- to remove
        #[arg(required = true, value_name = "LABEL", value_parser = label)]
        labels: Vec<(String, Option<String>)>,
    },
}

#[derive(Args)]
pub(crate) struct Named {
    /// Its id
    pub(super) id: String,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Args)]
pub(crate) struct AddThem {
    /// Ids; all are added or none
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    credential: Chosen,
    /// Of devices in a cloud: the edge that they log in at, and nowhere else
    #[arg(long, value_name = "NAME")]
    edge: Option<String>,
    /// Label to begin with, NAME=VALUE; may be repeated
    #[arg(long, value_name = "LABEL", value_parser = set_label)]
    label: Vec<(String, String)>,
}

impl Command {
    pub(crate) fn run(mut self, kind: ClientKind) -> anyhow::Result<()> {
        if kind == ClientKind::Edge || self.is_about_edges() {
            self.target().edge.of_cloud();
        }
        match self {
            Command::Add(add) => add.run(kind),
            Command::List { target } => list(&target, kind),
            Command::Show(named) => named.show(kind),
            Command::Rotate(given) => given.replace(kind),
            Command::Credential(command) => command.run(kind),
            Command::Remove(named) => named.remove(kind),
            Command::Disable(named) => named.set_disabled(kind, true),
            Command::Enable(named) => named.set_disabled(kind, false),
            Command::Move { named, edge, .. } => named.move_to(kind, edge),
            Command::Label { named, labels } => named.label(kind, labels),
        }
    }

    /// Whether it names an edge of a cloud, or might.
    fn is_about_edges(&self) -> bool {
        match self {
            Command::Add(add) => add.edge.is_some(),
            Command::Move { .. } => true,
            _ => false,
        }
    }

    fn target(&mut self) -> &mut Target {
        match self {
            Command::Add(add) => &mut add.target,
            Command::List { target } => target,
            Command::Rotate(given) => given.target(),
            Command::Credential(command) => command.target(),
            Command::Show(named)
            | Command::Remove(named)
            | Command::Disable(named)
            | Command::Enable(named)
            | Command::Move { named, .. }
            | Command::Label { named, .. } => &mut named.target,
        }
    }
}

impl AddThem {
    fn run(self, kind: ClientKind) -> anyhow::Result<()> {
        let target = self.target;
        for id in &self.ids {
            self.credential.check_files(&ClientName::new(&target.tenant, id)?)?;
        }
        let is_chosen = self.credential.is_chosen();
        let data = target.edge.directory()?;
        let add = Add {
            ids: self.ids,
            credential: self.credential.wish(),
            labels: self.label.into_iter().collect(),
            edge: self.edge,
        };
        let (added, edge) = target.edge.ask(true, async |client| {
            let added: Vec<Added> = client.post(&paths::clients(&target.tenant, kind), &add).await?;
            let edge: EdgeInfo = client.get("/v1/edge").await?;
            Ok((added, edge))
        })?;
        if target.output == Output::Text {
            added.iter().try_for_each(issued::write_files)?;
        }
        let text = |added: &Vec<Added>| {
            let texts = added
                .iter()
                .map(|added| issued::text(&issued::is_added(added), added, is_chosen, &edge, &data));
            texts.collect::<String>()
        };
        target.output.show(&added, text);
        Ok(())
    }
}

impl Named {
    fn show(self, kind: ClientKind) -> anyhow::Result<()> {
        let path = self.path(kind)?;
        let info: ClientInfo = self
            .target
            .edge
            .ask(false, async |client| Ok(client.get(&path).await?))?;
        self.target.output.show(&info, text);
        Ok(())
    }

    fn remove(self, kind: ClientKind) -> anyhow::Result<()> {
        let path = self.path(kind)?;
        let done = self.target.edge.ask(false, async |client| {
            Ok(client.good(Method::DELETE, &path, Vec::new()).await?)
        });
        done?;
        say(format_args!(
            "{kind} {} removed; its connections ended, its credentials, sessions and twin are forgotten\n",
            self.id
        ));
        Ok(())
    }

    fn set_disabled(self, kind: ClientKind, is_disabled: bool) -> anyhow::Result<()> {
        let patch = Patch {
            is_disabled: Some(is_disabled),
            ..Patch::default()
        };
        self.patch(kind, &patch)?;
        let said = if is_disabled {
            "disabled; its connections ended, its sessions and credentials stay"
        } else {
            "enabled"
        };
        say(format_args!("{kind} {} {said}\n", self.id));
        Ok(())
    }

    fn move_to(self, kind: ClientKind, edge: Option<String>) -> anyhow::Result<()> {
        let patch = Patch {
            edge: Some(edge.clone().unwrap_or_default()),
            ..Patch::default()
        };
        self.patch(kind, &patch)?;
        let place = edge.map_or("the cloud".to_owned(), |edge| format!("the edge {edge}"));
        say(format_args!(
            "{kind} {} logs in at {place} from now on, and nowhere else\n",
            self.id
        ));
        Ok(())
    }

    fn label(self, kind: ClientKind, labels: Vec<(String, Option<String>)>) -> anyhow::Result<()> {
        let patch = Patch {
            labels: labels.into_iter().collect(),
            ..Patch::default()
        };
        self.patch(kind, &patch)?;
        self.show(kind)
    }

    fn patch(&self, kind: ClientKind, patch: &Patch) -> anyhow::Result<()> {
        let path = self.path(kind)?;
        let body = serde_json::to_vec(patch)?;
        self.target.edge.ask(false, async |client| {
            client.good(Method::PATCH, &path, body).await?;
            Ok(())
        })
    }

    fn path(&self, kind: ClientKind) -> anyhow::Result<String> {
        Ok(paths::client(&self.name()?, kind))
    }

    pub(super) fn name(&self) -> anyhow::Result<ClientName> {
        Ok(ClientName::new(&self.target.tenant, &self.id)?)
    }
}

/// `selvedge device list`, which is also `selvedge get devices`.
pub(crate) fn list(target: &Target, kind: ClientKind) -> anyhow::Result<()> {
    let all = target
        .edge
        .ask(false, async |client| all(client, &target.tenant, kind).await)?;
    target.output.show(&all, |all| match all.is_empty() {
        true => format!(
            "no {kind}s in tenant {}; add one: selvedge {kind} add ID\n",
            target.tenant
        ),
        false => table(
            ["ID", "STATE", "CREDENTIALS", "LABELS"],
            &all.iter().map(row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

async fn all(client: &Client, tenant: &str, kind: ClientKind) -> anyhow::Result<Vec<ClientInfo>> {
    let mut all: Vec<ClientInfo> = Vec::new();
    loop {
        let after = all.last().map_or(String::new(), |last| format!("?after={}", last.id));
        let path = paths::clients(tenant, kind) + &after;
        let page: Page<ClientInfo> = client.get(&path).await?;
        all.extend(page.items);
        if !page.has_more {
            return Ok(all);
        }
    }
}

fn row(info: &ClientInfo) -> [String; 4] {
    [
        info.id.clone(),
        state(info),
        info.credentials.join(", "),
        labels(&info.labels),
    ]
}

fn state(info: &ClientInfo) -> String {
    match (info.is_disabled, info.is_connected, &info.edge) {
        (true, ..) => "disabled".to_owned(),
        (false, Some(true), _) => "connected".to_owned(),
        (false, Some(false), Some(edge)) => format!("behind {edge}"),
        (false, Some(false), None) => "away".to_owned(),
        (false, None, _) => "edge stopped".to_owned(),
    }
}

/// A device or app, a line a property.
pub(crate) fn text(info: &ClientInfo) -> String {
    let place = info
        .edge
        .as_ref()
        .map_or(String::new(), |edge| format!("  logs in at   edge {edge}\n"));
    let text = format!(
        "{} {}\n  tenant       {}\n  user name    {}\n  state        {}\n  added        {}\n  credentials  {}\n  labels       {}\n{place}",
        info.kind,
        info.id,
        info.tenant,
        info.user_name,
        state(info),
        info.created,
        info.credentials.join(", "),
        labels(&info.labels)
    );
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn set_label(text: &str) -> anyhow::Result<(String, String)> {
    match label(text)? {
        (name, Some(value)) => Ok((name, value)),
        _ => bail!("a label is NAME=VALUE, such as kind=pump"),
    }
}

fn label(text: &str) -> anyhow::Result<(String, Option<String>)> {
    match (text.split_once('='), text.strip_suffix('-')) {
        (Some((name, value)), _) => Ok((name.to_owned(), Some(value.to_owned()))),
        (None, Some(name)) => Ok((name.to_owned(), None)),
        (None, None) => bail!("NAME=VALUE sets a label, NAME- removes it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_set_and_removed_as_with_kubectl() {
        assert_eq!(label("kind=pump").unwrap(), ("kind".into(), Some("pump".into())));
        assert_eq!(label("kind=a=b").unwrap(), ("kind".into(), Some("a=b".into())));
        assert_eq!(label("kind-").unwrap(), ("kind".into(), None));
        assert!(label("kind").is_err());
        assert!(set_label("kind-").is_err());
    }
}
