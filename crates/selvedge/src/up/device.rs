//! A simulated device: a pump that says every second how warm it is, and answers whatever it is called for.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mqtt::{Connect, Packet, PacketId, Publish, QoS, Subscribe, SubscriptionOptions, UserProperties, Version};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between two tries to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// Ends when it is dropped.
pub(super) struct Device {
    is_over: Arc<AtomicBool>,
}

impl Device {
    pub(super) fn start(port: u16, id: String, password: String, number: u8) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                // The edge may restart: a device tries again.
                let _ = serve(port, &id, &password, number, &seen);
                #[expect(clippy::disallowed_methods, reason = "a device has nothing else to wait for")]
                std::thread::sleep(PAUSE);
            }
        });
        Self { is_over }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn serve(port: u16, id: &str, password: &str, number: u8, is_over: &AtomicBool) -> io::Result<()> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    log_in(&mut socket, id, password)?;
    let (began, mut next) = (Instant::now(), Instant::now());
    let mut bytes = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next += INTERVAL;
            send_reading(&mut socket, id, began.elapsed().as_secs_f64(), number)?;
        }
        answer(&mut socket, &mut bytes)?;
    }
    Ok(())
}

fn log_in(socket: &mut TcpStream, id: &str, password: &str) -> io::Result<()> {
    let mut connect = Connect::new(Version::V5, id);
    connect.user_name = Some(id);
    connect.password = Some(password.as_bytes());
    let mut bytes = Vec::new();
    Packet::Connect(Box::new(connect)).encode(Version::V5, &mut bytes);
    let calls = format!("devices/{id}/methods/+/+");
    let subscribe = Subscribe {
        packet_id: PacketId::MIN,
        subscription_id: None,
        filters: vec![(&calls, SubscriptionOptions::default())],
        user_properties: UserProperties::default(),
    };
    Packet::Subscribe(subscribe).encode(Version::V5, &mut bytes);
    socket.write_all(&bytes)
}

fn send_reading(socket: &mut TcpStream, id: &str, elapsed_s: f64, number: u8) -> io::Result<()> {
    let celsius = 40.0 + f64::from(number) + 5.0 * (elapsed_s / 30.0 + f64::from(number)).sin();
    let payload = format!(r#"{{"celsius": {celsius:.2}, "running": true}}"#);
    send(socket, &format!("devices/{id}/telemetry"), payload.as_bytes())
}

fn send(socket: &mut TcpStream, topic: &str, payload: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::new();
    Publish::new(topic, QoS::AtMostOnce, None, payload).encode(Version::V5, &mut bytes);
    socket.write_all(&bytes)
}

/// Answers the calls that have come.
fn answer(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut some = [0; 4096];
    match socket.read(&mut some) {
        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(len) => bytes.extend_from_slice(&some[..len]),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
        Err(error) => return Err(error),
    }
    loop {
        let taken = match Packet::read(bytes, Version::V5, 1 << 20) {
            Ok(Some((packet, len))) => {
                if let Packet::Publish(call) = packet {
                    let result = [br#"{"status": 200, "payload": "#.as_slice(), payload_of(&call), b"}"].concat();
                    send(socket, &format!("{}/result", call.topic), &result)?;
                }
                len
            }
            Ok(None) => return Ok(()),
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        bytes.drain(..taken);
    }
}

/// What it was called with, if that is JSON.
fn payload_of<'a>(call: &Publish<'a>) -> &'a [u8] {
    match serde_json::from_slice::<serde_json::Value>(call.payload) {
        Ok(_) => call.payload,
        Err(_) => b"null",
    }
}
