//! What it is told by variables of the environment.

use std::path::PathBuf;
use std::time::Duration;

use crate::hub::Login;
use crate::predictor::Limits;
use crate::registry::Registries;

/// Of the id of a device, as everywhere in Selvedge.
const DEVICE_BYTES_MAX: usize = 128;

/// All that can be set, validated.
#[derive(Debug)]
pub(crate) struct Settings {
    /// At the hub.
    pub login: Login,
    /// What it runs until it is told another one.
    pub model: Option<String>,
    /// Topics.
    pub topics: Topics,
    /// Where models come from.
    pub registries: Registries,
    /// What a model may take.
    pub limits: Limits,
    /// Devices with a window.
    pub devices_max: usize,
}

/// Topics that it reads and writes.
#[derive(Clone, Debug)]
pub(crate) struct Topics {
    /// Where readings come, with one `+`, which stands for the device.
    pub readings: String,
    /// Where it is told which model to run.
    pub model: String,
    /// Below it: verdicts of each device.
    pub verdicts: String,
    /// What runs, and why not.
    pub status: String,
}

impl Topics {
    /// The device that a topic of readings is of.
    #[must_use]
    pub(crate) fn device<'a>(&self, topic: &'a str) -> Option<&'a str> {
        let (before, behind) = self.readings.split_once('+')?;
        let device = topic.strip_prefix(before)?.strip_suffix(behind)?;
        ((1..=DEVICE_BYTES_MAX).contains(&device.len()) && !device.contains('/')).then_some(device)
    }
}

impl Settings {
    /// Of variables of the environment.
    ///
    /// # Errors
    /// Which is missing or wrong, and what would be right.
    pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let needed = |name: &str| {
            get(name)
                .ok_or_else(|| format!("{name} is not set; an edge sets it for its applications (docs/anomaly.md)"))
        };
        let url = needed("SELVEDGE_MQTT_URL")?;
        let address = url.strip_prefix("mqtt://").map(|address| address.trim_end_matches('/'));
        let address = address.filter(|address| address.contains(':'));
        let user = needed("SELVEDGE_MQTT_USERNAME")?;
        // The tenant is in front of it.
        let app = user.rsplit('/').next().unwrap_or_default().to_owned();
        let login = Login {
            address: address
                .ok_or_else(|| format!("SELVEDGE_MQTT_URL is {url}; it is mqtt://HOST:PORT"))?
                .to_owned(),
            token_file: PathBuf::from(needed("SELVEDGE_MQTT_TOKEN_FILE")?),
            client_id: app.clone(),
            user,
        };
        let number = |name: &str, otherwise: u64| number(name, get(name), otherwise);
        let certificates = get("SSL_CERT_FILE")
            .map(|path| std::fs::read(&path).map_err(|error| format!("SSL_CERT_FILE, {path}: {error}")))
            .transpose()?;
        Ok(Settings {
            login,
            model: get("ANOMALY_MODEL"),
            topics: topics(&app, get("ANOMALY_READINGS"))?,
            registries: Registries {
                plain: get("ANOMALY_PLAIN_REGISTRIES")
                    .map(|names| names.split(',').map(|name| name.trim().to_owned()).collect())
                    .unwrap_or_default(),
                model_bytes_max: number("ANOMALY_MODEL_BYTES_MAX", 64 << 20)?,
                certificates,
            },
            limits: Limits {
                deadline: Duration::from_millis(number("ANOMALY_DEADLINE_MS", 1_000)?),
                memory_bytes: number("ANOMALY_MEMORY_BYTES_MAX", 128 << 20)?,
            },
            devices_max: usize::try_from(number("ANOMALY_DEVICES_MAX", 1_000)?).unwrap_or(usize::MAX),
        })
    }
}

fn topics(app: &str, readings: Option<String>) -> Result<Topics, String> {
    let readings = readings.unwrap_or_else(|| format!("apps/{app}/readings/+"));
    let wild = readings
        .split('/')
        .filter(|level| level.contains(['+', '#']))
        .collect::<Vec<_>>();
    if wild != ["+"] || mqtt::topic::check_filter(&readings).is_err() {
        return Err(format!(
            "ANOMALY_READINGS is {readings:?}; it is a topic filter with one + for the device, such as devices/+/telemetry"
        ));
    }
    Ok(Topics {
        readings,
        model: format!("models/{app}"),
        verdicts: format!("apps/{app}/verdicts"),
        status: format!("apps/{app}/status"),
    })
}

fn number(name: &str, text: Option<String>, otherwise: u64) -> Result<u64, String> {
    let Some(text) = text else { return Ok(otherwise) };
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{name} is {text:?}; it is a whole number above 0"))
}
