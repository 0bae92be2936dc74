//! One connection to the cloud, from CONNECT to its end.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use hub::{Fate, Lane, Parcel, Settled, TwinChange};
use mqtt::{Ack, Connect, Packet, PacketId, Publish, QoS, ReasonCode, UserPropertiesBuf, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::dial::Stream;
use super::load::{Load, Sent, settled};
use super::window::Window;
use super::{Link, Options, twins};
use crate::batch::{Encoder, EpochName, Place};
use crate::packets::Packets;
use crate::topics::{self, CallTopic, Devices, TwinTopic};

/// Seconds between signs of life; a line that is silent for twice as long is broken.
const KEEP_ALIVE_S: u16 = 10;
/// Bytes of a packet that the cloud may send.
const PACKET_BYTES_MAX: usize = 1 << 20;
/// Messages of a batch, at most.
const BATCH_MESSAGES_MAX: usize = 4_096;
/// Bytes of a packet with one message beside that message as the outbox has it, at most.
const OVERHEAD_BYTES_MAX: usize = 1_024;
/// What is known and waits to be said, at most; whoever has more waits with it.
const SAYINGS_MAX: usize = 256;
/// Bytes that wait for the socket beyond which only messages are added, by their own measure.
const OUT_BYTES_MAX: usize = 64 << 10;
/// The pause after the cloud had no room.
const FULL_PAUSE: Duration = Duration::from_millis(500);

/// Why a connection is no more.
pub(super) enum Ended {
    /// The hub is stopping.
    HubStopped,
    /// In words.
    Broken(String),
}

/// How the other end wants to be spoken to.
enum Dialect {
    /// A cloud of Selvedge: batches.
    Selvedge(Box<Encoder>),
    /// Any other broker: each message by itself, as it is.
    Plain,
}

pub(super) struct Session {
    reader: ReadHalf<Stream>,
    writer: WriteHalf<Stream>,
    packets: Packets,
    dialect: Dialect,
    window: Window,
    /// Packets that the other end lets be on the way.
    packets_max: usize,
    /// Bytes of a packet that it takes.
    packet_bytes_max: usize,
    next_packet_id: u16,
    /// Bytes that wait for the socket, of which some are written.
    out: Vec<u8>,
    written: usize,
    /// Nothing new goes before.
    paused_until: Option<Instant>,
    last_heard: Instant,
    is_pinged: bool,
    /// Messages that are longer than any packet that the other end takes.
    refused: Vec<Settled>,
    /// Nothing new can be told of in this connection.
    is_spent: bool,
}

/// Something that is to be said once it is known.
pub(super) enum Say {
    /// The result of the call with this Correlation Data.
    Result { correlation_data: Vec<u8>, result: Vec<u8> },
    /// A twin as it is here.
    Twin {
        tenant: String,
        device: String,
        twin: Vec<u8>,
    },
    /// Which devices there are.
    Devices(Devices),
}

impl Session {
    /// Logs in.
    pub(super) async fn begin(
        stream: Stream,
        options: &Options,
        instance: &str,
        timeout: Duration,
    ) -> Result<Self, String> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut packets = Packets::new(PACKET_BYTES_MAX);
        let log_in = async {
            let bytes = connect_packet(options, instance);
            writer.write_all(&bytes).await.map_err(|error| error.to_string())?;
            writer.flush().await.map_err(|error| error.to_string())?;
            answer_to_connect(&mut reader, &mut packets).await
        };
        let answer = tokio::time::timeout(timeout, log_in).await;
        let told = answer.map_err(|_| "the cloud accepts the connection and does not answer".to_owned())??;
        let dialect = if told.speaks_selvedge {
            Dialect::Selvedge(Box::default())
        } else {
            Dialect::Plain
        };
        Ok(Self {
            reader,
            writer,
            packets,
            dialect,
            window: Window::new(),
            packets_max: told.receive_maximum,
            packet_bytes_max: told.packet_bytes_max,
            next_packet_id: 0,
            out: Vec::new(),
            written: 0,
            paused_until: None,
            last_heard: Instant::now(),
            is_pinged: false,
            refused: Vec::new(),
            is_spent: false,
        })
    }

    /// Carries messages and calls until the connection ends.
    pub(super) async fn serve(mut self, link: &mut Link) -> Ended {
        let (say, mut sayings) = mpsc::channel(SAYINGS_MAX);
        let speaks_selvedge = matches!(self.dialect, Dialect::Selvedge(_));
        if speaks_selvedge {
            tokio::spawn(twins::tell_all(Arc::clone(&link.hub), say.clone()));
        }
        let mut beats = tokio::time::interval(Duration::from_secs(KEEP_ALIVE_S.into()) / 2);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Err(reason) = self.take_packets(link, &say).await {
                return Ended::Broken(reason);
            }
            self.fill(&mut link.load);
            if !self.refused.is_empty() {
                link.settler.settle(self.refused.drain(..)).await;
            }
            if self.is_spent && link.load.packets_on_the_way() == 0 {
                return Ended::Broken(
                    "as many queues were told of as a connection may; another one follows".to_owned(),
                );
            }
            let is_writing = self.written < self.out.len();
            tokio::select! {
                biased;
                written = self.writer.write(&self.out[self.written..]), if is_writing => match written {
                    Ok(bytes) => self.wrote(bytes),
                    Err(error) => return Ended::Broken(error.to_string()),
                },
                read = self.packets.read_from(&mut self.reader) => match read {
                    Ok(()) => self.heard(),
                    Err(error) => return Ended::Broken(error.to_string()),
                },
                messages = link.outbox.next() => match messages {
                    Some(messages) => messages.into_iter().for_each(|message| link.load.push(message)),
                    None => return Ended::HubStopped,
                },
                Some(saying) = sayings.recv(), if self.out.len() < OUT_BYTES_MAX => self.say(&saying),
                Some(change) = next_change(&mut link.twin_changes) => if speaks_selvedge {
                    let (tenant, device) = (change.tenant.to_string(), change.device.into_string());
                    tokio::spawn(twins::tell(Arc::clone(&link.hub), tenant, device, say.clone()));
                },
                _ = beats.tick() => {
                    link.status.saw_line(self.window.rate_bytes_per_s(), self.window.round_trip());
                    if let Err(reason) = self.beat() {
                        return Ended::Broken(reason);
                    }
                }
                () = until(self.paused_until) => self.paused_until = None,
                () = link.redial.notified() => return Ended::Broken("there is another way to the cloud now".to_owned()),
            }
        }
    }

    fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    fn heard(&mut self) {
        self.last_heard = Instant::now();
        self.is_pinged = false;
    }

    /// Looks for signs of life, and asks for one.
    fn beat(&mut self) -> Result<(), String> {
        let silent = self.last_heard.elapsed();
        if silent > 2 * Duration::from_secs(KEEP_ALIVE_S.into()) {
            return Err(format!("nothing was heard for {} s", silent.as_secs()));
        }
        if !self.is_pinged {
            self.is_pinged = true;
            Packet::PingReq.encode(Version::V5, &mut self.out);
        }
        Ok(())
    }

    /// Sends what may be on the way.
    fn fill(&mut self, load: &mut Load) {
        if self.paused_until.is_some() || self.is_spent {
            return;
        }
        while load.on_the_way_bytes() < self.window.bytes() && load.packets_on_the_way() < self.packets_max {
            let Some(lane) = load.next_lane() else { return };
            let too_long = |next: &hub::Outgoing| next.body.len() + OVERHEAD_BYTES_MAX > self.packet_bytes_max;
            if load.front(lane).is_some_and(too_long) {
                self.refused
                    .extend(load.pop(lane).map(|message| settled(&message, Fate::Refused)));
            } else if !self.send_packet(load, lane) {
                self.is_spent = true;
                return;
            }
        }
    }

    /// Sends a packet with the next messages of a lane; false if nothing new can be told of in this connection.
    fn send_packet(&mut self, load: &mut Load, lane: Lane) -> bool {
        let packet_id = self.free_packet_id(load);
        let before = self.out.len();
        let messages = match &mut self.dialect {
            Dialect::Selvedge(encoder) => {
                encoder.see_line(self.window.rate_bytes_per_s());
                let limit_bytes = self.window.batch_bytes().min(self.packet_bytes_max / 2);
                let messages = put_batch(encoder, load, lane, limit_bytes);
                if messages.is_empty() {
                    return false;
                }
                let batch = encoder.finish();
                Publish::new(topics::BATCH, QoS::AtLeastOnce, Some(packet_id), &batch)
                    .encode(Version::V5, &mut self.out);
                messages
            }
            Dialect::Plain => put_one(load, lane, packet_id, &mut self.out),
        };
        let sent = Sent {
            messages,
            bytes: self.out.len() - before,
            at: Instant::now(),
        };
        load.sent(packet_id.get(), lane, sent);
        true
    }

    fn free_packet_id(&mut self, load: &Load) -> PacketId {
        loop {
            self.next_packet_id = self.next_packet_id.wrapping_add(1);
            if let Some(packet_id) = NonZeroU16::new(self.next_packet_id)
                && !load.is_on_the_way(self.next_packet_id)
            {
                return packet_id;
            }
        }
    }

    /// Acts on what came.
    async fn take_packets(&mut self, link: &mut Link, say: &mpsc::Sender<Say>) -> Result<(), String> {
        let mut done: Vec<Settled> = Vec::new();
        while let Some(packet) = self.packets.next().map_err(|error| error.to_string())? {
            match packet {
                Packet::PubAck(ack) => {
                    let is_full = ack.reason == ReasonCode::QuotaExceeded;
                    let refused = Refused::by(&ack);
                    let Some(sent) = link.load.acknowledged(ack.packet_id.get()) else {
                        continue;
                    };
                    let is_busy = link.load.has_next();
                    let now = Instant::now();
                    self.window
                        .acknowledged(now, sent.bytes, now.duration_since(sent.at), is_busy);
                    if is_full {
                        self.paused_until = Some(now + FULL_PAUSE);
                    }
                    done.extend(fates(&sent, is_full, &refused));
                }
                Packet::Publish(publish) => act(link, &publish, say),
                Packet::PingResp | Packet::PubRec(_) | Packet::PubComp(_) => {}
                Packet::Disconnect(disconnect) => {
                    let why = disconnect.reason_string.unwrap_or_default();
                    return Err(format!("the cloud ended the connection: {:?} {why}", disconnect.reason));
                }
                other => {
                    return Err(format!(
                        "the cloud sent {:?}, which it may not",
                        std::mem::discriminant(&other)
                    ));
                }
            }
        }
        if !done.is_empty() {
            link.settler.settle(done).await;
        }
        Ok(())
    }

    fn say(&mut self, saying: &Say) {
        let plain = |topic: &str, payload: &[u8], out: &mut Vec<u8>| {
            Publish::new(topic, QoS::AtMostOnce, None, payload).encode(Version::V5, out);
        };
        match saying {
            Say::Result {
                correlation_data,
                result,
            } => {
                let mut publish = Publish::new(topics::RESULT, QoS::AtMostOnce, None, result);
                publish.properties.correlation_data = Some(correlation_data);
                publish.encode(Version::V5, &mut self.out);
            }
            Say::Twin { tenant, device, twin } => {
                let topic = TwinTopic { tenant, device }.to_string();
                plain(&topic, twin, &mut self.out);
            }
            Say::Devices(devices) => {
                let devices = serde_json::to_vec(devices).expect("names and numbers are JSON");
                plain(topics::DEVICES, &devices, &mut self.out);
            }
        }
    }
}

