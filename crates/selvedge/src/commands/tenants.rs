//! `selvedge tenant …`.

use anyhow::bail;
use api::{AddTenant, Page, QuotaChanges, TenantInfo, paths};
use clap::{Args, Subcommand};
use hyper::Method;
use identity::{DEFAULT_TENANT, Quotas};

use super::quota::Quota;
use super::{Where, tenant_name};
use crate::output::{Output, say, table};
use crate::retention::OwnRetention;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Add one; what belongs to it is invisible to every other
    Add {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        quotas: Flags,
    },
    /// List all, with what each uses of what it may use
    List {
        #[command(flatten)]
        edge: Where,
        /// For people or for programs
        #[arg(long, value_name = "FORM", default_value = "text")]
        output: Output,
    },
    /// Show one
    Show(Named),
    /// Change what it may use; connections and sessions beyond a lowered quota stay
    Set {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        quotas: Flags,
    },
    /// Remove one that has no devices, apps or routes any more
    Remove(Named),
}

#[derive(Args)]
pub(crate) struct Named {
    /// Its name
    #[arg(value_parser = tenant_name)]
    name: String,
    #[command(flatten)]
    edge: Where,
    /// For people or for programs
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Output,
}

/// Quotas; "none" takes a limit away.
#[derive(Args)]
pub(crate) struct Flags {
    /// Connections at one time; one more is refused [default: 12000]
    #[arg(long, value_name = "N")]
    connections: Option<Quota>,
    /// Sessions, connected or not; one more is refused [default: 40000]
    #[arg(long, value_name = "N")]
    sessions: Option<Quota>,
    /// Bytes of memory for sessions and the places in their queues, such as 64MiB; more are refused [default:
    /// 256000000]
    #[arg(long, value_name = "BYTES")]
    session_bytes: Option<Quota>,
    /// Bytes of memory for subscriptions, such as 64MiB; one more is refused [default: 256000000]
    #[arg(long, value_name = "BYTES")]
    subscription_bytes: Option<Quota>,
    /// Bytes of messages that wait or are retained, such as 64MiB; more are not kept [default: 2000000000]
    #[arg(long, value_name = "BYTES")]
    bytes: Option<Quota>,
    /// Bytes of messages that wait to leave for the cloud; routes say what gives way [default: 400000000]
    #[arg(long, value_name = "BYTES")]
    upstream_bytes: Option<Quota>,
    /// Messages published a second; who is faster is slowed down [default: none]
    #[arg(long, value_name = "N")]
    messages_per_s: Option<Quota>,
    /// Bytes published a second, such as 1MiB; who is faster is slowed down [default: none]
    #[arg(long, value_name = "BYTES")]
    bytes_per_s: Option<Quota>,
    /// Devices and apps; one more is refused [default: 20000]
    #[arg(long, value_name = "N")]
    devices: Option<Quota>,
    /// How long its telemetry is kept from when it was stored, such as 30d or 12h, longer or shorter than what is
    /// configured for all tenants, which is "default"; what is older goes [default: default]
    #[arg(long, value_name = "TIME")]
    retention: Option<OwnRetention>,
    /// Containers of its applications, replicas counted; a manifest with one more is refused [default: 500]
    #[arg(long, value_name = "N")]
    containers: Option<Quota>,
    /// Thousandths of a core for all its containers together [default: none]
    #[arg(long, value_name = "MILLIS")]
    app_cpu_millis: Option<Quota>,
    /// Bytes of memory for all its containers together, such as 512MiB; one of them ends where there is no more
    /// [default: none]
    #[arg(long, value_name = "BYTES")]
    app_memory_bytes: Option<Quota>,
    /// Processes and threads of all its containers together; no further one is made [default: 4096]
    #[arg(long, value_name = "N")]
    app_pids: Option<Quota>,
    /// Bytes on the disk of all that its containers write, such as 4GiB; those with most of it are replaced [default:
    /// none]
    #[arg(long, value_name = "BYTES")]
    app_disk_bytes: Option<Quota>,
}

