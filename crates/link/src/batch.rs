//! Batches: many messages in the payload of one PUBLISH.
//!
//! A batch is a row of sections, each of one epoch of one queue: the epoch's number in this connection, its floor, how
//! many messages follow, and those. What was said before in the connection is not said again: an epoch's tenant, route
//! and number are told once, a topic is told once and has a number from then on, and a message that has the topic and
//! the length of the one before it says so in a bit, as one does that comes right behind that in its lane. A message of a device that always sends as much takes three bytes
//! beside its payload.
//!
//! The first byte says whether the rest is the sections themselves or those deflated, which is done on lines where it
//! pays. What a batch may become is bounded, however it is written.

mod deflate;

use std::collections::HashMap;
use std::sync::Arc;

use hub::{Origin, Parcel};
use mqtt::{PacketId, Publish, PublishProperties, QoS};

use self::deflate::{Deflater, Inflater};
use crate::wire::{self, Malformed, Reader};

/// Topics with a number; of more, the one that was told longest ago gives its number away.
const TOPICS_MAX: usize = 1_024;
/// A longer topic gets no number, so that a table of them stays small.
const TOPIC_BYTES_MAX: usize = 256;
/// Epochs that a connection may speak of.
const EPOCHS_MAX: usize = 4_096;
/// Bytes of the name of a tenant or a route.
const NAME_BYTES_MAX: usize = 128;
/// Bytes that the messages of a batch may take once they are parcels again: a topic that is told once stands in each.
const PARCELS_BYTES_MAX: usize = 16 << 20;
/// Bytes that a parcel takes beside its payload, topic and properties and the name of its edge.
const PARCEL_BYTES: usize = 64;
/// Bytes that a parcel may take here beyond those that it had at the edge: its origin, and a section of its own.
const GROWTH_BYTES: usize = 512;

/// The first byte of a batch.
const PLAIN: u8 = 0;
const DEFLATED: u8 = 1;

const QOS_BITS: u8 = 0b11;
const RETAIN: u8 = 1 << 2;
const SAME_TOPIC: u8 = 1 << 3;
const SAME_LEN: u8 = 1 << 4;
const SKIPS: u8 = 1 << 5;
const HAS_PROPERTIES: u8 = 1 << 6;
const TELLS_AFTER: u8 = 1 << 7;

/// What a number in front of a topic means: the topic follows and has no number, or follows and gets the next one.
const UNNUMBERED: u64 = 0;
const NEW: u64 = 1;
const FIRST_NUMBER: u64 = 2;

/// Which epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpochName {
    /// Its tenant.
    pub tenant: Arc<str>,
    /// The route that fills its queue.
    pub route: Arc<str>,
    /// Its number.
    pub epoch: u64,
}

/// Where a message has its place in its epoch, as [`hub::Outgoing`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub sequence: u64,
    /// No sequence from this one up to its own is of its lane.
    pub after: u64,
    /// No lower sequence is to be expected any more.
    pub floor: u64,
}

/// Makes batches for one connection.
#[derive(Debug, Default)]
pub struct Encoder {
    epochs: HashMap<u64, u64>,
    topics: HashMap<Box<str>, u64>,
    /// The topics in the order of their numbers.
    numbered: Vec<Box<str>>,
    next_topic: usize,
    batch: Vec<u8>,
    /// The section that is being written.
    section: Option<Writing>,
    messages: usize,
    /// Bytes that the messages in it may become.
    parcels_bytes: usize,
    deflater: Deflater,
}

/// A section that is being written.
#[derive(Debug)]
struct Writing {
    epoch: u64,
    /// Its messages so far.
    records: Vec<u8>,
    count: u64,
    next_sequence: u64,
    last_received_ms: u64,
    last_topic: String,
    last_len: Option<usize>,
    floor: u64,
    /// What comes before them: the epoch, told anew or not.
    head: Vec<u8>,
}

impl Encoder {
    /// The rate of the line in bytes a second, if it has shown one: batches are made smaller where that pays.
    pub fn see_line(&mut self, rate_bytes_per_s: Option<f64>) {
        self.deflater.see_line(rate_bytes_per_s);
    }

