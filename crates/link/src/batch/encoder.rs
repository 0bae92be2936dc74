//! Messages into batches.

use std::collections::HashMap;

use hub::Parcel;

use super::deflate::Deflater;
use super::{
    DEFLATED, EPOCHS_MAX, EpochName, FIRST_NUMBER, GROWTH_BYTES, HAS_PROPERTIES, NEW, PARCELS_BYTES_MAX, PLAIN, Place,
    RETAIN, SAME_LEN, SAME_TOPIC, SKIPS, TELLS_AFTER, TOPIC_BYTES_MAX, UNNUMBERED, number_next,
};
use crate::wire;

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
        self.deflater.expected_len(self.plain_len())
    }

    /// Bytes of the batch so far, before it is made smaller.
    pub fn plain_len(&self) -> usize {
        let section = self.section.as_ref();
        self.batch.len() + section.map_or(0, |section| section.head.len() + section.records.len() + 8)
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