impl Flags {
    /// Those that were given, by their names in [`Quotas`].
    fn changes(&self) -> QuotaChanges {
        let given = [
            ("connections", self.connections),
            ("sessions", self.sessions),
            ("session_bytes", self.session_bytes),
            ("subscription_bytes", self.subscription_bytes),
            ("stored_bytes", self.bytes),
            ("upstream_bytes", self.upstream_bytes),
            ("messages_per_s", self.messages_per_s),
            ("bytes_per_s", self.bytes_per_s),
            ("devices", self.devices),
            ("retention_s", self.retention.map(|own| Quota(own.0))),
            ("containers", self.containers),
            ("app_cpu_millis", self.app_cpu_millis),
            ("app_memory_bytes", self.app_memory_bytes),
            ("app_pids", self.app_pids),
            ("app_disk_bytes", self.app_disk_bytes),
        ];
        let given = given
            .into_iter()
            .filter_map(|(name, quota)| Some((name.to_owned(), quota?.0)));
        given.collect()
    }
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Add { named, quotas } => named.add(quotas.changes()),
            Command::List { edge, output } => list(&edge, output),
            Command::Show(named) => named.show(),
            Command::Set { named, quotas } => named.set(&quotas.changes()),
            Command::Remove(named) => named.remove(),
        }
    }
}

impl Named {
    fn add(self, quotas: QuotaChanges) -> anyhow::Result<()> {
        let add = AddTenant {
            name: self.name.clone(),
            quotas,
        };
        let added: TenantInfo = self
            .edge
            .ask(true, async |client| Ok(client.post(paths::TENANTS, &add).await?))?;
        self.output.show(&added, |added| format!("added\n{}", text(added)));
        Ok(())
    }

    fn show(self) -> anyhow::Result<()> {
        let path = paths::tenant(&self.name);
        let tenant: TenantInfo = self.edge.ask(false, async |client| Ok(client.get(&path).await?))?;
        self.output.show(&tenant, text);
        Ok(())
    }

    fn set(self, changes: &QuotaChanges) -> anyhow::Result<()> {
        if changes.is_empty() {
            bail!("say what to set, such as --connections 100 or --bytes 64MiB; none takes a limit away");
        }
        let (path, body) = (paths::tenant(&self.name), serde_json::to_vec(changes)?);
        let changed = self.edge.ask(false, async |client| {
            Ok(client.good(Method::PATCH, &path, body).await?)
        })?;
        let changed: TenantInfo = serde_json::from_slice(&changed)?;
        self.output.show(&changed, text);
        Ok(())
    }

    fn remove(self) -> anyhow::Result<()> {
        if self.name == DEFAULT_TENANT {
            bail!("the default tenant cannot be removed");
        }
        let path = paths::tenant(&self.name);
        self.edge.ask(false, async |client| {
            client.good(Method::DELETE, &path, Vec::new()).await?;
            Ok(())
        })?;
        say(format_args!("tenant {} removed\n", self.name));
        Ok(())
    }
}

fn list(edge: &Where, output: Output) -> anyhow::Result<()> {
    let tenants: Page<TenantInfo> = edge.ask(false, async |client| Ok(client.get(paths::TENANTS).await?))?;
    output.show(&tenants.items, |tenants| {
        let header = [
            "NAME",
            "DEVICES AND APPS",
            "CONNECTIONS",
            "SESSIONS",
            "SESSION BYTES",
            "SUBSCRIPTION BYTES",
            "STORED BYTES",
            "UPSTREAM BYTES",
            "MESSAGES/S",
            "BYTES/S",
            "RETENTION",
            "CONTAINERS",
            "APP CPU MILLIS",
            "APP MEMORY BYTES",
            "APP PIDS",
            "APP DISK BYTES",
        ];
        table(header, &tenants.iter().map(row).collect::<Vec<_>>())
    });
    Ok(())
}

