//! The connection of one edge, from the answer to its CONNECT to its end.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use hub::{EdgeCall, EdgeConnection, Hub, Place, call_failure};
use mqtt::{Ack, ConnAck, Disconnect, Packet, PacketId, Publish, QoS, ReasonCode, UserPropertiesBuf, Version};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, MissedTickBehavior, timeout};

use super::Correspondent;
use super::batches::{BATCHES_MAX, Batches, Taken};
use super::claim::{Claim, refuse};
use super::registry::{Connected, Down, Entered, LastHeard};
use crate::batch::Decoder;
use crate::devices::{Common, Devices, Told};
use crate::packets::Packets;
use crate::talk::{self, Line};
use crate::topics::{self, CallTopic};

/// Bytes of a packet that an edge may send.
const PACKET_BYTES_MAX: u32 = 2 << 20;
/// Calls that wait for an edge's answer, at most.
const CALLS_MAX: usize = 10_000;
/// What of devices waits to be told to the edge, at most; whoever has more waits with it.
const TELLING_MAX: usize = 256;
/// Packets about devices that may be on the way to the edge: a call waits behind no more.
const TOLD_ON_THE_WAY_MAX: usize = 4;
/// What is done for devices at once, at most. What comes beyond is forgotten, and all is compared later.
const TASKS_MAX: usize = 1_024;
/// Bytes for which an edge has to have room within the time in which it has to be heard from.
const WRITE_BYTES: usize = 4 << 10;
/// Seconds between two signs of life of an edge, at most. One that asks for a longer Keep Alive, or none, is told this
/// one (MQTT-3.2.2-21).
const KEEP_ALIVE_MAX_S: u16 = 60;
/// Time for batches to become durable where the cloud stops.
const LAST_BATCHES: Duration = Duration::from_secs(1);
/// How often credentials and deadlines are looked at.
const BEAT: Duration = Duration::from_secs(1);

pub(super) struct Session {
    connection: EdgeConnection,
    hub: Arc<Hub>,
    connected: Arc<Connected>,
    devices: Arc<Devices>,
    /// What is done for devices.
    tasks: JoinSet<()>,
    /// There was no time for something of that.
    has_to_compare: bool,
    edge: Arc<str>,
    /// Names of the tenants that it may speak for.
    tenants: Vec<String>,
    packets: Packets,
    decoder: Decoder,
    /// Those that wait for the log.
    batches: Batches,
    /// One came in this turn.
    has_taken_batch: bool,
    /// Calls that wait for the edge's answer, by what comes back with it.
    calls: HashMap<u64, (Instant, Box<EdgeCall>)>,
    next_call: u64,
    /// When the last of them was sent.
    called_at: Instant,
    /// Packets about devices that the edge has not acknowledged.
    told_on_the_way: usize,
    next_packet_id: PacketId,
    out: Vec<u8>,
    keep_alive_s: u16,
    last_heard: Arc<LastHeard>,
    /// The talk about manifests.
    manifests: Line,
}

impl Session {
    /// Serves an edge until its connection ends: on the loop of the shard of its own tenant, which is that of most of
    /// its messages.
    pub(super) async fn serve(
        connection: EdgeConnection,
        common: Common,
        connected: &Arc<Connected>,
        manifests: &dyn Correspondent,
    ) {
        let name = connection.name();
        let (instance, keep_alive_s) = {
            let connect = connection.connect();
            let instance = connect.user_properties.get(topics::INSTANCE).unwrap_or_default();
            (instance.to_owned(), connect.keep_alive_s)
        };
        let tenants = connection.tenants();
        let keep_alive_s = match keep_alive_s {
            0 => KEEP_ALIVE_MAX_S,
            asked_s => asked_s.min(KEEP_ALIVE_MAX_S),
        };
        let claim = Claim {
            name: Arc::clone(&name),
            instance,
            keep_alive: Duration::from_secs(keep_alive_s.into()),
        };
        let Entered {
            mut down,
            last_heard,
            is_stopping,
        } = match claim.enter(connected, &connection).await {
            Ok(entered) => entered,
            Err(by) => return refuse(connection, by).await,
        };
        let (talk, line) = talk::channel();
        manifests.begin(&name, &tenants, talk);
        let hub = Arc::clone(&common.hub);
        let tenant = Arc::clone(&connection.principal().tenant);
        let connected = Arc::clone(connected);
        let start = move |place: Place| async move {
            let (tell, mut told) = mpsc::channel(TELLING_MAX);
            let connection = match connection.move_to(&place) {
                Ok(connection) => connection,
                Err(error) => {
                    tracing::error!(edge = %name, %error, "an edge cannot be served");
                    return connected.leave(&name, &down);
                }
            };
            let mut session = Self {
                hub: Arc::clone(&common.hub),
                connected: Arc::clone(&connected),
                devices: Devices::in_cloud(common, tell, Arc::clone(&name), tenants.clone()),
                tasks: JoinSet::new(),
                has_to_compare: false,
                edge: Arc::clone(&name),
                tenants,
                connection,
                packets: Packets::new(PACKET_BYTES_MAX as usize),
                decoder: Decoder::default(),
                batches: Batches::default(),
                has_taken_batch: false,
                calls: HashMap::new(),
                next_call: 0,
                called_at: Instant::now(),
                told_on_the_way: 0,
                next_packet_id: NonZeroU16::MIN,
                out: Vec::new(),
                keep_alive_s,
                last_heard,
                manifests: line,
            };
            tracing::info!(edge = %session.edge, address = ?session.connection.address(), "an edge is connected");
            let reason = session.run(&mut down, &mut told, is_stopping, &place).await;
            connected.leave(&name, &down);
            tracing::info!(edge = %session.edge, %reason, "an edge is not connected any more");
            session.give_up_calls(&mut down).await;
        };
        // With the shard all ends.
        let _ = hub.run_on_shard(&tenant, start).await;
    }

