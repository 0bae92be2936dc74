//! Which edge or cloud a command asks: the one of a data directory, which it finds where none is named.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::Client;
use clap::Args;

use crate::node::Role;
use crate::output::note;

/// Which edge or cloud is asked.
#[derive(Args)]
pub(crate) struct Where {
    /// Data directory of the edge or cloud [default: ./selvedge-data/edge or ./selvedge-data/cloud, whichever is there;
    /// the cloud's for its edges and with --edge]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Who is asked where none is named; `None`: both have what the command is about.
    #[arg(skip)]
    role: Option<Role>,
}

impl Where {
    /// The one of this directory.
    pub(crate) fn named(data: PathBuf) -> Self {
        Self {
            data: Some(data),
            role: None,
        }
    }

    /// The command is about what a cloud alone has.
    pub(crate) fn of_cloud(&mut self) {
        self.role = Some(Role::Cloud);
    }

    /// The command is about what an edge alone has.
    pub(crate) fn of_edge(&mut self) {
        self.role = Some(Role::Edge);
    }

    /// The data directory: the named one, else the one that is there.
    ///
    /// # Errors
    /// There is none, or there are two; says what to do.
    pub(crate) fn directory(&self) -> anyhow::Result<PathBuf> {
        match &self.data {
            Some(named) => Ok(named.clone()),
            None => find(self.role, |data| Path::new(data).exists()),
        }
    }

    /// The data directory by its whole path, of one that has run there.
    ///
    /// # Errors
    /// As [`Where::directory`], or nobody has run there.
    pub(crate) fn absolute(&self) -> anyhow::Result<PathBuf> {
        let data = self.directory()?;
        if !data.exists() {
            bail!("{}: no edge or cloud has run here", data.display());
        }
        std::path::absolute(&data).with_context(|| data.display().to_string())
    }

    /// Runs `work` with whose directory it is; `creates` where the command may make one that was named.
    pub(crate) fn ask<T>(
        &self,
        creates: bool,
        work: impl AsyncFnOnce(&Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let data = self.directory()?;
        let is_there = data.exists();
        if !is_there && !creates {
            bail!("{}: no edge or cloud has run here", data.display());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("starting tokio")?.block_on(async {
            let client = Client::open(&data, creates).await?;
            if !is_there {
                note(format_args!("{} was not there and was made", data.display()));
            }
            let done = work(&client).await;
            client.close().await;
            done
        })
    }
}

/// The default directory of `role`, or that of both which is there.
fn find(role: Option<Role>, is_there: impl Fn(&str) -> bool) -> anyhow::Result<PathBuf> {
    let (edge, cloud) = (Role::Edge.data(), Role::Cloud.data());
    match (role, is_there(edge), is_there(cloud)) {
        (Some(role), ..) if is_there(role.data()) => Ok(role.data().into()),
        (Some(role), ..) => bail!(
            "{}: no {name} has run here; start one (selvedge {name}), or say where its data is with --data DIR",
            role.data(),
            name = role.name()
        ),
        (None, true, false) => Ok(edge.into()),
        (None, false, true) => Ok(cloud.into()),
        (None, true, true) => {
            bail!("an edge and a cloud have run here; say which is meant: --data {edge} or --data {cloud}")
        }
        (None, false, false) => bail!(
            "neither {edge} nor {cloud} is here; start one (selvedge edge, selvedge cloud), or say where its data is \
             with --data DIR"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(role: Option<Role>, there: &[Role], expected: Option<Role>) {
        let is_there = |data: &str| there.iter().any(|role| role.data() == data);
        let found = find(role, is_there).ok();
        assert_eq!(found, expected.map(|role| role.data().into()), "{role:?} {there:?}");
    }

    #[test]
    fn a_directory_is_found_where_no_other_could_be_meant() {
        use Role::{Cloud, Edge};
        check(None, &[Edge], Some(Edge));
        check(None, &[Cloud], Some(Cloud));
        check(None, &[Edge, Cloud], None);
        check(None, &[], None);
        check(Some(Cloud), &[Edge, Cloud], Some(Cloud));
        check(Some(Cloud), &[Edge], None);
    }
}
