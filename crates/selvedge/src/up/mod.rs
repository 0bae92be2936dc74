//! `selvedge up`: a cloud, an edge behind it, a few devices and an application on one machine, to be looked at.

mod app;
mod child;
mod device;
mod joining;
mod station;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use api::{Add, Added, Applied, Apply, Client, Credential, IssuedCredential, LinkInfo, paths};
use clap::Args;
use identity::{ClientKind, DEFAULT_TENANT};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

use self::child::Child;
use self::joining::Doors;
use self::station::{Login, Station};
use crate::output::say;

/// The edge's name in its cloud.
const EDGE: &str = "edge-1";
/// Devices that are simulated, at most.
const DEVICES_MAX: u8 = 100;
/// Time for the cloud and the edge to be ready and to meet.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for a role that fails to end.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct Up {
    /// Directory of all that survives
    #[arg(long, value_name = "DIR", default_value = "./selvedge-data")]
    data: PathBuf,
    /// Simulated devices
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(0..=i64::from(DEVICES_MAX)))]
    devices: u8,
    /// Port of the edge for MQTT
    #[arg(long, value_name = "PORT", default_value = "1883")]
    mqtt: u16,
    /// Port of the cloud for MQTT
    #[arg(long, value_name = "PORT", default_value = "1884")]
    cloud_mqtt: u16,
    /// Port of the cloud for HTTP
    #[arg(long, value_name = "PORT", default_value = "8080")]
    http: u16,
}

