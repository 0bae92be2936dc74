//! The commands that ask an edge or a cloud, running or not.

pub(crate) mod applications;
pub(crate) mod apply;
pub(crate) mod backups;
pub(crate) mod bundle;
pub(crate) mod call;
pub(crate) mod check;
mod chosen;
pub(crate) mod clients;
mod credential;
pub(crate) mod delete;
pub(crate) mod describe;
mod edge_manifests;
pub(crate) mod exec;
mod follow;
pub(crate) mod get;
pub(crate) mod images;
pub(crate) mod invite;
mod issued;
pub(crate) mod join;
pub(crate) mod keys;
mod link;
mod location;
mod passphrase;
mod place;
mod quota;
pub(crate) mod site;
pub(crate) mod snapshots;
pub(crate) mod tenants;
pub(crate) mod twin;
pub(crate) mod users;
pub(crate) mod volumes;
pub(crate) mod watching;

use std::fs::File;
use std::path::Path;

use anyhow::Context;
use clap::{Args, ValueEnum};
use identity::{ClientKind, DEFAULT_TENANT, check_name};

pub(crate) use self::place::Where;
use crate::output::Output;

/// Which edge or cloud is asked about what no tenant has, and how the answer is shown.
#[derive(Args)]
pub(crate) struct Asked {
    #[command(flatten)]
    pub(crate) edge: Where,
    /// For people or for programs
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

/// Whose something is: which edge or cloud, and which tenant of it.
#[derive(Args)]
pub(crate) struct Whose {
    /// Tenant
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TENANT, value_parser = tenant_name)]
    pub(crate) tenant: String,
    #[command(flatten)]
    pub(crate) edge: Where,
}

/// Which edge or cloud is asked about which tenant, and how the answer is shown.
#[derive(Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) edge: Where,
    /// Tenant
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TENANT, value_parser = tenant_name)]
    pub(crate) tenant: String,
    /// For people or for programs
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

/// What `import` makes of an archive.
fn taken_in<T>(archive: &Path, import: impl FnOnce(File) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let opened = File::open(archive).map_err(anyhow::Error::from);
    opened.and_then(import).with_context(|| archive.display().to_string())
}

fn tenant_name(text: &str) -> Result<String, identity::NameError> {
    check_name("tenant", text).map(|()| text.to_owned())
}

/// Kinds of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A route
    Route,
    /// A device
    Device,
    /// An application, as the hub knows it
    App,
    /// An application, as it is run
    #[value(alias = "deploy")]
    Deployment,
    /// A name and an address for applications
    #[value(alias = "svc")]
    Service,
    /// Values that applications are given
    #[value(name = "configmap", alias = "cm")]
    ConfigMap,
    /// The same, shown to nobody
    Secret,
}

impl Kind {
    /// The kind of a client; `None` for what connects to nothing.
    fn of_client(self) -> Option<ClientKind> {
        match self {
            Kind::Route | Kind::Deployment | Kind::Service | Kind::ConfigMap | Kind::Secret => None,
            Kind::Device => Some(ClientKind::Device),
            Kind::App => Some(ClientKind::App),
        }
    }
}