/// The next twin that is changed here; never, once the hub has ended or where nobody is told.
async fn next_change(changes: &mut Option<mpsc::Receiver<TwinChange>>) -> Option<TwinChange> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Puts messages of a lane into a batch, in their order; those that it takes.
fn put_batch(encoder: &mut Encoder, load: &mut Load, lane: Lane, limit_bytes: usize) -> Vec<hub::Outgoing> {
    let mut messages = Vec::new();
    while messages.len() < BATCH_MESSAGES_MAX && (messages.is_empty() || encoder.len() < limit_bytes) {
        let Some(next) = load.front(lane) else { break };
        let fits = encoder.len() + next.body.len() <= limit_bytes;
        if !messages.is_empty() && !fits || !encoder.has_room_for(next.ticket.epoch, next.body.len()) {
            break;
        }
        let message = load.pop(lane).expect("looked at just now");
        let name = EpochName {
            tenant: Arc::clone(&message.tenant),
            route: Arc::clone(&message.route),
            epoch: message.ticket.epoch,
        };
        if let Ok(parcel) = Parcel::decode(&message.body) {
            let place = Place {
                sequence: message.ticket.sequence,
                after: message.after,
                floor: message.floor,
            };
            encoder.put(&name, place, &parcel);
        }
        messages.push(message);
    }
    messages
}

