//! `selvedge edge`: wires the edge's rooms together and runs them until told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::{Args, ValueEnum};
use hub::{Address, Bound, Hub, Limits, Listener, Options};
use identity::{Identity, IdentityOptions};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args)]
pub(crate) struct Edge {
    /// Directory of all that survives a restart
    #[arg(long, value_name = "DIR", default_value = "./selvedge-data/edge")]
    data: PathBuf,
    /// Address for MQTT over TCP; may be repeated
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:1883")]
    mqtt: Vec<SocketAddr>,
    /// Address for MQTT over WebSocket; may be repeated
    #[arg(long, value_name = "ADDR")]
    mqtt_ws: Vec<SocketAddr>,
    /// Path of a Unix socket for MQTT; may be repeated
    #[arg(long, value_name = "PATH")]
    mqtt_unix: Vec<PathBuf>,
    /// Let clients in without credentials; they have the whole tree of the default tenant
    #[arg(long)]
    allow_anonymous: bool,
    /// Threads that serve clients; each tenant lives on one of them [default: one per core]
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// When an acknowledgement may leave: "disk" survives a power cut, "os" a crash of the program
    #[arg(long, value_name = "WHEN", default_value = "disk")]
    durability: Durability,
    /// Stay awake for a short adaptive time before sleeping: less latency for up to a core per busy shard
    #[arg(long)]
    low_latency: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Durability {
    Os,
    Disk,
}

impl Edge {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
            .init();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting tokio")?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<()> {
        let start = Instant::now();
        std::fs::create_dir_all(&self.data).with_context(|| format!("creating {}", self.data.display()))?;
        let identity = IdentityOptions {
            allow_anonymous: self.allow_anonymous,
        };
        let identity = Arc::new(Identity::open(&self.data, identity, unix_now_s())?);
        let doors = self.listeners().map(Bound::new).collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<Address> = doors.iter().map(Bound::local_address).collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let options = Options {
            data: self.data.clone(),
            shards: self.shards.unwrap_or(cores).max(1),
            durability: match self.durability {
                Durability::Os => store::Durability::Os,
                Durability::Disk => store::Durability::Disk,
            },
            allow_anonymous: self.allow_anonymous,
            low_latency: self.low_latency,
            limits: Limits::default(),
        };
        let hub = Hub::start(&options, identity, doors)?;
        let addresses: Vec<String> = addresses.iter().map(|address| format!("mqtt://{address}")).collect();
        println!(
            "edge    ready   {}   in {} ms",
            addresses.join(" "),
            start.elapsed().as_millis()
        );
        stop_requested().await?;
        hub.stop().await;
        Ok(())
    }

    fn listeners(&self) -> impl Iterator<Item = Listener> {
        let plain = |address: Address| Listener {
            address,
            tls: None,
            websocket: false,
            proxy_protocol: false,
        };
        let tcp = self.mqtt.iter().map(move |address| plain(Address::Tcp(*address)));
        let unix = self
            .mqtt_unix
            .iter()
            .map(move |path| plain(Address::Unix(path.clone())));
        let websocket = self.mqtt_ws.iter().map(move |address| Listener {
            websocket: true,
            ..plain(Address::Tcp(*address))
        });
        tcp.chain(websocket).chain(unix)
    }
}

async fn stop_requested() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

fn unix_now_s() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "credentials carry dates of the wall clock")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}