    /// Why the connection ended, in words.
    async fn run(
        &mut self,
        down: &mut mpsc::Receiver<Down>,
        told: &mut mpsc::Receiver<Told>,
        mut is_stopping: watch::Receiver<bool>,
        place: &Place,
    ) -> String {
        self.welcome();
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            match std::mem::take(&mut self.has_taken_batch) {
                // What it asks of its tenants is done before the next one is looked at: the edge sees by its
                // acknowledgement how much the cloud keeps up with, and sends no more ahead of what is live.
                true => yield_now().await,
                false => place.give_way().await,
            }
            if let Err(reason) = self.take_packets().await {
                return reason;
            }
            if let Err(error) = self.flush().await {
                return error.to_string();
            }
            tokio::select! {
                () = stop(&mut is_stopping) => return self.say_goodbye().await,
                down = down.recv() => match down {
                    Some(Down::Call(call)) => self.ask(call).await,
                    Some(Down::Twin(change)) => {
                        let devices = Arc::clone(&self.devices);
                        self.start(async move { devices.tell_twin(&change.tenant, &change.device).await });
                    }
                    Some(Down::Device(name)) => {
                        let devices = Arc::clone(&self.devices);
                        self.start(async move { devices.tell_changed(name.tenant(), name.id()).await });
                    }
                    Some(Down::Life) => self.tell(&Told::life()),
                    Some(Down::Trust) => {
                        let devices = Arc::clone(&self.devices);
                        self.start(async move { devices.greet().await });
                    }
                    Some(Down::Compare) => {
                        self.has_to_compare = true;
                        self.compare();
                    }
                    None => return self.end(ReasonCode::SessionTakenOver, "it connected again").await,
                },
                Some(told) = told.recv(), if self.told_on_the_way < TOLD_ON_THE_WAY_MAX => self.tell(&told),
                payload = self.manifests.next(), if self.told_on_the_way < TOLD_ON_THE_WAY_MAX => {
                    let topic = topics::MANIFESTS.to_owned();
                    self.tell(&Told { topic, payload });
                }
                Some(_) = self.tasks.join_next() => {}
                Some(taken) = self.batches.next() => self.acknowledge(&taken),
                read = self.connection.read(self.packets.buffer()) => match read {
                    Ok(()) => self.last_heard.note(),
                    Err(error) => return error.to_string(),
                },
                _ = beats.tick() => {
                    if self.connection.is_revoked() {
                        return self.end(ReasonCode::NotAuthorized, "its credential was revoked").await;
                    }
                    if self.last_heard.at().elapsed() > self.silence_max() {
                        return self.end(ReasonCode::KeepAliveTimeout, "nothing was heard of it").await;
                    }
                    self.give_up_late_calls();
                    self.look_for_life();
                    self.compare();
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
        let asked_s = self.connection.connect().keep_alive_s;
        answer.server_keep_alive_s = (asked_s != self.keep_alive_s).then_some(self.keep_alive_s);
        answer.user_properties = properties.as_properties();
        Packet::ConnAck(Box::new(answer)).encode(Version::V5, &mut self.out);
    }

    /// An edge that is silent for longer is gone (MQTT-3.1.2-22), and one that takes nothing for as long.
    fn silence_max(&self) -> Duration {
        Duration::from_secs(self.keep_alive_s.into()).mul_f64(1.5)
    }

    /// Sends what there is to be said.
    async fn flush(&mut self) -> io::Result<()> {
        let patience = self.silence_max();
        for some in self.out.chunks(WRITE_BYTES) {
            let written = timeout(patience, self.connection.write(some)).await;
            written.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "it takes nothing any more"))??;
        }
        self.out.clear();
        Ok(())
    }

