//! `selvedge volume`: what applications keep until it is removed by hand, in an edge's data directory.

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use identity::check_name;
use serde::Serialize;

use agent::local::volumes::{self, Kept};

use super::{Asked, Whose};
use crate::output::{note, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Volumes that are kept, of all tenants
    #[command(visible_alias = "ls")]
    List(Asked),
    /// Remove a volume with all that is in it
    #[command(visible_alias = "rm")]
    Remove(Remove),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::List(asked) => list(&asked),
            Command::Remove(remove) => remove.run(),
        }
    }
}

#[derive(Serialize)]
struct Listed {
    tenant: String,
    name: String,
    bytes: u64,
    is_in_use: bool,
}

fn list(asked: &Asked) -> anyhow::Result<()> {
    let data = asked.edge.absolute()?;
    let kept = volumes::kept(&data.join("volumes"), &data.join("containers"));
    let kept = kept.with_context(|| data.join("volumes").display().to_string())?;
    let listed = |Kept {
                      tenant,
                      name,
                      bytes,
                      is_in_use,
                  }| Listed {
        tenant,
        name,
        bytes,
        is_in_use,
    };
    let all: Vec<Listed> = kept.into_iter().map(listed).collect();
    asked.output.show(&all, |all| match all.is_empty() {
        true => "no volumes; an application has one by persistentVolumeClaim\n".to_owned(),
        false => table(
            ["TENANT", "NAME", "SIZE", "IN USE"],
            &all.iter().map(row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

fn row(volume: &Listed) -> [String; 4] {
    let size = format!("{:.1} MB", volume.bytes as f64 / 1e6);
    let in_use = if volume.is_in_use { "yes" } else { "no" };
    [volume.tenant.clone(), volume.name.clone(), size, in_use.to_owned()]
}

#[derive(Args)]
pub(crate) struct Remove {
    /// Its name
    name: String,
    #[command(flatten)]
    whose: Whose,
}

impl Remove {
    fn run(self) -> anyhow::Result<()> {
        let Self { name, whose } = self;
        let Whose { tenant, edge } = whose;
        check_name("volume", &name)?;
        let data = edge.absolute()?;
        let removed = volumes::remove(&data.join("volumes"), &data.join("containers"), &tenant, &name);
        if !removed.with_context(|| format!("volume {name}"))? {
            bail!("no volume {name:?} in tenant {tenant}; selvedge volume list");
        }
        note(format_args!("volume {name} of tenant {tenant} was removed"));
        Ok(())
    }
}