/// Sends one message as it is, with where it had its place.
fn put_one(load: &mut Load, lane: Lane, packet_id: PacketId, out: &mut Vec<u8>) -> Vec<hub::Outgoing> {
    let message = load.pop(lane).expect("there is one in this lane");
    if let Ok(parcel) = Parcel::decode(&message.body) {
        let mut properties = UserPropertiesBuf::new();
        for (name, value) in parcel.publish.properties.user_properties.iter() {
            properties.push(name, value);
        }
        properties.push("selvedge-epoch", &message.ticket.epoch.to_string());
        properties.push("selvedge-sequence", &message.ticket.sequence.to_string());
        properties.push("selvedge-received-ms", &parcel.received_ms.to_string());
        let mut publish = parcel.publish.clone();
        publish.qos = QoS::AtLeastOnce;
        publish.packet_id = Some(packet_id);
        publish.retain = false;
        publish.properties.user_properties = properties.as_properties();
        publish.encode(Version::V5, out);
    }
    vec![message]
}

/// What of a packet the other end will never take.
enum Refused {
    All,
    /// Sections of a batch, by their numbers in it.
    Sections(Vec<usize>),
}

impl Refused {
    fn by(ack: &Ack<'_>) -> Self {
        if ack.reason.is_error() {
            return Refused::All;
        }
        let numbers = ack.user_properties.get(topics::REFUSED).unwrap_or_default();
        Refused::Sections(numbers.split(',').filter_map(|number| number.parse().ok()).collect())
    }

