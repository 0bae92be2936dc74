//! `selvedge apply -f FILE`, here or for an edge of a cloud; of a folder, all manifests in it.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::{Applied, Client, ClientError, paths};
use clap::Args;

use super::Where;
use super::edge_manifests::ForEdge;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Apply {
    /// The manifest; - reads standard input, and of a folder it is each *.yaml, *.yml and *.json, by name: nothing of
    /// them is applied where one is refused
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Say what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// At an edge: change also what came from its cloud, which keeps its hands off until it is applied there again
    #[arg(long, conflicts_with = "edge_name")]
    take_over: bool,
    #[command(flatten)]
    for_edge: ForEdge,
    #[command(flatten)]
    edge: Where,
    /// For people or for programs
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Output,
}

impl Apply {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let files = self.files()?;
        let path = match &self.for_edge.edge_name {
            Some(edge) => paths::edge_manifests(edge),
            None => "/v1/apply".to_owned(),
        };
        if self.for_edge.edge_name.is_some() {
            self.edge.of_cloud();
        }
        let creates = self.for_edge.edge_name.is_none();
        let apply = async |client: &Client| {
            if files.len() > 1 {
                try_all(client, &path, &files).await?;
            }
            let mut all = Applied {
                changes: Vec::new(),
                unchanged: Vec::new(),
            };
            for file in &files {
                let applied: Applied = client.post(&path, file).await?;
                all.changes.extend(applied.changes);
                all.unchanged.extend(applied.unchanged);
            }
            Ok(all)
        };
        let applied = self.edge.ask(creates, apply)?;
        let hint = self.for_edge.edge_name.filter(|_| !self.dry_run);
        let hint = hint.map(|edge| format!("what becomes of it there: selvedge get manifests --edge {edge}\n"));
        self.output
            .show(&applied, |applied| text(applied) + &hint.unwrap_or_default());
        Ok(())
    }

    /// What each file asks for.
    fn files(&self) -> anyhow::Result<Vec<api::Apply>> {
        let paths = match self.file.is_dir() {
            true => manifests(&self.file).with_context(|| self.file.display().to_string())?,
            false => vec![self.file.clone()],
        };
        let request = |path: &PathBuf| {
            Ok(api::Apply {
                file: path.display().to_string(),
                text: read(path).with_context(|| path.display().to_string())?,
                is_dry_run: self.dry_run,
                takes_over: self.take_over,
            })
        };
        paths.iter().map(request).collect()
    }
}

fn read(file: &Path) -> std::io::Result<String> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}

/// The manifests that lie in a folder itself, by name, as kubectl takes them.
fn manifests(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_manifest = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("yaml" | "yml" | "json")) && path.is_file()
    };
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut found: Vec<PathBuf> = entries?.into_iter().filter(is_manifest).collect();
    if found.is_empty() {
        bail!("no *.yaml, *.yml or *.json is in it");
    }
    found.sort();
    Ok(found)
}

/// Finds out whether each would be applied; all that is wrong is one error.
async fn try_all(client: &Client, path: &str, files: &[api::Apply]) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for file in files {
        let dry = api::Apply {
            is_dry_run: true,
            ..file.clone()
        };
        match client.post::<Applied>(path, &dry).await {
            Ok(_) => {}
            Err(ClientError::Refused(why)) => wrong.push(why),
            Err(error) => return Err(error.into()),
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => bail!("{}", wrong.join("\n")),
    }
}

fn text(applied: &Applied) -> String {
    let changes = applied.changes.iter().map(|change| format!("{change}\n"));
    let unchanged = applied.unchanged.iter().map(|title| format!("= {title} unchanged\n"));
    changes.chain(unchanged).collect()
}
