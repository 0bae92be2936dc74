//! `selvedge call DEVICE METHOD [PAYLOAD]`.

use std::time::Duration;

use anyhow::bail;
use api::paths;
use clap::Args;
use hyper::Method;
use identity::{ClientName, check_name};
use serde_json::Value;

use super::Target;
use super::twin::pretty;
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
        let result = self.target.edge.ask(false, async |client| {
            if !client.is_running() {
                let data = self.target.edge.directory()?;
                let data = data.display();
                bail!("no edge runs on {data}; start it: selvedge edge --data {data}");
            }
            Ok(client.good(Method::POST, &path, self.payload.clone().into()).await?)
        })?;
        let Ok(result) = serde_json::from_slice::<Value>(&result) else {
            // A device may answer anything.
            say(format_args!("{}\n", String::from_utf8_lossy(&result)));
            return Ok(());
        };
        match result["status"].as_u64() {
            Some(status @ 300..) => bail!("{}", self.failure(&device, status, &result["payload"])),
            _ if self.target.output == Output::Json => say(pretty(&result)),
            _ => show(&result),
        }
        Ok(())
    }

    fn failure(&self, device: &ClientName, status: u64, payload: &Value) -> String {
        let (method, id) = (&self.method, device.id());
        match status {
            404 | 429 if payload["message"].is_string() => {
                let why = payload["message"].as_str().unwrap_or_default();
                format!("{why}, so \"{method}\" was not called")
            }
            504 => format!(
                "{device} did not answer \"{method}\" within {} s: the call was delivered, but no result came on \
                 devices/{id}/methods/{method}/…/result",
                self.timeout.as_secs_f64()
            ),
            _ => format!("{device} answered \"{method}\" with status {status}: {payload}"),
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
