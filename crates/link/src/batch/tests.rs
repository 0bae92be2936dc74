//! What is put into a batch comes out of it, whatever it is, and nothing else does.

use proptest::prelude::*;

use hub::{Origin, Parcel};
use mqtt::{PacketId, Publish, QoS};

use super::*;
use crate::wire::{self, Malformed};

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