    fn has(&self, section: usize) -> bool {
        match self {
            Refused::All => true,
            Refused::Sections(sections) => sections.contains(&section),
        }
    }
}

/// What became of the messages of a packet. A section is a row of messages of one epoch.
fn fates<'a>(sent: &'a Sent, is_full: bool, refused: &'a Refused) -> impl Iterator<Item = Settled> + 'a {
    let mut section = 0;
    let mut last = sent.messages.first().map(|message| message.ticket.epoch);
    sent.messages.iter().map(move |message| {
        if last != Some(message.ticket.epoch) {
            section += 1;
            last = Some(message.ticket.epoch);
        }
        let fate = match (is_full, refused.has(section)) {
            (true, _) => Fate::Returned,
            (false, true) => Fate::Refused,
            (false, false) => Fate::Delivered,
        };
        settled(message, fate)
    })
}

/// Does what the cloud asks, in a task of its own.
fn act(link: &Link, publish: &Publish<'_>, say: &mpsc::Sender<Say>) {
    if let Some(TwinTopic { tenant, device }) = TwinTopic::parse(publish.topic) {
        let (tenant, device) = (tenant.to_owned(), device.to_owned());
        let theirs = publish.payload.to_vec();
        tokio::spawn(twins::take(Arc::clone(&link.hub), tenant, device, theirs, say.clone()));
    } else {
        start_call(link, publish, say);
    }
}