    /// Bytes that the batch so far is expected to have on the line.
    pub fn len(&self) -> usize {
        let section = self.section.as_ref();
        let section_len = section.map_or(0, |section| section.head.len() + section.records.len() + 8);
        self.deflater.expected_len(self.batch.len() + section_len)
    }

    /// Whether nothing was put into it.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Whether the other end would take the batch with a further parcel of this epoch and so many bytes. To one that is
    /// empty it does not, once the connection speaks of too many epochs: then a new one has to be made.
    pub fn has_room_for(&self, epoch: u64, parcel_bytes: usize) -> bool {
        let is_known = self.epochs.contains_key(&epoch) || self.epochs.len() < EPOCHS_MAX;
        is_known && (self.is_empty() || self.parcels_bytes + parcel_bytes + GROWTH_BYTES <= PARCELS_BYTES_MAX)
    }

    /// Adds a message to the batch.
    pub fn put(&mut self, name: &EpochName, at: Place, parcel: &Parcel<'_>) {
        if self.section.as_ref().is_none_or(|section| section.epoch != name.epoch) {
            self.end_section();
            self.begin_section(name, at.sequence, parcel.received_ms);
        }
        self.messages += 1;
        let mut section = self.section.take().expect("begun just now");
        section.floor = section.floor.max(at.floor);
        section.count += 1;
        self.put_record(&mut section, at, parcel);
        self.section = Some(section);
    }

    /// The batch; the next one begins empty.
    pub fn finish(&mut self) -> Vec<u8> {
        self.end_section();
        (self.messages, self.parcels_bytes) = (0, 0);
        let plain = std::mem::take(&mut self.batch);
        let Some((_, sections)) = plain.split_first() else {
            return vec![PLAIN];
        };
        let mut deflated = vec![DEFLATED];
        match self.deflater.deflate(sections, &mut deflated) {
            true => deflated,
            false => plain,
        }
    }

    fn begin_section(&mut self, name: &EpochName, sequence: u64, received_ms: u64) {
        let mut head = Vec::new();
        let next = self.epochs.len() as u64;
        let number = *self.epochs.entry(name.epoch).or_insert(next);
        wire::put(&mut head, number);
        if number == next {
            wire::put_bytes(&mut head, name.tenant.as_bytes());
            wire::put_bytes(&mut head, name.route.as_bytes());
            wire::put(&mut head, name.epoch);
        }
        wire::put(&mut head, sequence);
        wire::put(&mut head, received_ms);
        self.section = Some(Writing {
            epoch: name.epoch,
            records: Vec::new(),
            count: 0,
            next_sequence: sequence,
            last_received_ms: received_ms,
            last_topic: String::new(),
            last_len: None,
            floor: 0,
            head,
        });
    }

    fn end_section(&mut self) {
        let Some(section) = self.section.take() else { return };
        if self.batch.is_empty() {
            self.batch.push(PLAIN);
        }
        self.batch.extend_from_slice(&section.head);
        wire::put(&mut self.batch, section.floor);
        wire::put(&mut self.batch, section.count);
        self.batch.extend_from_slice(&section.records);
    }

    fn put_record(&mut self, section: &mut Writing, at: Place, parcel: &Parcel<'_>) {
        let Place { sequence, after, .. } = at;
        let publish = &parcel.publish;
        let is_same_topic = section.last_topic == publish.topic;
        let is_same_len = section.last_len == Some(publish.payload.len());
        let skips = sequence != section.next_sequence;
        let is_next_of_lane = after == section.next_sequence.min(sequence);
        let has_properties = !publish.properties.is_empty();
        self.parcels_bytes += publish.topic.len() + publish.payload.len() + GROWTH_BYTES;
        let flag = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
        let out = &mut section.records;
        out.push(
            publish.qos as u8
                | flag(RETAIN, publish.retain)
                | flag(SAME_TOPIC, is_same_topic)
                | flag(SAME_LEN, is_same_len)
                | flag(SKIPS, skips)
                | flag(HAS_PROPERTIES, has_properties)
                | flag(TELLS_AFTER, !is_next_of_lane),
        );
        if skips {
            wire::put_signed(out, sequence.wrapping_sub(section.next_sequence) as i64);
        }
        if !is_next_of_lane {
            wire::put_signed(out, sequence.wrapping_sub(after) as i64);
        }
        wire::put_signed(out, parcel.received_ms.wrapping_sub(section.last_received_ms) as i64);
        if !is_same_topic {
            put_topic(
                &mut self.topics,
                &mut self.numbered,
                &mut self.next_topic,
                publish.topic,
                out,
            );
            section.last_topic.clear();
            section.last_topic.push_str(publish.topic);
        }
        if has_properties {
            let mut block = Vec::new();
            publish.properties.write_block(&mut block);
            self.parcels_bytes += block.len();
            wire::put_bytes(out, &block);
        }
        if !is_same_len {
            wire::put(out, publish.payload.len() as u64);
        }
        out.extend_from_slice(publish.payload);
        section.next_sequence = sequence.wrapping_add(1);
        section.last_received_ms = parcel.received_ms;
        section.last_len = Some(publish.payload.len());
    }
}