impl Up {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("starting tokio")?.block_on(self.run_all())
    }

    async fn run_all(self) -> anyhow::Result<()> {
        let mut stop = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stopped = async move {
            tokio::select! { _ = stop.0.recv() => {}, _ = stop.1.recv() => {} }
        };
        tokio::select! {
            // Whatever was started ends with what holds it.
            done = self.serve() => done,
            () = stopped => {
                say("\nstopping\n");
                Ok(())
            }
        }
    }

    /// Starts everything, and then waits until something ends that should not.
    async fn serve(&self) -> anyhow::Result<()> {
        let (cloud_data, edge_data) = (self.data.join("cloud"), self.data.join("edge"));
        let doors = Doors::of(&edge_data)?;
        let mut cloud = Child::start(&self.data, "cloud", &self.cloud_words(&cloud_data, &doors))?;
        let cloud_client = cloud.ready(&cloud_data, PATIENCE).await?;
        let configuration = self.configure(&edge_data)?;
        let edge_words = [
            "edge".to_owned(),
            "--config".to_owned(),
            configuration.display().to_string(),
        ];
        let mut edge = Child::start(&self.data, "edge", &edge_words)?;
        let edge_client = edge.ready(&edge_data, PATIENCE).await?;
        let starting = async {
            doors.join(&cloud_client, &cloud_data, &edge_client).await?;
            self.start_clients(&edge_client).await
        };
        let clients = match starting.await {
            Ok(clients) => clients,
            // An edge that ends while it is asked has a better reason.
            Err(error) => return timeout(GRACE, edge.ended()).await.unwrap_or(Err(error)),
        };
        self.tell(&cloud_data, &edge_data);
        let done = tokio::select! {
            ended = cloud.ended() => ended,
            ended = edge.ended() => ended,
        };
        drop(clients);
        done
    }

    fn cloud_words(&self, data: &Path, doors: &Doors) -> Vec<String> {
        let here = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string();
        let words = [
            ("--data", data.display().to_string()),
            ("--mqtt", here(self.cloud_mqtt)),
            ("--mqtts", here(doors.mqtts)),
            ("--http", here(self.http)),
            ("--https", here(doors.https)),
        ];
        let words = words.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
        ["cloud".to_owned()].into_iter().chain(words).collect()
    }

    /// Writes down what the edge is to know, which is nothing of its cloud: it joins.
    fn configure(&self, data: &Path) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(data).with_context(|| data.display().to_string())?;
        let configuration = data.join("edge.toml");
        let text = format!(
            "data = {data}\n[listen]\nmqtt = [\"127.0.0.1:{mqtt}\"]\n[history]\nenabled = true\n",
            data = toml::Value::from(data.display().to_string()),
            mqtt = self.mqtt,
        );
        std::fs::write(&configuration, text).with_context(|| configuration.display().to_string())?;
        Ok(configuration)
    }

    /// The application and the devices, once the edge has its cloud.
    async fn start_clients(&self, edge: &Client) -> anyhow::Result<Vec<Station>> {
        connected(edge).await?;
        let manifests = Apply {
            file: "the route of the application".to_owned(),
            text: app::ROUTE.to_owned(),
            is_dry_run: false,
            takes_over: false,
        };
        let _: Applied = edge.post("/v1/apply", &manifests).await?;
        let mut clients = vec![app::start(self.login(edge, ClientKind::App, app::NAME).await?)];
        for number in 1..=self.devices {
            let id = format!("pump-{number}");
            clients.push(device::start(self.login(edge, ClientKind::Device, &id).await?, number));
        }
        Ok(clients)
    }

    /// The login of a client of the edge, which is made the first time.
    async fn login(&self, edge: &Client, kind: ClientKind, id: &str) -> anyhow::Result<Login> {
        let file = self.data.join("edge").join(format!("{id}.password"));
        if !file.exists() {
            write_private(&file, &password_of(edge, kind, id).await?)?;
        }
        let password = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        Ok(Login {
            port: self.mqtt,
            id: id.to_owned(),
            password,
        })
    }

    fn tell(&self, cloud_data: &Path, edge_data: &Path) {
        let text = format!(
            "cloud   ready   mqtt://127.0.0.1:{cloud_mqtt}   http://127.0.0.1:{http}   password of admin in {cloud}/admin.password\n\
             edge    ready   mqtt://127.0.0.1:{mqtt}   joined the cloud as \"{EDGE}\"   {edge}\n\
             devices ready   {devices} pumps, simulated, a reading a second each\n\
             app     ready   \"{app}\" at the edge has a pump rest that gets too warm, and tells the cloud\n\
             Try:    selvedge get link --data {edge}\n\
             \x20       selvedge get edges --data {cloud}\n\
             \x20       selvedge edge invite edge-2 --data {cloud}\n\
             \x20       selvedge call pump-1 blink '{{\"times\": 3}}' --data {cloud}\n\
             \x20       selvedge twin set pump-1 '{{\"interval_s\": 5}}' --data {cloud}\n\
             \x20       selvedge twin get pump-1 --data {cloud}\n\
             \x20       curl -N --unix-socket {cloud}/control.sock http://cloud/v1/tenants/default/telemetry/live\n\
             \x20       curl --unix-socket {edge}/control.sock http://edge/v1/tenants/default/devices/pump-1/telemetry\n\
             Stop with Ctrl-C; nothing keeps running, the state stays in {data}\n",
            cloud_mqtt = self.cloud_mqtt,
            http = self.http,
            mqtt = self.mqtt,
            devices = self.devices,
            app = app::NAME,
            cloud = cloud_data.display(),
            edge = edge_data.display(),
            data = self.data.display(),
        );
        say(text);
    }
}

/// A password for a new client, or a new one for one that is there.
async fn password_of(client: &Client, kind: ClientKind, id: &str) -> anyhow::Result<String> {
    let add = Add {
        ids: vec![id.to_owned()],
        credential: Credential::GeneratedPassword,
        labels: Default::default(),
        edge: None,
    };
    let added: Vec<Added> = client.post(&paths::clients(DEFAULT_TENANT, kind), &add).await?;
    match added.into_iter().next().map(|added| added.issued) {
        Some(IssuedCredential::Password(password)) => Ok(password),
        _ => anyhow::bail!("{kind} {id} was added without a password"),
    }
}

/// Waits until the edge has its cloud.
async fn connected(edge: &Client) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let link: LinkInfo = edge.get("/v1/link").await?;
        if link.is_connected {
            return Ok(());
        }
        if Instant::now() > until {
            let why = link.last_error.unwrap_or_default();
            anyhow::bail!("the edge does not reach its cloud: {why}");
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| path.display().to_string())
}