    async fn end(&mut self, reason: ReasonCode, why: &str) -> String {
        let mut disconnect = Disconnect::new(reason);
        disconnect.reason_string = Some(why);
        Packet::Disconnect(disconnect).encode(Version::V5, &mut self.out);
        // Whether the edge hears it or not.
        let _ = self.flush().await;
        why.to_owned()
    }

    /// The cloud stops: what the edge has sent is acknowledged as far as it is soon durable.
    async fn say_goodbye(&mut self) -> String {
        let last_batches = async {
            while let Some(taken) = self.batches.next().await {
                self.acknowledge(&taken);
            }
        };
        // What is not acknowledged is sent again.
        let _ = timeout(LAST_BATCHES, last_batches).await;
        self.end(ReasonCode::ServerShuttingDown, "the cloud stops").await
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
                    if self.batches.len() >= usize::from(BATCHES_MAX) {
                        let why = format!("more than {BATCHES_MAX} batches at once, which is its Receive Maximum");
                        return Err(self.end(ReasonCode::ReceiveMaximumExceeded, &why).await);
                    }
                    let refused = self.batches.take(
                        &self.hub,
                        &self.edge,
                        packet_id,
                        sections,
                        &self.tenants,
                        &self.connected,
                    );
                    let refused = refused.await;
                    refused.iter().for_each(|taken| self.acknowledge(taken));
                    self.has_taken_batch = true;
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
                    let taking = Arc::clone(&self.devices).take(topic, payload);
                    self.start(taking);
                }
                Packet::PubAck(_) => self.told_on_the_way = self.told_on_the_way.saturating_sub(1),
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

    fn acknowledge(&mut self, Taken { packet_id, verdict, .. }: &Taken) {
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
        let mut ack = Ack::new(*packet_id, reason);
        ack.user_properties = properties.as_properties();
        Packet::PubAck(ack).encode(Version::V5, &mut self.out);
    }

    /// Does something for devices, if there is time for it.
    fn start(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        if self.tasks.len() < TASKS_MAX {
            self.tasks.spawn(task);
        } else {
            self.has_to_compare = true;
        }
    }

    /// Makes up for what there was no time for.
    fn compare(&mut self) {
        if self.has_to_compare && self.tasks.len() < TASKS_MAX / 2 {
            self.has_to_compare = false;
            let devices = Arc::clone(&self.devices);
            self.start(async move { devices.compare().await });
        }
    }

    /// In QoS 1: what the edge has acknowledged is no more in the way of calls, however thin its line is.
    fn tell(&mut self, Told { topic, payload }: &Told) {
        self.told_on_the_way += 1;
        self.next_packet_id = self.next_packet_id.checked_add(1).unwrap_or(NonZeroU16::MIN);
        let packet_id = Some(self.next_packet_id);
        Publish::new(topic, QoS::AtLeastOnce, packet_id, payload).encode(Version::V5, &mut self.out);
    }

    /// Asks a device behind the edge.
    async fn ask(&mut self, call: Box<EdgeCall>) {
        if self.calls.len() >= CALLS_MAX {
            let message = format!("{CALLS_MAX} calls wait for the edge {}, which is the limit", self.edge);
            return self.hub.finish_call(*call, call_failure(429, &message)).await;
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
        self.called_at = Instant::now();
    }

    /// While calls wait, an edge from which nothing came since is to show that it is there: whoever waits in vain is
    /// told whether it was the line or the device that was away.
    fn look_for_life(&mut self) {
        let was_heard = self.last_heard.at() > self.called_at.into_std();
        if !self.calls.is_empty() && !was_heard && self.told_on_the_way < TOLD_ON_THE_WAY_MAX {
            self.tell(&Told::life());
        }
    }

    /// The hub has answered them itself.
    fn give_up_late_calls(&mut self) {
        let now = Instant::now();
        self.calls.retain(|_, (until, _)| *until > now);
    }

    /// The calls that the edge will not answer any more.
    async fn give_up_calls(self, down: &mut mpsc::Receiver<Down>) {
        down.close();
        let edge = &self.edge;
        for (_, call) in self.calls.into_values() {
            let message = format!(
                "the connection of the edge {edge} broke before the answer came; whether {} got the call is not known",
                call.device
            );
            self.hub.finish_call(*call, call_failure(504, &message)).await;
        }
        while let Ok(down) = down.try_recv() {
            if let Down::Call(call) = down {
                let message = format!("the connection of the edge {edge} broke before the call was sent");
                self.hub.finish_call(*call, call_failure(504, &message)).await;
            }
        }
    }
}

/// Waits until the cloud stops.
async fn stop(is_stopping: &mut watch::Receiver<bool>) {
    // Its sender lives as long as the cloud.
    let _ = is_stopping.wait_for(|is_stopping| *is_stopping).await;
}
