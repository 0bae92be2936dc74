//! `selvedge site …` and `selvedge get nodes`.

use api::{InvitationInfo, NodeInfo, Page, paths};
use clap::{Args, Subcommand};
use hyper::Method;
use identity::{ClientName, DEFAULT_TENANT};

use super::invite::{hint, seconds};
use super::join::Join;
use super::{Asked, Target, Where};
use crate::output::{say, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Join the site of another edge, with the token that was given there: the edge gets a certificate, finds the other
    /// nodes, and renews it by itself
    Join(Join),
    /// At the edge where a site begins: invite a node; prints the one command for its machine
    Invite(Invite),
    /// At the edge where a site began: ban a node. Every node that hears of it lets it in no more, whether this edge is there or
    /// not; by another invitation it comes in again
    Ban(Ban),
}

#[derive(Args)]
pub(crate) struct Ban {
    /// Name of the node
    name: String,
    /// Lift the ban: the node is let in with the certificate that it has, until that ends
    #[arg(long)]
    lift: bool,
    #[command(flatten)]
    edge: Where,
}

#[derive(Args)]
pub(crate) struct Invite {
    /// Name of the node
    name: String,
    /// How long the token is good, such as 30m, 12h or 2d; at most 30d. An earlier one of the node is worthless at once
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = seconds)]
    valid: u32,
    /// Withdraw the invitation: its token is worthless at once
    #[arg(long, conflicts_with = "valid")]
    withdraw: bool,
    #[command(flatten)]
    asked: Asked,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Join(join) => join.run_site(),
            Command::Invite(invite) => invite.run(),
            Command::Ban(ban) => ban.run(),
        }
    }
}

impl Ban {
    fn run(mut self) -> anyhow::Result<()> {
        let path = paths::ban(&ClientName::new(DEFAULT_TENANT, &self.name)?);
        let method = if self.lift { Method::DELETE } else { Method::PUT };
        self.edge.of_edge();
        self.edge
            .ask(false, async |client| Ok(client.good(method, &path, Vec::new()).await?))?;
        let name = &self.name;
        match self.lift {
            false => say(format_args!(
                "node {name} is banned, and so for every node of the site that hears of it; to let it in again: \
                 selvedge site invite {name}\n"
            )),
            true => say(format_args!(
                "the ban of node {name} is lifted; its certificate is not renewed: selvedge site invite {name}\n"
            )),
        }
        Ok(())
    }
}

impl Invite {
    fn run(mut self) -> anyhow::Result<()> {
        let path = paths::invitation(&ClientName::new(DEFAULT_TENANT, &self.name)?);
        self.asked.edge.of_edge();
        if self.withdraw {
            self.asked.edge.ask(false, async |client| {
                Ok(client.good(Method::DELETE, &path, Vec::new()).await?)
            })?;
            say(format_args!(
                "the invitation of node {} is withdrawn; its token is worthless\n",
                self.name
            ));
            return Ok(());
        }
        let invite = api::Invite { valid_s: self.valid };
        let invitation: InvitationInfo = self
            .asked
            .edge
            .ask(false, async |client| Ok(client.post(&path, &invite).await?))?;
        self.asked.output.show(&invitation, |invitation| {
            let InvitationInfo {
                edge, until, command, ..
            } = invitation;
            format!(
                "node {edge} may join once, until {until}. On its machine, where its edge runs with --site:\n\n  {command}\n{}",
                hint(&invitation.url)
            )
        });
        Ok(())
    }
}

/// The nodes of an edge's site.
pub(super) fn nodes(target: &Target) -> anyhow::Result<()> {
    let nodes: Page<NodeInfo> = target
        .edge
        .ask(false, async |client| Ok(client.get(paths::NODES).await?))?;
    target.output.show(&nodes.items, |nodes| match nodes.is_empty() {
        true => "the edge is in no site, or does not run; start it with --site ADDRESS\n".to_owned(),
        false => table(
            ["NODE", "STATE", "CONNECTED", "ADDRESSES"],
            &nodes.iter().map(row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

fn row(node: &NodeInfo) -> [String; 4] {
    let state = match (node.is_here, node.is_alive, node.silent_s) {
        _ if node.is_banned => "banned".to_owned(),
        (true, ..) => "this one".to_owned(),
        (_, true, _) => "alive".to_owned(),
        (_, false, Some(silent_s)) => format!("silent for {silent_s} s"),
        (_, false, None) => "silent".to_owned(),
    };
    let connected = match (node.is_here, node.is_connected, &node.through) {
        (true, ..) => String::new(),
        (_, true, Some(relay)) => format!("through {relay}"),
        (_, true, None) => "yes".to_owned(),
        (_, false, _) => "no".to_owned(),
    };
    [node.node.clone(), state, connected, node.addresses.join(" ")]
}
