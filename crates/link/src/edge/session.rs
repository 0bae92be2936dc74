//! One connection to the cloud, from CONNECT to its end.

use std::io;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hub::{Fate, Hub, Lane, Place, Settled, TwinChange};
use mqtt::{Ack, Packet, PacketId, Publish, QoS, ReasonCode, Version};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::Link;
use super::dial::Stream;
use super::greeting::Greeted;
use super::life::{BEAT, Beat, Life};
use super::load::{Load, Sent};
use super::packing::{put_batch, put_one};
use super::verdict::{Verdict, fates};
use super::window::{Acknowledged, Window};
use crate::batch::Encoder;
use crate::devices::{Devices, Told};
use crate::packets::Packets;
use crate::talk::{self, Line};
use crate::topics::{self, CallTopic};

/// Bytes of a packet that the cloud may send.
pub(super) const PACKET_BYTES_MAX: usize = 1 << 20;
/// Bytes of a packet with one message beside that message as the outbox has it, at most.
const OVERHEAD_BYTES_MAX: usize = 1_024;
/// Calls that wait for devices, at most. Of more the cloud hears nothing, and answers in their place in time.
const CALLS_MAX: usize = 10_000;
/// What is done for devices at once, at most; the cloud is not read beyond.
const TASKS_MAX: usize = 256;
/// One part of as many of the packets that may be on the way is left to what is live.
const PACKETS_RESERVE: usize = 8;
/// The round trip of a line that is kept busy by what is on the way alone.
const LONG_LINE: Duration = Duration::from_millis(50);
/// Bytes that wait for the socket beyond which only messages are added, by their own measure.
const OUT_BYTES_MAX: usize = 64 << 10;

/// Why a connection is no more.
pub(super) enum Ended {
    /// The hub is stopping.
    HubStopped,
    /// The cloud is stopping, which it said, in words.
    CloudStopped(String),
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
    /// Bytes of messages for each byte of the line that the last packets took: more than one where batches are made
    /// smaller.
    messages_per_line_byte: f64,
    /// When the line is free again, for all that is known.
    line_free_at: Instant,
    /// Packets that the other end lets be on the way.
    packets_max: usize,
    /// Bytes of a packet that it takes.
    packet_bytes_max: usize,
    next_packet_id: u16,
    /// Bytes that wait for the socket, of which some are written.
    out: Vec<u8>,
    written: usize,
    life: Life,
    /// Messages that are longer than any packet that the other end takes.
    refused: Vec<Settled>,
    /// Nothing new can be told of in this connection.
    is_spent: bool,
    /// What is done for devices.
    tasks: JoinSet<()>,
    /// Calls that devices have not answered.
    calls: FuturesUnordered<Call>,
    /// The talk about manifests; with any other broker nobody speaks.
    manifests: Option<Line>,
}

type Call = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What a device answered to the call with this Correlation Data, if the hub still runs.
struct Answer {
    correlation_data: Vec<u8>,
    result: Option<Vec<u8>>,
}

