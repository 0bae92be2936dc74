use super::*;
use crate::network::Bandwidth;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn settings() -> Settings {
    Settings {
        round_trip_us: 30_000,
        ..Settings::default()
    }
}

fn shaped(bit_per_s: u64) -> Settings {
    Settings {
        bandwidth_bit_per_s: Bandwidth::of(bit_per_s),
        ..settings()
    }
}

fn direction(settings: Settings) -> Direction {
    Direction::new(settings, 1, 0)
}

/// When each of the packets arrives, in milliseconds, with its first byte.
fn arrivals(direction: &mut Direction) -> Vec<(u8, u64)> {
    std::iter::from_fn(|| {
        let due_ns = direction.due_ns()?;
        direction.deliver(due_ns).map(|packet| (packet[0], due_ns / MS))
    })
    .collect()
}

#[test]
fn a_packet_takes_half_of_the_round_trip_and_not_a_nanosecond_less() {
    let mut line = direction(settings());
    line.offer(7, &[1]);
    assert_eq!(line.deliver(15 * MS + 6), None);
    assert_eq!(line.deliver(15 * MS + 7).as_deref(), Some(&[1][..]));
}

#[test]
fn packets_are_sent_one_after_the_other_at_the_bandwidth_and_the_way_holds_any_number() {
    let mut line = direction(shaped(8_000));
    for number in 0..3 {
        line.offer(0, &[number; 100]);
    }
    // 100 bytes take 100 ms; the delay comes once on top of each.
    assert_eq!(arrivals(&mut line), [(0, 115), (1, 215), (2, 315)]);
    line.offer(10 * S, &[3; 100]);
    assert_eq!(arrivals(&mut line), [(3, 10_115)], "an idle line saves nothing up");
}

#[test]
fn what_finds_the_queue_full_is_dropped_and_counted_and_room_comes_back_as_packets_are_sent() {
    let mut line = direction(shaped(8_000));
    for number in 0..5 {
        line.offer(0, &[number; 1_500]);
    }
    assert_eq!(line.counters().dropped_at_queue, 1);
    line.offer(1_500 * MS, &[9; 1_500]);
    let order: Vec<u8> = arrivals(&mut line).into_iter().map(|(number, _)| number).collect();
    assert_eq!(order, [0, 1, 2, 3, 9]);
    assert_eq!((line.counters().dropped_at_queue, line.counters().delivered), (1, 5));
}

#[test]
fn jitter_stays_within_its_bounds_and_never_changes_the_order() {
    let mut line = direction(Settings {
        jitter_us: 20_000,
        ..settings()
    });
    let mut delays_ns = Vec::new();
    for number in 0..1_000_u64 {
        let now_ns = number * 100 * MS;
        line.offer(now_ns, &[0]);
        delays_ns.push(line.due_ns().unwrap() - now_ns);
        assert!(line.deliver(u64::MAX).is_some());
    }
    let (least, most) = (delays_ns.iter().min().unwrap(), delays_ns.iter().max().unwrap());
    assert!((5 * MS..6 * MS).contains(least), "{least}");
    assert!((24 * MS..=25 * MS).contains(most), "{most}");
    for number in 0..200 {
        line.offer(1_000 * S + u64::from(number), &[number]);
    }
    assert!(arrivals(&mut line).is_sorted());
}

#[test]
fn equal_seeds_lose_the_same_packets_and_about_as_many_as_the_share_says() {
    let kept = |seed, stream| {
        let lossy = Settings {
            loss: 0.1,
            ..settings()
        };
        let mut line = Direction::new(lossy, seed, stream);
        let delivered: Vec<bool> = (0..10_000)
            .map(|number| {
                line.offer(number, &[0]);
                line.deliver(u64::MAX).is_some()
            })
            .collect();
        assert_eq!(line.counters().lost + line.counters().delivered, 10_000);
        delivered
    };
    let first = kept(1, 0);
    assert_eq!(first, kept(1, 0));
    assert_ne!(first, kept(1, 1), "the two directions lose each their own");
    // Five standard deviations of a binomial count around 1,000.
    let lost = first.iter().filter(|delivered| !**delivered).count();
    assert!((850..=1_150).contains(&lost), "{lost} of 10,000 lost at 10 %");
}

#[test]
fn new_settings_hold_for_what_waits_and_not_for_what_is_being_sent() {
    let mut line = direction(shaped(8_000));
    for number in 0..3 {
        line.offer(0, &[number; 1_000]);
    }
    line.set(500 * MS, shaped(8_000_000));
    assert_eq!(arrivals(&mut line), [(0, 1_015), (1, 1_016), (2, 1_017)]);
}

#[test]
fn a_cut_takes_what_is_queued_and_on_the_way_and_what_comes_until_it_is_mended() {
    let mut line = direction(shaped(8_000));
    line.offer(0, &[1; 1_000]);
    line.offer(0, &[2; 1_000]);
    line.cut();
    line.offer(MS, &[3; 1_000]);
    assert_eq!((line.due_ns(), line.counters().dropped_by_cut), (None, 3));
    line.mend();
    line.offer(2 * S, &[4; 1_000]);
    assert_eq!(arrivals(&mut line), [(4, 3_015)]);
}

#[test]
fn a_cut_line_stays_cut_when_its_settings_change() {
    let mut line = direction(settings());
    line.cut();
    line.set(0, shaped(8_000));
    line.offer(0, &[1]);
    assert_eq!(line.due_ns(), None);
}

#[test]
fn packets_on_the_way_are_bounded_in_number() {
    let mut line = direction(settings());
    for _ in 0..=MOST_PACKETS {
        line.offer(0, &[0]);
    }
    assert_eq!(line.counters().dropped_on_the_way, 1);
}

#[test]
fn what_is_delivered_more_than_100_us_after_it_was_due_is_counted_as_late() {
    let mut line = direction(settings());
    for late_ns in [100_000, 100_001] {
        line.offer(0, &[0]);
        let due_ns = line.due_ns().unwrap();
        assert!(line.deliver(due_ns + late_ns).is_some());
    }
    assert_eq!((line.counters().delivered, line.counters().delivered_late), (2, 1));
}
