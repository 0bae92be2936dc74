//! The commands that ask an edge, running or not.

pub(crate) mod apply;
pub(crate) mod bundle;
pub(crate) mod call;
pub(crate) mod check;
mod chosen;
pub(crate) mod clients;
mod credential;
pub(crate) mod delete;
pub(crate) mod describe;
mod edge_manifests;
pub(crate) mod get;
pub(crate) mod invite;
mod issued;
pub(crate) mod join;
mod link;
mod quota;
pub(crate) mod tenants;
pub(crate) mod twin;
pub(crate) mod users;

use std::path::PathBuf;

use anyhow::Context;
use api::Client;
use clap::{Args, ValueEnum};
use identity::{ClientKind, DEFAULT_TENANT, check_name};

use crate::node::DEFAULT_DATA;
use crate::output::Output;

/// Which edge is asked.
#[derive(Args)]
pub(crate) struct Where {
    /// Data directory of the edge
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA)]
    pub(crate) data: PathBuf,
}

/// Which edge is asked about which tenant, and how the answer is shown.
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
    /// An application
    App,
}

impl Kind {
    /// The kind of a client; `None` for a route.
    fn of_client(self) -> Option<ClientKind> {
        match self {
            Kind::Route => None,
            Kind::Device => Some(ClientKind::Device),
            Kind::App => Some(ClientKind::App),
        }
    }
}

impl Where {
    /// Runs `work` with the edge of the data directory; `creates` where the command may make a new directory.
    pub(crate) fn ask<T>(
        &self,
        creates: bool,
        work: impl AsyncFnOnce(&Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("starting tokio")?.block_on(async {
            let client = Client::open(&self.data, creates).await?;
            let done = work(&client).await;
            client.close().await;
            done
        })
    }
}
