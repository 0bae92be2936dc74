//! The client of MQTT 3.1.1.

use std::error::Error;

use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
use serde_json::Value;

use crate::{Task, message};

/// Publishes to itself; what came, in order.
pub(crate) async fn echo(task: &Task) -> Result<Vec<Value>, Box<dyn Error>> {
    let qos = rumqttc::qos(task.qos).map_err(|error| format!("{error:?}"))?;
    let options = MqttOptions::new(format!("rumqttc-{}", task.topic), "127.0.0.1", task.port);
    let (client, mut events) = AsyncClient::new(options, task.count + 10);
    client.subscribe(&task.topic, qos).await?;
    let mut received = Vec::with_capacity(task.count);
    while received.len() < task.count {
        match events.poll().await? {
            Event::Incoming(Packet::SubAck(_)) => publish_all(&client, task, qos).await?,
            Event::Incoming(Packet::Publish(publish)) => {
                received.push(message(publish.topic.as_bytes(), &publish.payload, publish.qos as u8));
            }
            _ => {}
        }
    }
    Ok(received)
}

async fn publish_all(client: &AsyncClient, task: &Task, qos: QoS) -> Result<(), Box<dyn Error>> {
    for number in 0..task.count {
        client.publish(&task.topic, qos, false, number.to_string()).await?;
    }
    Ok(())
}
