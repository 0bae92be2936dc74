//! An application at the edge: it watches how warm the pumps are, has one rest that gets too warm, and tells the cloud.
//! It goes on while the cloud is away.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::station::{Line, Login, Station, Work};

/// Name of the application, and of the topics below `apps/` that are its own.
pub(super) const NAME: &str = "cooling";
/// Above it a pump is to rest.
const LIMIT_CELSIUS: f64 = 44.0;
/// A pump that was told to rest is not told again for as long.
const PATIENCE: Duration = Duration::from_secs(15);

/// Sends the alarms to the cloud before all else.
pub(super) const ROUTE: &str = "\
apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: cooling-alarms}
spec:
  from: apps/cooling/alarms/+
  to:
    - upstream: {priority: high}
";

#[derive(Default)]
struct Cooling {
    told: HashMap<String, Instant>,
    calls: u64,
}

/// Starts it.
pub(super) fn start(login: Login) -> Station {
    Station::start(login, Cooling::default())
}

impl Work for Cooling {
    fn filters(&self) -> Vec<String> {
        vec!["devices/+/telemetry".to_owned()]
    }

    fn speak(&mut self, _: &mut Line) -> io::Result<()> {
        Ok(())
    }

    fn hear(&mut self, line: &mut Line, topic: &str, payload: &[u8]) -> io::Result<()> {
        let reading: Value = serde_json::from_slice(payload).unwrap_or_default();
        let (Some(device), Some(celsius)) = (topic.split('/').nth(1), reading["celsius"].as_f64()) else {
            return Ok(());
        };
        let is_told = self.told.get(device).is_some_and(|since| since.elapsed() < PATIENCE);
        if celsius <= LIMIT_CELSIUS || is_told {
            return Ok(());
        }
        self.told.insert(device.to_owned(), Instant::now());
        self.calls += 1;
        let reason = json!({"celsius": celsius, "limit": LIMIT_CELSIUS}).to_string();
        line.send(
            &format!("devices/{device}/methods/rest/{}", self.calls),
            reason.as_bytes(),
        )?;
        line.send(&format!("apps/{NAME}/alarms/{device}"), reason.as_bytes())
    }
}
