//! `selvedge delete KIND NAME`, here, or its manifest from an edge of a cloud.

use anyhow::bail;
use api::paths;
use clap::Args;
use hyper::Method;
use identity::{ClientName, check_name};

use super::edge_manifests::ForEdge;
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
    /// At an edge: delete also what came from its cloud, which keeps its hands off until it is applied there again
    #[arg(long, conflicts_with = "edge_name")]
    take_over: bool,
    #[command(flatten)]
    for_edge: ForEdge,
    #[command(flatten)]
    edge: Where,
}

impl Delete {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        check_name("name", &self.name)?;
        let path = match (&self.for_edge.edge_name, self.kind, self.kind.of_client()) {
            (Some(_), Kind::App, _) => bail!(
                "an app has no manifest; those of deployments, services, configmaps, secrets, routes and devices are deleted"
            ),
            (Some(edge), kind, _) => paths::edge_manifest(edge, &self.tenant, &format!("{kind:?}"), &self.name),
            (None, _, Some(kind)) => paths::client(&ClientName::new(&self.tenant, &self.name)?, kind),
            (None, kind, None) => {
                let path = match kind {
                    Kind::Route => paths::route(&self.tenant, &self.name),
                    _ => paths::manifest(&self.tenant, &format!("{kind:?}"), &self.name),
                };
                path + if self.take_over { "?take_over=true" } else { "" }
            }
        };
        if self.for_edge.edge_name.is_some() {
            self.edge.of_cloud();
        }
        let done = self.edge.ask(false, async |client| {
            Ok(client.good(Method::DELETE, &path, Vec::new()).await?)
        });
        done?;
        say(format_args!("- {:?}/{}\n", self.kind, self.name));
        Ok(())
    }
}
