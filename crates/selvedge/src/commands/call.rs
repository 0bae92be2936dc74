//! `selvedge call DEVICE METHOD [PAYLOAD]`.

use std::time::Duration;

use anyhow::bail;
use api::{LocationInfo, paths};
use clap::Args;
use hyper::Method;
use identity::{ClientName, check_name};
use serde_json::Value;

use super::twin::pretty;
use super::{Target, location};
use crate::output::{Output, say};

#[derive(Args)]
pub(crate) struct Call {
    /// Id of the device
    device: String,
    /// The method
    method: String,
    /// What the method gets
    #[arg(default_value = "")]
    payload: String,
    /// Seconds that the device has to answer
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    #[command(flatten)]
    target: Target,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.001..=600.0).contains(seconds));
    let seconds = seconds.ok_or("seconds from 0.001 to 600, such as 5 or 0.5")?;
    Ok(Duration::from_secs_f64(seconds))
}

impl Call {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let device = ClientName::new(&self.target.tenant, &self.device)?;
        check_name("method", &self.method)?;
        let path = paths::method(&device, &self.method, self.timeout.as_millis() as u64);
        let (result, location) = self.target.edge.ask(false, async |client| {
            if !client.is_running() {
                let data = self.target.edge.directory()?;
                let data = data.display();
                bail!("no edge runs on {data}; start it: selvedge edge --data {data}");
            }
            let result = client.good(Method::POST, &path, self.payload.clone().into()).await?;
            // A device may answer anything.
            let result = serde_json::from_slice::<Value>(&result).map_err(|_| result);
            let location = match &result {
                Ok(result) if result["status"] == 504 => Some(location::of(client, &device).await?),
                _ => None,
            };
            Ok((result, location))
        })?;
        let result = match result {
            Ok(result) => result,
            Err(result) => {
                say(format_args!("{}\n", String::from_utf8_lossy(&result)));
                return Ok(());
            }
        };
        match result["status"].as_u64() {
            Some(status @ 300..) => bail!(
                "{}",
                self.failure(&device, status, &result["payload"], location.as_ref())
            ),
            _ if self.target.output == Output::Json => say(pretty(&result)),
            _ => show(&result),
        }
        Ok(())
    }

    /// In the words of who knows it: the device, its edge, or the hub that was asked.
    fn failure(&self, device: &ClientName, status: u64, payload: &Value, location: Option<&LocationInfo>) -> String {
        let method = &self.method;
        match (status, payload["message"].as_str()) {
            (404 | 429, Some(why)) => format!("{why}, so \"{method}\" was not called"),
            (504, Some(why)) => why.to_owned() + &self.hint(device, location),
            _ => format!("{device} answered \"{method}\" with status {status}: {payload}"),
        }
    }

    /// Where the device is that gave no answer in time, unless that is said already.
    fn hint(&self, device: &ClientName, location: Option<&LocationInfo>) -> String {
        match location {
            Some(LocationInfo::Here) => format!(
                "; it is connected, and its result is expected on devices/{}/methods/{}/…/result",
                device.id(),
                self.method
            ),
            Some(LocationInfo::Nowhere) => "; it is not connected any more".to_owned(),
            Some(LocationInfo::Edge { .. }) | None => String::new(),
        }
    }
}

/// What the device said, without its envelope.
fn show(result: &Value) {
    match result.get("payload").unwrap_or(result) {
        Value::String(text) => say(format_args!("{text}\n")),
        payload => say(pretty(payload)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_seconds_within_bounds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "1e9", "NaN", "5s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