impl Session {
    /// Goes on with a connection on the loop of a shard.
    ///
    /// # Errors
    /// The loop cannot watch its socket.
    pub(super) fn new(greeted: Greeted, place: &Place) -> io::Result<Self> {
        let Greeted {
            mut stream,
            told,
            packets,
        } = greeted;
        stream.move_to(place)?;
        let (reader, writer) = tokio::io::split(stream);
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
            messages_per_line_byte: 1.0,
            line_free_at: Instant::now(),
            packets_max: told.receive_maximum,
            packet_bytes_max: told.packet_bytes_max,
            next_packet_id: 0,
            out: Vec::new(),
            written: 0,
            life: Life::new(Instant::now()),
            refused: Vec::new(),
            is_spent: false,
            tasks: JoinSet::new(),
            calls: FuturesUnordered::new(),
            manifests: None,
        })
    }

    /// Carries messages and calls until the connection ends.
    pub(super) async fn serve(mut self, link: &mut Link, place: &Place) -> Ended {
        let speaks_selvedge = matches!(self.dialect, Dialect::Selvedge(_));
        let (tell, mut told) = mpsc::channel(1);
        let devices = speaks_selvedge.then(|| Devices::at_edge(link.common.clone(), tell));
        if let Some(devices) = devices.clone() {
            self.tasks.spawn(devices.greet());
        }
        self.manifests = speaks_selvedge.then(|| {
            let (talk, line) = talk::channel();
            link.manifests.begin(talk);
            line
        });
        // Waits for the line as batches do, and goes before them.
        let mut telling: Option<Told> = None;
        let mut refreshes = link.hub.refreshes();
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            place.give_way().await;
            if let Err(ended) = self.take_packets(link, devices.as_ref()).await {
                return ended;
            }
            if self.out.is_empty() && Instant::now() >= self.window.refills_at(self.line_free_at) {
                telling.take().iter().for_each(|told| self.tell(told));
            }
            link.allow(self.window.bytes() as f64 * self.allowed_per_line_byte())
                .await;
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
            let refills_at = self.window.refills_at(self.line_free_at);
            let waits_for_line = (link.load.has_next() || telling.is_some()) && refills_at > Instant::now();
            tokio::select! {
                written = self.writer.write(&self.out[self.written..]), if is_writing => match written {
                    Ok(bytes) => self.wrote(bytes),
                    Err(error) => return Ended::Broken(error.to_string()),
                },
                Some(what) = told.recv(), if telling.is_none() => telling = Some(what),
                payload = next_saying(&mut self.manifests), if telling.is_none() => {
                    let topic = topics::MANIFESTS.to_owned();
                    telling = Some(Told { topic, payload });
                }
                Some(_) = self.tasks.join_next() => {}
                read = self.packets.read_from(&mut self.reader), if self.tasks.len() < TASKS_MAX => match read {
                    Ok(()) => self.life.heard(Instant::now()),
                    Err(error) => return Ended::Broken(error.to_string()),
                },
                messages = link.outbox.next() => match messages {
                    Some(messages) => link.take(messages).await,
                    None => return Ended::HubStopped,
                },
                Some(answer) = self.calls.next(), if self.out.len() < OUT_BYTES_MAX => self.answer(&answer),
                Some(change) = next_change(&mut link.twin_changes), if self.tasks.len() < TASKS_MAX => if let Some(devices) = devices.clone() {
                    self.tasks.spawn(async move { devices.tell_twin(&change.tenant, &change.device).await });
                },
                Ok(()) = refreshes.changed() => if let Some(devices) = devices.clone() {
                    self.tasks.spawn(devices.tell_changes());
                },
                () = tokio::time::sleep_until(refills_at), if waits_for_line => {}
                _ = beats.tick() => {
                    link.status.saw_line(self.window.rate_bytes_per_s(), self.window.round_trip());
                    if let Err(reason) = self.beat() {
                        return Ended::Broken(reason);
                    }
                }
                () = link.redial.notified() => return Ended::Broken("there is another way to the cloud now".to_owned()),
            }
        }
    }

    /// Bytes of messages that the hub may send for each byte of the window. What a long line carries smaller is as many
    /// messages more on the way; over a short one a few batches keep both ends busy, and live messages would wait
    /// behind more of them.
    fn allowed_per_line_byte(&self) -> f64 {
        let round_trip = self.window.round_trip().unwrap_or(LONG_LINE);
        let length = (round_trip.as_secs_f64() / LONG_LINE.as_secs_f64()).min(1.0);
        1.0 + (self.messages_per_line_byte - 1.0).max(0.0) * length
    }

    fn wrote(&mut self, bytes: usize) {
        self.life.wrote(Instant::now());
        self.written += bytes;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Looks for signs of life, and asks for one.
    fn beat(&mut self) -> Result<(), String> {
        match self.life.beat(Instant::now()) {
            Beat::Calm => {}
            Beat::Ping => Packet::PingReq.encode(Version::V5, &mut self.out),
            Beat::Broken(silent) => return Err(format!("nothing was heard for {} s", silent.as_secs())),
        }
        Ok(())
    }

    /// Sends what may be on the way.
    fn fill(&mut self, load: &mut Load) {
        // What waits for the socket is past all turns: no more than one packet at a time.
        while !self.is_spent
            && self.out.is_empty()
            && let Some(lane) = self.next_lane(load)
        {
            let too_long = |next: &hub::Outgoing| next.body.len() + OVERHEAD_BYTES_MAX > self.packet_bytes_max;
            if load.front(lane).is_some_and(too_long) {
                let message = load.pop(lane).expect("looked at just now");
                let refused = message.settled(Fate::Refused);
                self.refused.push(refused);
            } else if !self.send_packet(load, lane) {
                self.is_spent = true;
                return;
            }
        }
    }

    /// The lane of the packet that may go now.
    fn next_lane(&self, load: &Load) -> Option<Lane> {
        let (now, packets) = (Instant::now(), load.packets_on_the_way());
        let has_room = packets < self.packets_max - self.packets_max / PACKETS_RESERVE
            && self.window.has_room(now, load.on_the_way_bytes(), self.line_free_at);
        if has_room {
            return load.next_lane();
        }
        let has_reserve = packets < self.packets_max && self.window.has_reserve(now, load.live_on_the_way_bytes());
        let is_live = has_reserve && load.front(Lane::Live).is_some();
        is_live.then_some(Lane::Live)
    }

    /// Sends a packet with the next messages of a lane; false if nothing new can be told of in this connection.
    fn send_packet(&mut self, load: &mut Load, lane: Lane) -> bool {
        let packet_id = self.free_packet_id(load);
        let before = self.out.len();
        let messages = match &mut self.dialect {
            Dialect::Selvedge(encoder) => {
                encoder.see_line(self.window.rate_bytes_per_s());
                let line_bytes = self.window.batch_bytes().min(self.packet_bytes_max / 2);
                let plain_bytes = line_bytes as f64 * self.messages_per_line_byte.max(1.0);
                let messages = put_batch(encoder, load, lane, line_bytes, plain_bytes as usize);
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
        let bytes = self.out.len() - before;
        let messages_bytes: usize = messages.iter().map(|message| message.body.len()).sum();
        self.messages_per_line_byte += (messages_bytes as f64 / bytes as f64 - self.messages_per_line_byte) / 8.0;
        let sent = Sent {
            lane,
            messages,
            bytes,
            ahead_bytes: load.on_the_way_bytes() + bytes,
            at: Instant::now(),
        };
        self.line_free_at = self.line_free_at.max(sent.at) + self.window.takes(bytes);
        load.sent(packet_id.get(), sent);
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
    async fn take_packets(&mut self, link: &mut Link, devices: Option<&Arc<Devices>>) -> Result<(), Ended> {
        let mut done: Vec<Settled> = Vec::new();
        let broken = |error: mqtt::DecodeError| Ended::Broken(error.to_string());
        while let Some(packet) = self.packets.next().map_err(broken)? {
            match packet {
                Packet::PubAck(ack) => {
                    let verdict = Verdict::of(&ack);
                    let Some(sent) = link.load.acknowledged(ack.packet_id.get()) else {
                        continue;
                    };
                    let now = Instant::now();
                    let packet = Acknowledged {
                        bytes: sent.bytes,
                        ahead_bytes: sent.ahead_bytes,
                        took: now.duration_since(sent.at),
                        is_busy: link.load.has_next() || link.load.packets_on_the_way() > 0,
                    };
                    self.window.acknowledged(now, packet);
                    self.line_free_at = self.window.free_at(now, link.load.on_the_way_bytes());
                    done.extend(fates(&sent, &verdict).map(|(message, fate)| message.settled(fate)));
                }
                Packet::Publish(publish) => {
                    if let Some(packet_id) = publish.packet_id {
                        Packet::PubAck(Ack::new(packet_id, ReasonCode::Success)).encode(Version::V5, &mut self.out);
                    }
                    match (devices.filter(|_| Devices::is_of(publish.topic)), &self.manifests) {
                        (Some(devices), _) => {
                            let (topic, payload) = (publish.topic.to_owned(), publish.payload.to_vec());
                            self.tasks.spawn(Arc::clone(devices).take(topic, payload));
                        }
                        (None, Some(line)) if publish.topic == topics::MANIFESTS => {
                            line.hear(publish.payload).map_err(Ended::Broken)?;
                        }
                        (None, _) => {
                            if self.calls.len() < CALLS_MAX {
                                self.calls.extend(start_call(&link.hub, &publish).await);
                            }
                        }
                    }
                }
                Packet::PingResp | Packet::PubRec(_) | Packet::PubComp(_) => {}
                Packet::Disconnect(disconnect) => {
                    let why = disconnect.reason_string.unwrap_or_default();
                    let reason = format!("the cloud ended the connection: {:?} {why}", disconnect.reason);
                    return Err(match disconnect.reason {
                        ReasonCode::ServerShuttingDown => Ended::CloudStopped(reason),
                        _ => Ended::Broken(reason),
                    });
                }
                other => {
                    return Err(Ended::Broken(format!(
                        "the cloud sent {:?}, which it may not",
                        std::mem::discriminant(&other)
                    )));
                }
            }
        }
        if !done.is_empty() {
            link.settler.settle(done).await;
        }
        Ok(())
    }

    fn answer(&mut self, answer: &Answer) {
        if let Some(result) = &answer.result {
            let mut publish = Publish::new(topics::RESULT, QoS::AtMostOnce, None, result);
            publish.properties.correlation_data = Some(&answer.correlation_data);
            publish.encode(Version::V5, &mut self.out);
        }
    }

    fn tell(&mut self, Told { topic, payload }: &Told) {
        Publish::new(topic, QoS::AtMostOnce, None, payload).encode(Version::V5, &mut self.out);
        self.line_free_at = self.line_free_at.max(Instant::now()) + self.window.takes(self.out.len());
    }
}

/// The next twin that is changed here; never, once the hub has ended or where nobody is told.
async fn next_change(changes: &mut Option<mpsc::Receiver<TwinChange>>) -> Option<TwinChange> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

/// What is to be said of manifests next.
async fn next_saying(line: &mut Option<Line>) -> Vec<u8> {
    match line {
        Some(line) => line.next().await,
        None => std::future::pending().await,
    }
}

/// Calls a method of a device of this edge.
async fn start_call(hub: &Hub, publish: &Publish<'_>) -> Option<Call> {
    let call = CallTopic::parse(publish.topic)?;
    let correlation_data = publish.properties.correlation_data?.to_vec();
    let (payload, timeout) = (publish.payload.to_vec(), Duration::from_millis(call.timeout_ms));
    let asked = hub.call(call.tenant, call.device, call.method, payload, timeout).await;
    Some(Box::pin(async move {
        Answer {
            correlation_data,
            result: asked.await,
        }
    }))
}