fn put_topic(
    topics: &mut HashMap<Box<str>, u64>,
    numbered: &mut Vec<Box<str>>,
    next: &mut usize,
    topic: &str,
    out: &mut Vec<u8>,
) {
    if let Some(number) = topics.get(topic) {
        return wire::put(out, FIRST_NUMBER + number);
    }
    let gets_number = topic.len() <= TOPIC_BYTES_MAX;
    wire::put(out, if gets_number { NEW } else { UNNUMBERED });
    wire::put_bytes(out, topic.as_bytes());
    if gets_number {
        let at = number_next(numbered, next, topic.into(), |gone| {
            topics.remove(gone);
        });
        topics.insert(topic.into(), at as u64);
    }
}

/// Gives a topic the next number; where all are given, the one who has it loses it.
fn number_next(numbered: &mut Vec<Box<str>>, next: &mut usize, topic: Box<str>, gone: impl FnOnce(&str)) -> usize {
    let at = *next;
    *next = (at + 1) % TOPICS_MAX;
    match numbered.get_mut(at) {
        Some(place) => gone(&std::mem::replace(place, topic)),
        None => numbered.push(topic),
    }
    at
}

/// Takes batches of one connection apart.
#[derive(Debug, Default)]
pub struct Decoder {
    epochs: Vec<EpochName>,
    numbered: Vec<Box<str>>,
    next_topic: usize,
    /// Of connections whose other end deflates: it takes some 40 KiB.
    inflater: Option<Inflater>,
}

/// Messages of one epoch in a batch.
#[derive(Debug, PartialEq, Eq)]
pub struct Section {
    /// Of which epoch.
    pub name: EpochName,
    /// No lower sequence is to be expected any more.
    pub floor: u64,
    /// Each as [`Parcel`] has it, with its origin.
    pub parcels: Vec<Vec<u8>>,
}

impl Decoder {
    /// The sections of a batch, which `edge` sent. What is malformed ends the connection: what is said from then on
    /// cannot be understood.
    ///
    /// # Errors
    /// The bytes are no batch of this connection, or would become more than 16 MiB.
    pub fn read(&mut self, edge: &str, batch: &[u8]) -> Result<Vec<Section>, Malformed> {
        match batch.split_first() {
            Some((&PLAIN, sections)) => self.sections(edge, sections),
            Some((&DEFLATED, deflated)) => {
                let inflater = self.inflater.get_or_insert_default();
                let sections = inflater.inflate(deflated)?;
                self.sections(edge, &sections)
            }
            Some(_) => Err(Malformed("it is neither plain nor deflated")),
            None => Err(Malformed("it ends early")),
        }
    }

    fn sections(&mut self, edge: &str, bytes: &[u8]) -> Result<Vec<Section>, Malformed> {
        let mut reader = Reader::new(bytes);
        let mut sections = Vec::new();
        let mut room = Room(PARCELS_BYTES_MAX);
        while !reader.is_empty() {
            room.take(size_of::<Section>())?;
            sections.push(self.section(edge, &mut reader, &mut room)?);
        }
        Ok(sections)
    }

    fn section(&mut self, edge: &str, reader: &mut Reader<'_>, room: &mut Room) -> Result<Section, Malformed> {
        let name = self.epoch(reader)?;
        let mut position = At {
            sequence: reader.u64()?,
            received_ms: reader.u64()?,
            topic: String::new(),
            len: None,
        };
        let (floor, count) = (reader.u64()?, reader.u64()?);
        let mut parcels = Vec::new();
        for _ in 0..count {
            parcels.push(self.record(edge, name.epoch, reader, &mut position, room)?);
        }
        Ok(Section { name, floor, parcels })
    }

