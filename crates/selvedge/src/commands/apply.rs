//! `selvedge apply -f FILE`.

use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use api::{Applied, Client};
use clap::Args;

use super::Where;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Apply {
    /// The manifest; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Say what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    edge: Where,
    /// For people or for programs
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Output,
}

impl Apply {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let request = api::Apply {
            file: self.file.display().to_string(),
            text: self.read().with_context(|| self.file.display().to_string())?,
            is_dry_run: self.dry_run,
        };
        let apply = async |client: &Client| Ok(client.post("/v1/apply", &request).await?);
        let applied: Applied = self.edge.ask(true, apply)?;
        self.output.show(&applied, text);
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
