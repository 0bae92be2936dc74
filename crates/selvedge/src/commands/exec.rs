//! `selvedge exec`: another command in a container of an edge on this machine.

use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;

use agent::local;
use anyhow::Context;
use api::DeploymentInfo;
use api::paths;
use clap::Args;
use identity::check_name;

use super::applications::Chosen;
use super::{Where, tenant_name};

#[derive(Args)]
pub(crate) struct Exec {
    /// Name of the application
    name: String,
    #[command(flatten)]
    chosen: Chosen,
    /// Tenant
    #[arg(long, value_name = "NAME", default_value = identity::DEFAULT_TENANT, value_parser = tenant_name)]
    tenant: String,
    #[command(flatten)]
    edge: Where,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Exec {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        check_name("deployment", &self.name)?;
        let path = paths::deployment(&self.tenant, &self.name);
        let does: DeploymentInfo = self.edge.ask(false, async |client| Ok(client.get(&path).await?))?;
        let container = self.chosen.of(&does)?;
        let start = container.start.as_ref().filter(|_| container.is_running);
        let start = start.with_context(|| format!("{} does not run", container.name))?;
        let containers = self.edge.absolute()?.join("containers");
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let command = local::command_in(&containers, start, self.command, is_terminal);
        let mut command = command.with_context(|| containers.join(start).display().to_string())?;
        // Its end is this one's.
        Err(command.exec()).with_context(|| command.get_program().display().to_string())
    }
}