    fn epoch(&mut self, reader: &mut Reader<'_>) -> Result<EpochName, Malformed> {
        let number = reader.u64()? as usize;
        if number == self.epochs.len() {
            if number == EPOCHS_MAX {
                return Err(Malformed("it speaks of more epochs than a connection may"));
            }
            self.epochs.push(EpochName {
                tenant: short_name(reader)?,
                route: short_name(reader)?,
                epoch: reader.u64()?,
            });
        }
        let name = self.epochs.get(number).cloned();
        name.ok_or(Malformed("it speaks of an epoch that was not told"))
    }

    fn record(
        &mut self,
        edge: &str,
        epoch: u64,
        reader: &mut Reader<'_>,
        at: &mut At,
        room: &mut Room,
    ) -> Result<Vec<u8>, Malformed> {
        let flags = reader.u8()?;
        let next = at.sequence;
        if flags & SKIPS != 0 {
            at.sequence = at.sequence.wrapping_add(reader.signed()? as u64);
        }
        let after = match flags & TELLS_AFTER != 0 {
            true => at.sequence.wrapping_sub(reader.signed()? as u64),
            false => next.min(at.sequence),
        };
        at.received_ms = at.received_ms.wrapping_add(reader.signed()? as u64);
        if flags & SAME_TOPIC == 0 {
            self.topic(reader, &mut at.topic)?;
        }
        let block = if flags & HAS_PROPERTIES != 0 {
            reader.bytes()?
        } else {
            &[0]
        };
        let properties = PublishProperties::read_block(block).map_err(|_| Malformed("properties of a message"))?;
        let len = match flags & SAME_LEN != 0 {
            true => at.len.ok_or(Malformed("a message is as long as none before it"))?,
            false => reader.u64()?,
        };
        at.len = Some(len);
        let payload = reader.take(len)?;
        room.take(payload.len() + at.topic.len() + block.len() + edge.len() + PARCEL_BYTES)?;
        let qos = QoS::from_bits(flags & QOS_BITS).ok_or(Malformed("a message has QoS 3"))?;
        mqtt::topic::check_name(&at.topic).map_err(|_| Malformed("a topic that none can have"))?;
        let origin = Origin {
            edge,
            epoch,
            sequence: at.sequence,
            after,
        };
        let publish = Publish {
            dup: false,
            qos,
            retain: flags & RETAIN != 0,
            topic: &at.topic,
            packet_id: (qos != QoS::AtMostOnce).then_some(PacketId::MIN),
            properties,
            payload,
        };
        let mut bytes = Vec::with_capacity(payload.len() + at.topic.len() + 48);
        Parcel {
            received_ms: at.received_ms,
            origin: Some(origin),
            publish,
        }
        .encode(&mut bytes);
        at.sequence = at.sequence.wrapping_add(1);
        Ok(bytes)
    }

    fn topic(&mut self, reader: &mut Reader<'_>, topic: &mut String) -> Result<(), Malformed> {
        topic.clear();
        match reader.u64()? {
            UNNUMBERED => topic.push_str(reader.str()?),
            NEW => {
                let new = reader.str()?;
                if new.len() > TOPIC_BYTES_MAX {
                    return Err(Malformed("a topic is too long to have a number"));
                }
                topic.push_str(new);
                number_next(&mut self.numbered, &mut self.next_topic, new.into(), |_| {});
            }
            number => {
                let at = usize::try_from(number - FIRST_NUMBER).ok();
                let known = at.and_then(|at| self.numbered.get(at));
                topic.push_str(known.ok_or(Malformed("it speaks of a topic that was not told"))?);
            }
        }
        Ok(())
    }
}

fn short_name(reader: &mut Reader<'_>) -> Result<Arc<str>, Malformed> {
    let name = reader.str()?;
    match name.len() <= NAME_BYTES_MAX {
        true => Ok(name.into()),
        false => Err(Malformed("the name of a tenant or a route is too long")),
    }
}

/// Bytes that messages may still take.
#[derive(Debug)]
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Malformed> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or(Malformed("it becomes more than 16 MiB"))?;
        Ok(())
    }
}

