//! `selvedge apply -f FILE`, here or for an edge of a cloud.

use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use api::{Applied, Client, paths};
use clap::Args;

use super::Where;
use super::edge_manifests::ForEdge;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Apply {
    /// The manifest; - reads standard input
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
        let request = api::Apply {
            file: self.file.display().to_string(),
            text: self.read().with_context(|| self.file.display().to_string())?,
            is_dry_run: self.dry_run,
            takes_over: self.take_over,
        };
        let path = match &self.for_edge.edge_name {
            Some(edge) => {
                self.edge.of_cloud();
                paths::edge_manifests(edge)
            }
            None => "/v1/apply".to_owned(),
        };
        let apply = async |client: &Client| Ok(client.post(&path, &request).await?);
        let applied: Applied = self.edge.ask(self.for_edge.edge_name.is_none(), apply)?;
        let hint = self.for_edge.edge_name.filter(|_| !request.is_dry_run);
        let hint = hint.map(|edge| format!("what becomes of it there: selvedge get manifests --edge {edge}\n"));
        self.output
            .show(&applied, |applied| text(applied) + &hint.unwrap_or_default());
        Ok(())
    }

    fn read(&self) -> std::io::Result<String> {
        if self.file.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            return Ok(text);
        }
        std::fs::read_to_string(&self.file)
    }
}

fn text(applied: &Applied) -> String {
    let changes = applied.changes.iter().map(|change| format!("{change}\n"));
    let unchanged = applied.unchanged.iter().map(|title| format!("= {title} unchanged\n"));
    changes.chain(unchanged).collect()
}
