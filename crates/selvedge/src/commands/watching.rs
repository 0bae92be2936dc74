//! What containers take, and what has happened to them: `selvedge top` and `selvedge events`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::{EventInfo, Page, UsageInfo, paths};
use clap::Args;
use serde::Serialize;

use super::Target;
use crate::node::unix_now_s;
use crate::output::table;

/// Between two looks at processor time.
const SPAN: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct Top {
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct Taken {
    #[serde(flatten)]
    usage: UsageInfo,
    /// Thousandths of a core, in the second before.
    cpu_millis: u64,
}

impl Top {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let path = paths::usage(&self.target.tenant);
        let taken = self.target.edge.ask(false, async |client| {
            let began = Instant::now();
            let before: Page<UsageInfo> = client.get(&path).await?;
            tokio::time::sleep(SPAN).await;
            let after: Page<UsageInfo> = client.get(&path).await?;
            let before: BTreeMap<String, u64> = before.items.into_iter().map(|one| (one.start, one.cpu_us)).collect();
            let span_ms = began.elapsed().as_millis().max(1) as u64;
            let taken = |usage: UsageInfo| {
                let cpu_us = usage
                    .cpu_us
                    .saturating_sub(before.get(&usage.start).copied().unwrap_or(0));
                Taken {
                    cpu_millis: cpu_us / span_ms,
                    usage,
                }
            };
            Ok(after.items.into_iter().map(taken).collect::<Vec<_>>())
        })?;
        self.target.output.show(&taken, |taken| match taken.is_empty() {
            true => format!(
                "no containers of tenant {} run here, or nobody counts\n",
                self.target.tenant
            ),
            false => table(
                [
                    "APPLICATION",
                    "CONTAINER",
                    "REPLICA",
                    "CPU",
                    "MEMORY",
                    "PROCESSES",
                    "READ",
                    "WRITTEN",
                ],
                &taken.iter().map(taken_row).collect::<Vec<_>>(),
            ),
        });
        Ok(())
    }
}

fn taken_row(taken: &Taken) -> [String; 8] {
    let Taken { usage, cpu_millis } = taken;
    let of = |limit: Option<String>| limit.map_or(String::new(), |limit| format!(" of {limit}"));
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let at_most = |rate: Option<u64>| rate.map_or(String::new(), |rate| format!(", at most {}/s", mb(rate)));
    [
        usage.deployment.clone(),
        usage.container.clone(),
        usage.replica.to_string(),
        format!(
            "{cpu_millis}m{}",
            of(usage.cpu_limit_millis.map(|millis| format!("{millis}m")))
        ),
        mb(usage.memory_bytes) + &of(usage.memory_limit_bytes.map(mb)),
        usage.pids.to_string() + &of(usage.pids_limit.map(|pids| pids.to_string())),
        mb(usage.read_bytes) + &at_most(usage.read_limit_bytes_per_s),
        mb(usage.written_bytes) + &at_most(usage.write_limit_bytes_per_s),
    ]
}

#[derive(Args)]
pub(crate) struct Events {
    /// Of this application alone
    name: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Events {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let path = paths::events(&self.target.tenant);
        let all: Page<EventInfo> = self
            .target
            .edge
            .ask(false, async |client| Ok(client.get(&path).await?))?;
        let is_wanted = |event: &EventInfo| self.name.as_ref().is_none_or(|name| *name == event.deployment);
        let events: Vec<EventInfo> = all.items.into_iter().filter(is_wanted).collect();
        self.target.output.show(&events, |events| match events.is_empty() {
            true => "nothing has happened since the edge was started\n".to_owned(),
            false => table(
                ["AGO", "APPLICATION", "CONTAINER", "WHAT", "TIMES", "HOW"],
                &events.iter().map(event_row).collect::<Vec<_>>(),
            ),
        });
        Ok(())
    }
}

fn event_row(event: &EventInfo) -> [String; 6] {
    let container = match event.replica {
        0 => event.container.clone(),
        replica => format!("{} of {replica}", event.container),
    };
    [
        format!("{} s", (unix_now_s() - event.at_ms / 1_000).max(0)),
        event.deployment.clone(),
        container,
        event.what.clone(),
        event.times.to_string(),
        event.message.clone(),
    ]
}
