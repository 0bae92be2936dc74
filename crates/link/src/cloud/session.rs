//! The connection of one edge, from the answer to its CONNECT to its end.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hub::{Arrived, Arriving, EdgeCall, EdgeConnection, Hub};
use mqtt::{Ack, ConnAck, Disconnect, Packet, PacketId, Publish, QoS, ReasonCode, UserPropertiesBuf, Version};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::registry::{Connected, Down};
use super::{Correspondent, failure};
use crate::batch::{Decoder, Section};
use crate::devices::{Common, Devices, Told};
use crate::packets::Packets;
use crate::talk::{self, Line};
use crate::topics::{self, CallTopic};

/// Bytes of a packet that an edge may send.
const PACKET_BYTES_MAX: u32 = 2 << 20;
/// Batches of an edge that may wait for the log.
const BATCHES_MAX: u16 = 256;
/// Calls that wait for an edge's answer, at most.
const CALLS_MAX: usize = 10_000;
/// What of devices waits to be told to the edge, at most; whoever has more waits with it.
const TELLING_MAX: usize = 256;
/// What is done for devices at once, at most; the edge is not read beyond.
const TASKS_MAX: usize = 1_024;
/// How often credentials and deadlines are looked at.
const BEAT: Duration = Duration::from_secs(1);

pub(super) struct Session {
    connection: EdgeConnection,
    hub: Arc<Hub>,
    devices: Arc<Devices>,
    /// What is done for devices.
    tasks: JoinSet<()>,
    edge: Arc<str>,
    /// Names of the tenants that it may speak for.
    tenants: Vec<String>,
    packets: Packets,
    decoder: Decoder,
    /// Batches that wait for the log.
    waiting: JoinSet<(PacketId, Verdict)>,
    /// Calls that wait for the edge's answer, by what comes back with it.
    calls: HashMap<u64, (Instant, Box<EdgeCall>)>,
    next_call: u64,
    out: Vec<u8>,
    keep_alive: Duration,
    last_heard: Instant,
    /// The talk about manifests.
    manifests: Line,
}

/// What became of a batch, by the numbers of its sections.
#[derive(Debug, Default)]
struct Verdict {
    /// There is no room for them now.
    full: Vec<usize>,
    /// They will never be taken.
    refused: Vec<usize>,
}

impl Session {
    /// Serves an edge until its connection ends.
    pub(super) async fn serve(
        connection: EdgeConnection,
        common: Common,
        connected: &Connected,
        manifests: &dyn Correspondent,
    ) {
        let (tell, mut told) = mpsc::channel(TELLING_MAX);
        let name = connection.name();
        let (instance, keep_alive_s) = {
            let connect = connection.connect();
            let instance = connect.user_properties.get(topics::INSTANCE).unwrap_or_default();
            (instance.to_owned(), connect.keep_alive_s)
        };
        let tenants = connection.tenants();
        let (talk, line) = talk::channel();
        let mut session = Self {
            hub: Arc::clone(&common.hub),
            devices: Devices::in_cloud(common, tell, Arc::clone(&name), tenants.clone()),
            tasks: JoinSet::new(),
            edge: Arc::clone(&name),
            tenants,
            connection,
            packets: Packets::new(PACKET_BYTES_MAX as usize),
            decoder: Decoder::default(),
            waiting: JoinSet::new(),
            calls: HashMap::new(),
            next_call: 0,
            out: Vec::new(),
            keep_alive: Duration::from_secs(keep_alive_s.into()).mul_f64(1.5),
            last_heard: Instant::now(),
            manifests: line,
        };
        let mut down = match connected.enter(Arc::clone(&name), &instance, session.connection.address()) {
            Ok(down) => down,
            Err(taken) => return session.refuse(taken.by).await,
        };
        tracing::info!(edge = %session.edge, address = ?session.connection.address(), "an edge is connected");
        manifests.begin(&name, &session.tenants, talk);
        let reason = session.run(&mut down, &mut told).await;
        connected.leave(&name, &down);
        tracing::info!(edge = %session.edge, %reason, "an edge is not connected any more");
        session.give_up_calls(&mut down).await;
    }

    /// Another edge has its name.
    async fn refuse(mut self, by: Option<std::net::SocketAddr>) {
        let from = by.map_or_else(|| "a Unix socket".to_owned(), |by| by.to_string());
        let why = format!(
            "an edge \"{}\" is connected already, from {from}; if this one is a copy of it, join it under a name of its own",
            self.edge
        );
        tracing::warn!(edge = %self.edge, address = ?self.connection.address(), %from, "two edges have one name");
        let mut answer = ConnAck::new(ReasonCode::ClientIdentifierNotValid);
        answer.reason_string = Some(&why);
        let mut bytes = Vec::new();
        Packet::ConnAck(Box::new(answer)).encode(Version::V5, &mut bytes);
        let _ = self.connection.write(&bytes).await;
    }

