//! The two ends of a round trip: a device, and the responder (the first paper's service application).

use std::fmt::Write;

use mqtt::{Publish, QoS, Version};

use super::clock::Clock;
use super::frame::{self, Frame, RESPONDER};
use super::payload::{NUMBER_BYTES, big_endian, number_of};
use super::session::{Identity, Session};

/// What a device sends back after a call; it counts as load.
const RESULT: &[u8] = b"{\"status\":200}";
const ANSWER_BYTES: usize = 2 * NUMBER_BYTES;

/// An answer that reached a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Number of the message, as in its payload.
    pub(crate) number: u64,
    pub(crate) received_ns: u64,
    /// From receiving to sending, on the responder's clock, where it said so.
    pub(crate) server_ns: Option<u64>,
}

/// One end of a connection.
pub(crate) enum Role {
    MqttDevice {
        session: Session,
        telemetry: String,
        result: String,
    },
    MqttResponder {
        session: Session,
        call: String,
    },
    FrameDevice {
        device: u32,
        ready: bool,
    },
    FrameResponder {
        ready: bool,
    },
}

/// Client id and user name of a device.
pub(crate) fn device_id(device: u32) -> String {
    format!("device-{device}")
}

impl Role {
    pub(crate) fn mqtt_device(device: u32, version: Version, qos: QoS) -> Role {
        let id = device_id(device);
        let session = Session::new(version, qos, format!("devices/{id}/methods/echo/+"));
        Role::MqttDevice {
            session,
            telemetry: format!("devices/{id}/telemetry"),
            result: String::new(),
        }
    }

    pub(crate) fn mqtt_responder(version: Version, qos: QoS, filter: &str) -> Role {
        Role::MqttResponder {
            session: Session::new(version, qos, filter.to_owned()),
            call: String::new(),
        }
    }

    /// Appends what opens the conversation.
    pub(crate) fn greet(&self, identity: &Identity, out: &mut Vec<u8>) {
        match self {
            Role::MqttDevice { session, .. } | Role::MqttResponder { session, .. } => session.connect(identity, out),
            Role::FrameDevice { device, .. } => Frame {
                device: *device,
                payload: &[],
            }
            .encode(out),
            Role::FrameResponder { .. } => Frame {
                device: RESPONDER,
                payload: &[],
            }
            .encode(out),
        }
    }

    /// Whether messages may flow.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Role::MqttDevice { session, .. } | Role::MqttResponder { session, .. } => session.is_ready(),
            Role::FrameDevice { ready, .. } | Role::FrameResponder { ready } => *ready,
        }
    }

    /// Appends a device's message; false where it cannot be sent now.
    pub(crate) fn send(&mut self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Role::MqttDevice { session, telemetry, .. } => session.publish(telemetry, payload, out),
            Role::FrameDevice { device, .. } => {
                Frame {
                    device: *device,
                    payload,
                }
                .encode(out);
                true
            }
            Role::MqttResponder { .. } | Role::FrameResponder { .. } => false,
        }
    }

    /// Takes what came at `now_ns`, appends what has to follow to `out` and answers to `answers`. Returns the bytes
    /// taken.
    ///
    /// # Errors
    /// What the server did wrong.
    pub(crate) fn receive(
        &mut self,
        inbox: &[u8],
        out: &mut Vec<u8>,
        clock: &Clock,
        now_ns: u64,
        answers: &mut Vec<Answer>,
    ) -> Result<usize, String> {
        match self {
            Role::MqttDevice { session, result, .. } => session.receive(inbox, out, |session, call, out| {
                answers.extend(answer(call.payload, now_ns));
                send_result(session, result, call, out);
            }),
            Role::MqttResponder { session, call, .. } => session.receive(inbox, out, |session, telemetry, out| {
                send_call(session, call, telemetry, clock.now_ns() - now_ns, out);
            }),
            Role::FrameDevice { ready, .. } => frame::receive(inbox, |frame| match frame.payload {
                [] => *ready = true,
                payload => answers.extend(answer(payload, now_ns)),
            }),
            Role::FrameResponder { ready } => frame::receive(inbox, |frame| match frame.payload {
                [] => *ready = true,
                payload => send_answer(frame.device, payload, clock.now_ns() - now_ns, out),
            }),
        }
    }
}

fn answer(payload: &[u8], received_ns: u64) -> Option<Answer> {
    // An echo comes back as it was sent: it is no longer than an answer only if it was padded to that size.
    let server_ns = if payload.len() == ANSWER_BYTES {
        big_endian(&payload[NUMBER_BYTES..])
    } else {
        None
    };
    Some(Answer {
        number: number_of(payload)?,
        received_ns,
        server_ns,
    })
}

fn answer_payload(number: u64, server_ns: u64) -> [u8; ANSWER_BYTES] {
    let mut payload = [0; ANSWER_BYTES];
    payload[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
    payload[NUMBER_BYTES..].copy_from_slice(&server_ns.to_be_bytes());
    payload
}

fn send_answer(device: u32, payload: &[u8], server_ns: u64, out: &mut Vec<u8>) {
    if let Some(number) = number_of(payload) {
        Frame {
            device,
            payload: &answer_payload(number, server_ns),
        }
        .encode(out);
    }
}

/// Calls the method `echo` of the device that a telemetry message came from.
fn send_call(session: &mut Session, topic: &mut String, telemetry: &Publish<'_>, server_ns: u64, out: &mut Vec<u8>) {
    let Some(number) = number_of(telemetry.payload) else {
        return;
    };
    topic.clear();
    // Writing to a string does not fail.
    let _ = write!(topic, "devices/{}/methods/echo/{number:x}", device_of(telemetry.topic));
    session.publish_as(telemetry.qos);
    session.publish_later(topic, &answer_payload(number, server_ns), out);
}

/// The device in `devices/{id}/telemetry` or in the `apps/responder/in/{id}` that a route made of it.
fn device_of(topic: &str) -> &str {
    let direct = topic.strip_prefix("devices/").and_then(|rest| rest.split('/').next());
    direct.unwrap_or_else(|| topic.rsplit('/').next().unwrap_or(topic))
}

fn send_result(session: &mut Session, topic: &mut String, call: &Publish<'_>, out: &mut Vec<u8>) {
    topic.clear();
    topic.push_str(call.topic);
    topic.push_str("/result");
    session.publish_later(topic, RESULT, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_found_in_a_direct_and_in_a_routed_topic() {
        assert_eq!(device_of("devices/device-3/telemetry"), "device-3");
        assert_eq!(device_of("apps/responder/in/device-3"), "device-3");
    }

    #[test]
    fn an_answer_carries_the_responders_own_time_and_an_echo_has_none() {
        let whole = answer(&answer_payload(5, 1_234), 9);
        assert_eq!(
            whole,
            Some(Answer {
                number: 5,
                received_ns: 9,
                server_ns: Some(1_234)
            })
        );
        assert_eq!(
            answer(&[0; 64], 9),
            Some(Answer {
                number: 0,
                received_ns: 9,
                server_ns: None
            })
        );
        assert_eq!(answer(&[0; 4], 9), None);
    }
}
