//! `selvedge delete KIND NAME`.

use api::paths;
use clap::Args;
use hyper::Method;
use identity::{ClientName, check_name};

use super::{Kind, Where};
use crate::output::say;

#[derive(Args)]
pub(crate) struct Delete {
    /// What it is
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// Its name
    name: String,
    /// Tenant
    #[arg(long, value_name = "NAME", default_value = identity::DEFAULT_TENANT, value_parser = super::tenant_name)]
    tenant: String,
    #[command(flatten)]
    edge: Where,
}

impl Delete {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let path = match self.kind.of_client() {
            None => {
                check_name("route", &self.name)?;
                paths::route(&self.tenant, &self.name)
            }
            Some(kind) => paths::client(&ClientName::new(&self.tenant, &self.name)?, kind),
        };
        let done = self.edge.ask(false, async |client| {
            Ok(client.good(Method::DELETE, &path, Vec::new()).await?)
        });
        done?;
        say(format_args!("- {:?}/{}\n", self.kind, self.name));
        Ok(())
    }
}