    /// Why the connection ended, in words.
    async fn run(&mut self, down: &mut mpsc::Receiver<Down>, told: &mut mpsc::Receiver<Told>) -> String {
        self.welcome();
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Err(reason) = self.take_packets().await {
                return reason;
            }
            if !self.out.is_empty() {
                if let Err(error) = self.connection.write(&self.out).await {
                    return error.to_string();
                }
                self.out.clear();
            }
            let takes_more = self.waiting.len() < usize::from(BATCHES_MAX) && self.tasks.len() < TASKS_MAX;
            tokio::select! {
                biased;
                down = down.recv() => match down {
                    Some(Down::Call(call)) => self.ask(call).await,
                    Some(Down::Twin(change)) => {
                        let devices = Arc::clone(&self.devices);
                        self.tasks.spawn(async move { devices.tell_twin(&change.tenant, &change.device).await });
                    }
                    Some(Down::Device(name)) => {
                        let devices = Arc::clone(&self.devices);
                        self.tasks.spawn(async move { devices.tell_changed(name.tenant(), name.id()).await });
                    }
                    Some(Down::Compare) => {
                        let devices = Arc::clone(&self.devices);
                        self.tasks.spawn(async move { devices.compare().await });
                    }
                    None => return self.end(ReasonCode::SessionTakenOver, "it connected again").await,
                },
                Some(told) = told.recv() => self.tell(&told),
                saying = self.manifests.next() => {
                    Publish::new(topics::MANIFESTS, QoS::AtMostOnce, None, &saying).encode(Version::V5, &mut self.out);
                }
                Some(_) = self.tasks.join_next() => {}
                Some(done) = self.waiting.join_next() => self.acknowledge(done.expect("no batch panics")),
                read = self.connection.read(self.packets.buffer()), if takes_more => match read {
                    Ok(()) => self.last_heard = Instant::now(),
                    Err(error) => return error.to_string(),
                },
                _ = beats.tick() => {
                    if self.connection.is_revoked() {
                        return self.end(ReasonCode::NotAuthorized, "its credential was revoked").await;
                    }
                    if !self.keep_alive.is_zero() && self.last_heard.elapsed() > self.keep_alive {
                        return self.end(ReasonCode::KeepAliveTimeout, "nothing was heard of it").await;
                    }
                    self.give_up_late_calls();
                }
            }
        }
    }

    fn welcome(&mut self) {
        let mut properties = UserPropertiesBuf::new();
        properties.push(topics::DIALECT.0, topics::DIALECT.1);
        let mut answer = ConnAck::new(ReasonCode::Success);
        answer.receive_maximum = NonZeroU16::new(BATCHES_MAX);
        answer.maximum_packet_size = Some(PACKET_BYTES_MAX);
        answer.user_properties = properties.as_properties();
        Packet::ConnAck(Box::new(answer)).encode(Version::V5, &mut self.out);
    }

    async fn end(&mut self, reason: ReasonCode, why: &str) -> String {
        let mut bytes = Vec::new();
        let mut disconnect = Disconnect::new(reason);
        disconnect.reason_string = Some(why);
        Packet::Disconnect(disconnect).encode(Version::V5, &mut bytes);
        let _ = self.connection.write(&bytes).await;
        why.to_owned()
    }

    async fn take_packets(&mut self) -> Result<(), String> {
        let mut results = Vec::new();
        while let Some(packet) = self.packets.next().map_err(|error| error.to_string())? {
            match packet {
                Packet::Publish(publish) if publish.topic == topics::BATCH => {
                    let packet_id = publish
                        .packet_id
                        .ok_or("a batch of QoS 0, which nobody could acknowledge")?;
                    let sections = self
                        .decoder
                        .read(&self.edge, publish.payload)
                        .map_err(|error| error.to_string())?;
                    let taking = take(Arc::clone(&self.hub), &self.edge, sections, &self.tenants);
                    self.waiting.spawn(async move { (packet_id, taking.await) });
                }
                Packet::Publish(publish) if publish.topic == topics::RESULT => {
                    let token = publish
                        .properties
                        .correlation_data
                        .and_then(|data| data.try_into().ok());
                    let call = token.and_then(|token| self.calls.remove(&u64::from_le_bytes(token)));
                    results.extend(call.map(|(_, call)| (call, publish.payload.to_vec())));
                }
                Packet::Publish(publish) if Devices::is_of(publish.topic) => {
                    let (topic, payload) = (publish.topic.to_owned(), publish.payload.to_vec());
                    self.tasks.spawn(Arc::clone(&self.devices).take(topic, payload));
                }
                Packet::Publish(publish) if publish.topic == topics::MANIFESTS => {
                    self.manifests.hear(publish.payload)?;
                }
                Packet::PingReq => Packet::PingResp.encode(Version::V5, &mut self.out),
                Packet::Disconnect(_) => return Err("it said goodbye".to_owned()),
                other => {
                    return Err(format!(
                        "it sent {:?}, which no edge does",
                        std::mem::discriminant(&other)
                    ));
                }
            }
        }
        for (call, result) in results {
            self.hub.finish_call(*call, result).await;
        }
        Ok(())
    }

    fn acknowledge(&mut self, (packet_id, verdict): (PacketId, Verdict)) {
        let mut properties = UserPropertiesBuf::new();
        for (name, sections) in [(topics::FULL, &verdict.full), (topics::REFUSED, &verdict.refused)] {
            if !sections.is_empty() {
                let numbers: Vec<String> = sections.iter().map(usize::to_string).collect();
                properties.push(name, &numbers.join(","));
            }
        }
        let reason = match verdict.full.is_empty() {
            true => ReasonCode::Success,
            false => ReasonCode::QuotaExceeded,
        };
        let mut ack = Ack::new(packet_id, reason);
        ack.user_properties = properties.as_properties();
        Packet::PubAck(ack).encode(Version::V5, &mut self.out);
    }

    fn tell(&mut self, Told { topic, payload }: &Told) {
        Publish::new(topic, QoS::AtMostOnce, None, payload).encode(Version::V5, &mut self.out);
    }

    /// Asks a device behind the edge.
    async fn ask(&mut self, call: Box<EdgeCall>) {
        if self.calls.len() >= CALLS_MAX {
            let message = format!("{CALLS_MAX} calls wait for the edge {}, which is the limit", self.edge);
            return self.hub.finish_call(*call, failure(429, &message)).await;
        }
        self.next_call += 1;
        let token = self.next_call.to_le_bytes();
        let topic = CallTopic {
            tenant: &call.tenant,
            device: &call.device,
            method: &call.name,
            timeout_ms: call.timeout_ms,
        };
        let topic = topic.to_string();
        let mut publish = Publish::new(&topic, QoS::AtMostOnce, None, &call.payload);
        publish.properties.correlation_data = Some(&token);
        publish.encode(Version::V5, &mut self.out);
        let until = Instant::now() + Duration::from_millis(call.timeout_ms);
        self.calls.insert(self.next_call, (until, call));
    }

    /// The hub has answered them itself.
    fn give_up_late_calls(&mut self) {
        let now = Instant::now();
        self.calls.retain(|_, (until, _)| *until > now);
    }

    /// The calls that the edge will not answer any more.
    async fn give_up_calls(self, down: &mut mpsc::Receiver<Down>) {
        down.close();
        let asked = self.calls.into_values().map(|(_, call)| call);
        let unasked = std::iter::from_fn(|| down.try_recv().ok()).filter_map(|down| match down {
            Down::Call(call) => Some(call),
            Down::Twin(_) | Down::Device(_) | Down::Compare => None,
        });
        for call in asked.chain(unasked) {
            let message = format!("the connection of the edge {} broke before the answer came", self.edge);
            self.hub.finish_call(*call, failure(504, &message)).await;
        }
    }
}

