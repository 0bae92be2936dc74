//! rumqttc, unmodified, for the black-box tests: subscribes, publishes what it is told, and prints what comes back as
//! one JSON array. Arguments: port, protocol version (4 or 5), topic, number of messages, QoS.

mod v311;
mod v5;

use std::error::Error;
use std::time::Duration;

use serde_json::{Value, json};

/// What the command line asks for.
struct Task {
    port: u16,
    topic: String,
    count: usize,
    qos: u8,
}

/// Time for everything; a broker that does not answer ends the test.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, version, topic, count, qos] = words.as_slice() else {
        return Err("arguments: PORT VERSION TOPIC COUNT QOS".into());
    };
    let task = Task {
        port: port.parse()?,
        topic: topic.clone(),
        count: count.parse()?,
        qos: qos.parse()?,
    };
    let received = match version.as_str() {
        "4" => tokio::time::timeout(PATIENCE, v311::echo(&task)).await??,
        "5" => tokio::time::timeout(PATIENCE, v5::echo(&task)).await??,
        other => return Err(format!("rumqttc speaks versions 4 and 5, not {other}").into()),
    };
    println!("{}", Value::Array(received));
    Ok(())
}

fn message(topic: &[u8], payload: &[u8], qos: u8) -> Value {
    json!({"topic": String::from_utf8_lossy(topic), "payload": String::from_utf8_lossy(payload), "qos": qos})
}
