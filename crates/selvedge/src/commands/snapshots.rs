//! `selvedge snapshot`: applications with all that they keep, as they were.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;

use agent::snapshot::Snapshots;
use anyhow::{Context, bail};
use api::{Page, Restore, Restored, SnapshotInfo, TakeSnapshot, paths};
use clap::{Args, Subcommand};
use hyper::Method;
use identity::check_name;

use super::{Target, Where, Whose, passphrase, taken_in};
use crate::output::{note, say, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Take a snapshot of an application, which runs on
    Create(Create),
    /// Snapshots that are here
    #[command(visible_alias = "ls")]
    List(Target),
    /// Bring an application back as it was: image, volumes and manifests
    Restore(Back),
    /// Write a snapshot into a file, an OCI archive
    Export(Export),
    /// Take in the snapshots of such a file
    Import(Import),
    /// Remove snapshots; the others stay whole
    #[command(visible_alias = "rm")]
    Remove(Remove),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Create(create) => create.run(),
            Command::List(target) => list(&target),
            Command::Restore(back) => back.run(),
            Command::Export(export) => export.run(),
            Command::Import(import) => import.run(),
            Command::Remove(remove) => remove.run(),
        }
    }
}

/// Of an edge that has run there.
fn open(edge: &Where) -> anyhow::Result<Snapshots> {
    Ok(Snapshots::open(&edge.absolute()?)?)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[derive(Args)]
pub(crate) struct Create {
    /// The application, a Deployment
    application: String,
    /// The snapshot's name [default: that of the application and the time]
    #[arg(long)]
    name: Option<String>,
    /// A file with a passphrase, or with a key, which its Secrets are sealed by; without it they are left out
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

impl Create {
    fn run(self) -> anyhow::Result<()> {
        check_name("deployment", &self.application)?;
        let Target { edge, tenant, output } = self.target;
        let wanted = TakeSnapshot {
            name: self.name,
            passphrase: self.passphrase_file.as_deref().map(passphrase::read).transpose()?,
        };
        let path = paths::snapshots_of(&tenant, &self.application);
        let taken: SnapshotInfo = edge.ask(false, async |client| Ok(client.post(&path, &wanted).await?))?;
        output.show(&taken, |taken| {
            let stood = match taken.paused_ms {
                Some(ms) => format!("it stood still for {ms} ms"),
                None => "none of it ran".to_owned(),
            };
            let mut text = format!(
                "snapshot {} of {}: {} in all, {} of its own; {stood}\n",
                taken.name,
                taken.deployment,
                megabytes(taken.bytes),
                megabytes(taken.own_bytes)
            );
            for name in &taken.secrets {
                text += &format!("  sealed in it: Secret {name}\n");
            }
            for what in &taken.left_out {
                text += &format!("  not in it: {what}\n");
            }
            text
        });
        Ok(())
    }
}

fn list(target: &Target) -> anyhow::Result<()> {
    let path = paths::snapshots(&target.tenant);
    let page: Page<SnapshotInfo> = target.edge.ask(false, async |client| Ok(client.get(&path).await?))?;
    target.output.show(&page.items, |all| match all.is_empty() {
        true => "no snapshots; take one: selvedge snapshot create APPLICATION\n".to_owned(),
        false => table(
            ["NAME", "APPLICATION", "TAKEN", "BY", "SIZE", "OWN", "VOLUMES"],
            &all.iter().map(row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

fn row(snapshot: &SnapshotInfo) -> [String; 7] {
    let volumes: Vec<&str> = snapshot.volumes.iter().map(|volume| &*volume.name).collect();
    [
        snapshot.name.clone(),
        snapshot.deployment.clone(),
        snapshot.created.clone(),
        if snapshot.is_scheduled { "schedule" } else { "hand" }.to_owned(),
        megabytes(snapshot.bytes),
        megabytes(snapshot.own_bytes),
        volumes.join(" "),
    ]
}

#[derive(Args)]
pub(crate) struct Back {
    /// The snapshot's name
    name: String,
    /// Bring it back under another name, beside the one that is there, with volumes, ConfigMaps and Secrets OTHER-NAME
    #[arg(long = "as", value_name = "OTHER")]
    restore_as: Option<String>,
    /// Replace what is in its volumes
    #[arg(long)]
    force: bool,
    /// The file with the passphrase that its Secrets were sealed by
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

impl Back {
    fn run(self) -> anyhow::Result<()> {
        check_name("snapshot", &self.name)?;
        let Target { edge, tenant, output } = self.target;
        let wanted = Restore {
            restore_as: self.restore_as,
            is_forced: self.force,
            passphrase: self.passphrase_file.as_deref().map(passphrase::read).transpose()?,
        };
        let path = paths::restored(&tenant, &self.name);
        let restored: Restored = edge.ask(false, async |client| Ok(client.post(&path, &wanted).await?))?;
        output.show(&restored, |restored| {
            let mut text = String::new();
            for volume in &restored.volumes {
                text += &format!("volume {volume} is as it was\n");
            }
            restored
                .changes
                .iter()
                .for_each(|change| text += &format!("{change}\n"));
            text
        });
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Export {
    /// The snapshot's name
    name: String,
    /// The file, which is made or replaced
    file: PathBuf,
    #[command(flatten)]
    whose: Whose,
}

impl Export {
    fn run(self) -> anyhow::Result<()> {
        let snapshots = open(&self.whose.edge)?;
        let kept = snapshots.find(&self.whose.tenant, &self.name)?;
        let shown = self.file.display();
        // It has its name once it is whole.
        let part = self.file.with_extension("part");
        let file = File::create(&part).with_context(|| part.display().to_string())?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let written = snapshots.export(&kept, &mut out).map_err(anyhow::Error::from);
        let written = written.and_then(|()| Ok(out.get_ref().sync_all()?));
        if let Err(error) = written.and_then(|()| Ok(fs::rename(&part, &self.file)?)) {
            let _ = fs::remove_file(&part);
            return Err(error.context(shown.to_string()));
        }
        note(format_args!("{shown} has {} of {}", self.name, kept.about.application));
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Import {
    /// The file
    file: PathBuf,
    /// In place of the name that it has there
    #[arg(long)]
    name: Option<String>,
    /// Refuse it where the passphrase in this file does not open its Secrets
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    whose: Whose,
}

impl Import {
    fn run(self) -> anyhow::Result<()> {
        let tenant = &self.whose.tenant;
        let passphrase = self.passphrase_file.as_deref().map(passphrase::read).transpose()?;
        let snapshots = open(&self.whose.edge)?;
        let import = |file| Ok(snapshots.import(file, tenant, self.name.as_deref(), passphrase.as_ref())?);
        for name in taken_in(&self.file, import)? {
            let is_sealed = !snapshots.find(tenant, &name)?.about.secrets.is_empty();
            let more = if is_sealed { " --passphrase-file FILE" } else { "" };
            note(format_args!("{name} is here; selvedge snapshot restore {name}{more}"));
        }
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Remove {
    /// Names of snapshots
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    whose: Whose,
}

impl Remove {
    fn run(self) -> anyhow::Result<()> {
        if self.names.iter().any(|name| name.contains('/')) {
            bail!("a snapshot's name has no slash; selvedge snapshot list");
        }
        self.whose.edge.ask(false, async |client| {
            for name in &self.names {
                let path = paths::snapshot(&self.whose.tenant, name);
                client.good(Method::DELETE, &path, Vec::new()).await?;
                say(format_args!("- snapshot {name}\n"));
            }
            Ok(())
        })
    }
}