/// Has the hub take the sections of a batch, each for its tenant; done once all that was taken is durable.
fn take(
    hub: Arc<Hub>,
    edge: &Arc<str>,
    sections: Vec<Section>,
    tenants: &[String],
) -> Pin<Box<dyn Future<Output = Verdict> + Send>> {
    let may = |section: &Section| tenants.iter().any(|tenant| **tenant == *section.name.tenant);
    let mut verdict = Verdict::default();
    let mut arriving = Vec::new();
    for (number, section) in sections.into_iter().enumerate() {
        if !may(&section) {
            tracing::warn!(%edge, tenant = %section.name.tenant, "an edge speaks for a tenant that it may not speak for");
            verdict.refused.push(number);
            continue;
        }
        arriving.push((number, section, Arc::clone(edge)));
    }
    Box::pin(async move {
        // All at once: they are asked for in this order, and wait for the log together.
        let taking = arriving.into_iter().map(|(number, section, edge)| {
            let Section { name, floor, parcels } = section;
            let arriving = Arriving {
                edge,
                route: name.route,
                epoch: name.epoch,
                floor,
                parcels,
            };
            let hub = &hub;
            async move { (number, hub.arrive(&name.tenant, arriving).await) }
        });
        for (number, arrived) in join_all(taking).await {
            if !matches!(arrived, Some(Arrived { refused: 0, .. })) {
                verdict.full.push(number);
            }
        }
        verdict
    })
}