fn row(tenant: &TenantInfo) -> [String; 16] {
    let Quotas {
        connections,
        sessions,
        session_bytes,
        subscription_bytes,
        stored_bytes,
        upstream_bytes,
        messages_per_s,
        bytes_per_s,
        devices,
        retention_s,
        containers,
        app_cpu_millis,
        app_memory_bytes,
        app_pids,
        app_disk_bytes,
    } = tenant.quotas;
    let uses = tenant.uses;
    [
        tenant.name.clone(),
        used_of(Some(tenant.devices), devices),
        used_of(uses.map(|uses| uses.connections), connections),
        used_of(uses.map(|uses| uses.sessions), sessions),
        used_of(uses.map(|uses| uses.session_bytes), session_bytes),
        used_of(uses.map(|uses| uses.subscription_bytes), subscription_bytes),
        used_of(uses.map(|uses| uses.stored_bytes), stored_bytes),
        used_of(uses.map(|uses| uses.upstream_bytes), upstream_bytes),
        Quota(messages_per_s).to_string(),
        Quota(bytes_per_s).to_string(),
        OwnRetention(retention_s).to_string(),
        used_of(uses.map(|uses| uses.containers), containers),
        Quota(app_cpu_millis).to_string(),
        used_of(uses.map(|uses| uses.app_memory_bytes), app_memory_bytes),
        used_of(uses.map(|uses| uses.app_pids), app_pids),
        used_of(uses.map(|uses| uses.app_disk_bytes), app_disk_bytes),
    ]
}

/// `3 of 20000`; what is used is unknown where no edge runs.
fn used_of(used: Option<u64>, quota: Option<u64>) -> String {
    match (used, quota) {
        (Some(used), Some(quota)) => format!("{used} of {quota}"),
        (Some(used), None) => used.to_string(),
        (None, quota) => format!("? of {}", Quota(quota)),
    }
}

/// A tenant, a line a quota.
fn text(tenant: &TenantInfo) -> String {
    let [
        name,
        devices,
        connections,
        sessions,
        session_bytes,
        subscriptions,
        stored,
        upstream,
        messages,
        bytes,
        retention,
        containers,
        app_cpu,
        app_memory,
        app_pids,
        app_disk,
    ] = row(tenant);
    format!(
        "tenant {name}\n  devices and apps    {devices}\n  connections         {connections}\n  \
         sessions            {sessions}\n  session bytes       {session_bytes}\n  subscription bytes  {subscriptions}\n  stored bytes        {stored}\n  upstream bytes      {upstream}\n  \
         messages/s          {messages}\n  bytes/s             {bytes}\n  retention           {retention}\n  \
         containers          {containers}\n  app cpu millis      {app_cpu}\n  app memory bytes    {app_memory}\n  \
         app pids            {app_pids}\n  app disk bytes      {app_disk}\n"
    )
}

#[cfg(test)]
mod tests {
    use api::TenantUse;

    use super::*;

    #[test]
    fn a_tenant_is_shown_with_what_it_uses_of_what_it_may() {
        let tenant = TenantInfo {
            name: "plant-b".into(),
            quotas: Quotas {
                connections: Some(10),
                messages_per_s: Some(100),
                ..Quotas::default()
            },
            devices: 3,
            uses: Some(TenantUse {
                connections: 2,
                ..TenantUse::default()
            }),
        };
        assert_eq!(
            row(&tenant),
            [
                "plant-b",
                "3 of 20000",
                "2 of 10",
                "0 of 40000",
                "0 of 256000000",
                "0 of 256000000",
                "0 of 2000000000",
                "0 of 400000000",
                "100",
                "none",
                "default",
                "0 of 500",
                "none",
                "0",
                "0 of 4096",
                "0"
            ]
        );
        let stopped = TenantInfo { uses: None, ..tenant };
        assert_eq!(row(&stopped)[2], "? of 10");
        assert!(text(&stopped).starts_with("tenant plant-b\n  devices and apps    3 of 20000\n"));
    }
}