/// Where a reader of a section is.
#[derive(Debug)]
struct At {
    sequence: u64,
    received_ms: u64,
    topic: String,
    len: Option<u64>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    struct Message {
        epoch: u64,
        sequence: u64,
        after: u64,
        received_ms: u64,
        topic: String,
        qos: QoS,
        retain: bool,
        content_type: Option<String>,
        payload: Vec<u8>,
    }

    fn message() -> impl Strategy<Value = Message> {
        let number = prop_oneof![0..40_u64, any::<u64>()];
        let qos = prop_oneof![Just(QoS::AtMostOnce), Just(QoS::AtLeastOnce), Just(QoS::ExactlyOnce)];
        let topic = prop_oneof!["[ab]/[0-9]{1,3}", "[a-z]{250,300}"];
        let (text, bytes) = (prop::option::of("[a-z]{0,5}"), prop::collection::vec(any::<u8>(), 0..9));
        (
            0..3_u64,
            (number.clone(), number.clone()),
            number,
            topic,
            qos,
            any::<bool>(),
            text,
            bytes,
        )
            .prop_map(
                |(epoch, (sequence, after), received_ms, topic, qos, retain, content_type, payload)| Message {
                    epoch,
                    sequence,
                    after,
                    received_ms,
                    topic,
                    qos,
                    retain,
                    content_type,
                    payload,
                },
            )
    }

    /// Of the first messages of a lane, without gaps.
    fn in_row(sequence: u64) -> Place {
        Place {
            sequence,
            after: sequence,
            floor: 0,
        }
    }

    impl Message {
        fn place(&self) -> Place {
            Place {
                sequence: self.sequence,
                after: self.after,
                floor: 0,
            }
        }

        fn parcel<'a>(&'a self, origin: Option<Origin<'a>>) -> Parcel<'a> {
            let packet_id = (self.qos != QoS::AtMostOnce).then_some(PacketId::MIN);
            let mut publish = Publish::new(&self.topic, self.qos, packet_id, &self.payload);
            publish.retain = self.retain;
            publish.properties.content_type = self.content_type.as_deref();
            Parcel {
                received_ms: self.received_ms,
                origin,
                publish,
            }
        }
    }

    fn name(epoch: u64) -> EpochName {
        EpochName {
            tenant: format!("t{epoch}").into(),
            route: "telemetry".into(),
            epoch,
        }
    }