/// Calls a method of a device of this edge.
fn start_call(link: &Link, publish: &Publish<'_>, say: &mpsc::Sender<Say>) {
    let (Some(call), Some(correlation_data)) = (CallTopic::parse(publish.topic), publish.properties.correlation_data)
    else {
        return;
    };
    let (hub, say) = (Arc::clone(&link.hub), say.clone());
    let (tenant, device, method) = (call.tenant.to_owned(), call.device.to_owned(), call.method.to_owned());
    let timeout = Duration::from_millis(call.timeout_ms);
    let (payload, correlation_data) = (publish.payload.to_vec(), correlation_data.to_vec());
    tokio::spawn(async move {
        if let Some(result) = hub.call(&tenant, &device, &method, payload, timeout).await {
            // The connection may be no more; then the cloud answers in place of the edge.
            let said = Say::Result {
                correlation_data,
                result,
            };
            let _ = say.send(said).await;
        }
    });
}

/// What the other end says of itself.
struct Told {
    speaks_selvedge: bool,
    receive_maximum: usize,
    packet_bytes_max: usize,
}

fn connect_packet(options: &Options, instance: &str) -> Vec<u8> {
    let mut properties = UserPropertiesBuf::new();
    properties.push(topics::DIALECT.0, topics::DIALECT.1);
    properties.push(topics::INSTANCE, instance);
    let mut connect = Connect::new(Version::V5, &options.edge);
    connect.keep_alive_s = KEEP_ALIVE_S;
    connect.maximum_packet_size = Some(PACKET_BYTES_MAX as u32);
    connect.user_name = options.login.as_ref().map(|login| &*login.user_name);
    connect.password = options.login.as_ref().map(|login| &*login.password);
    connect.user_properties = properties.as_properties();
    let mut bytes = Vec::new();
    Packet::Connect(Box::new(connect)).encode(Version::V5, &mut bytes);
    bytes
}

/// Why the cloud refused the edge. Who has no right credential is told no more, so what it may be is said here.
fn refusal(reason: ReasonCode, why: &str) -> String {
    let hint = match reason {
        ReasonCode::BadUserNameOrPassword | ReasonCode::NotAuthorized if why.is_empty() => {
            "its credential is wrong or was revoked, or the edge is disabled or removed there"
        }
        _ => why,
    };
    format!("the cloud refused the edge: {reason:?} {hint}")
}

async fn answer_to_connect(reader: &mut ReadHalf<Stream>, packets: &mut Packets) -> Result<Told, String> {
    loop {
        match packets.next().map_err(|error| error.to_string())? {
            Some(Packet::ConnAck(answer)) if answer.reason == ReasonCode::Success => {
                let (name, version) = topics::DIALECT;
                return Ok(Told {
                    speaks_selvedge: answer.user_properties.get(name) == Some(version),
                    receive_maximum: answer
                        .receive_maximum
                        .map_or(usize::from(u16::MAX), |most| most.get().into()),
                    packet_bytes_max: answer.maximum_packet_size.unwrap_or(u32::MAX) as usize,
                });
            }
            Some(Packet::ConnAck(answer)) => {
                return Err(refusal(answer.reason, answer.reason_string.unwrap_or_default()));
            }
            Some(_) => return Err("the cloud answered CONNECT with another packet than CONNACK".to_owned()),
            None => {}
        }
        let buffer = packets.buffer();
        match reader.read_buf(buffer).await {
            Ok(0) => return Err("the cloud closed the connection before it answered CONNECT".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