    proptest! {
        #[test]
        fn what_is_put_into_batches_comes_out_of_them(batches in prop::collection::vec((line(), prop::collection::vec(message(), 0..20)), 1..9)) {
            let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
            for (rate, messages) in batches {
                encoder.see_line(rate);
                for message in &messages {
                    encoder.put(&name(message.epoch), message.place(), &message.parcel(None));
                }
                let batch = encoder.finish();
                let sections = decoder.read("hall-1", &batch).unwrap();
                let out: Vec<Vec<u8>> = sections.into_iter().flat_map(|section| section.parcels).collect();
                let expected = messages.iter().map(|message| {
                    let origin = Origin { edge: "hall-1", epoch: message.epoch, sequence: message.sequence, after: message.after };
                    let mut bytes = Vec::new();
                    message.parcel(Some(origin)).encode(&mut bytes);
                    bytes
                });
                prop_assert_eq!(out, expected.collect::<Vec<_>>());
            }
        }

        #[test]
        fn whatever_bytes_come_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Decoder::default().read("hall-1", &bytes);
            let deflated = [&[DEFLATED], &*bytes].concat();
            let _ = Decoder::default().read("hall-1", &deflated);
        }
    }

    /// None that has shown a rate, a thin one, a fast one: in bytes a second.
    fn line() -> impl Strategy<Value = Option<f64>> {
        prop_oneof![Just(None), Just(Some(1_000.0)), Just(Some(1e9))]
    }

    /// A batch of messages without a payload and a topic that is told once.
    fn amplifying(topic_bytes: usize, messages: u64) -> Vec<u8> {
        let mut batch = vec![PLAIN];
        wire::put(&mut batch, 0);
        for name in ["default", "telemetry"] {
            wire::put_bytes(&mut batch, name.as_bytes());
        }
        for number in [1, 0, 0, 0, messages] {
            wire::put(&mut batch, number);
        }
        batch.extend([0, 0, NEW as u8]);
        wire::put_bytes(&mut batch, &vec![b'a'; topic_bytes]);
        wire::put(&mut batch, 0);
        batch.extend([SAME_TOPIC | SAME_LEN, 0].repeat(messages as usize - 1));
        batch
    }

    #[test]
    fn a_batch_that_would_become_more_than_16_mib_is_refused_however_few_bytes_it_has() {
        let taken = Decoder::default().read("hall-1", &amplifying(250, 50_000)).unwrap();
        assert_eq!(taken[0].parcels.len(), 50_000);
        let more = amplifying(250, 100_000);
        assert!(more.len() < 256 << 10);
        let refused = Err(Malformed("it becomes more than 16 MiB"));
        assert_eq!(Decoder::default().read("hall-1", &more), refused);
        let mut sections = vec![PLAIN];
        sections.extend_from_slice(&[0, 1, b't', 1, b'r', 1, 0, 0, 0, 0]);
        sections.extend([0, 0, 0, 0, 0].repeat(400_000));
        assert_eq!(Decoder::default().read("hall-1", &sections), refused);
    }

    #[test]
    fn a_name_that_no_tenant_can_have_is_refused() {
        let mut batch = vec![PLAIN, 0];
        wire::put_bytes(&mut batch, &[b't'; NAME_BYTES_MAX + 1]);
        let refused = Err(Malformed("the name of a tenant or a route is too long"));
        assert_eq!(Decoder::default().read("hall-1", &batch), refused);
    }

    #[test]
    fn what_an_encoder_says_that_it_has_room_for_the_decoder_takes() {
        let topic = "t/".repeat(15_000);
        let publish = Publish::new(&topic, QoS::AtMostOnce, None, b"1");
        let parcel = Parcel {
            received_ms: 0,
            origin: None,
            publish,
        };
        let mut body = Vec::new();
        parcel.encode(&mut body);
        // In one section the topic is told once; in two that take turns, each time.
        for epochs in [1, 2] {
            let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
            let mut count = 0;
            while encoder.has_room_for(count % epochs, body.len()) {
                encoder.put(&name(count % epochs), in_row(count), &parcel);
                count += 1;
            }
            assert!(count > 500, "{count} messages");
            let sections = decoder.read(&"e".repeat(255), &encoder.finish()).unwrap();
            assert_eq!(
                sections.iter().map(|section| section.parcels.len() as u64).sum::<u64>(),
                count
            );
        }
    }

    #[test]
    fn a_topic_that_lost_its_number_is_told_again() {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        for round in 0..3_u64 {
            for topic in 0..=TOPICS_MAX {
                let topic = format!("devices/{topic}/telemetry");
                let publish = Publish::new(&topic, QoS::AtMostOnce, None, b"1");
                encoder.put(
                    &name(1),
                    in_row(round),
                    &Parcel {
                        received_ms: 0,
                        origin: None,
                        publish,
                    },
                );
                let batch = encoder.finish();
                let sections = decoder.read("hall-1", &batch).unwrap();
                let parcel = Parcel::decode(&sections[0].parcels[0]).unwrap();
                assert_eq!(parcel.publish.topic, topic);
            }
        }
    }

    #[test]
    fn a_device_that_always_sends_as_much_takes_three_bytes_a_message() {
        let mut encoder = Encoder::default();
        let payload = [0; 100];
        let mut len = [0; 2];
        for (count, len) in [1_u64, 11].iter().zip(&mut len) {
            // So fast that nothing is deflated.
            encoder.see_line(Some(1e9));
            for sequence in 0..*count {
                let publish = Publish::new(
                    "devices/pump-7/telemetry",
                    QoS::AtLeastOnce,
                    Some(PacketId::MIN),
                    &payload,
                );
                encoder.put(
                    &name(1),
                    in_row(sequence),
                    &Parcel {
                        received_ms: 1_000 + sequence * 60,
                        origin: None,
                        publish,
                    },
                );
            }
            *len = encoder.finish().len();
            encoder = Encoder::default();
        }
        // The second message still tells its length.
        assert!(len[1] - len[0] <= 10 * 103 + 1, "{len:?}");
    }
}
