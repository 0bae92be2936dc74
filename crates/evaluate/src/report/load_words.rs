//! Loads as a person reads them.

use super::Swept;
use super::words::{bytes, count, duration, round};
use crate::network::Bandwidth;
use crate::run::{Cell, LoadModel};

/// A load by what of it is not as in the paper's defaults: 64 B, QoS 1, every 200 ms, one device, a line of 30 ms.
pub(crate) fn unusual(load: &Cell) -> String {
    let usual = ["64 B", "QoS 1", "every 200 ms", "1 device", "line of 30 ms", "unshaped"];
    let words = cell(load);
    let said: Vec<&str> = words.split(", ").filter(|part| !usual.contains(part)).collect();
    if said.is_empty() {
        "the paper's defaults".to_owned()
    } else {
        said.join(", ")
    }
}

/// The load in words: `64 B, QoS 1, every 10 ms, 20 devices`.
pub(crate) fn cell(cell: &Cell) -> String {
    let rhythm = match (cell.load, cell.interval_us) {
        (LoadModel::Closed, _) if cell.think_us > 0 => {
            format!(
                "closed loop of {}, {} think time",
                cell.concurrency,
                duration(cell.think_us as f64)
            )
        }
        (LoadModel::Closed, _) => format!("closed loop of {}", cell.concurrency),
        (LoadModel::Poisson, Some(us)) => format!("every {} on average (Poisson)", duration(us as f64)),
        (LoadModel::Trace, _) => "at the times of a recorded data set".to_owned(),
        (_, Some(us)) => format!("every {}", duration(us as f64)),
        (_, None) => "open loop".to_owned(),
    };
    let line = cell.wan.map_or(String::new(), |wan| {
        let (delay, bandwidth) = (duration(wan.round_trip_us as f64), bandwidth(wan.bandwidth_bit_per_s));
        format!(", line of {delay}, {bandwidth}")
    });
    format!(
        "{}, QoS {}, {rhythm}, {}{line}",
        bytes(f64::from(cell.payload_bytes)),
        cell.qos,
        devices(cell.devices)
    )
}

/// `128 kbit/s`, `unshaped`.
pub(crate) fn bandwidth(bandwidth: Bandwidth) -> String {
    match bandwidth.bit_per_s.map(|rate| rate as f64) {
        None => "unshaped".to_owned(),
        Some(rate) if rate >= 1e6 => format!("{} Mbit/s", round(rate / 1e6)),
        Some(rate) => format!("{} kbit/s", round(rate / 1e3)),
    }
}

/// `1 device`, `10,000 devices`.
pub(crate) fn devices(devices: u32) -> String {
    if devices == 1 {
        "1 device".to_owned()
    } else {
        format!("{} devices", count(u64::from(devices)))
    }
}

/// Name of a swept parameter.
pub(crate) fn swept(swept: Swept) -> &'static str {
    match swept {
        Swept::Interval => "time between messages of a device",
        Swept::Payload => "payload",
        Swept::Devices => "devices",
        Swept::Qos => "QoS",
        Swept::Concurrency => "messages out at once",
        Swept::Bandwidth => "bandwidth between edge and cloud",
        Swept::Delay => "delay between edge and cloud",
    }
}

/// A value of a swept parameter.
pub(crate) fn swept_value(swept: Swept, cell: &Cell) -> String {
    let value = swept.value(cell).unwrap_or(0.0);
    match swept {
        Swept::Interval | Swept::Delay => duration(value),
        Swept::Bandwidth => bandwidth(cell.wan.unwrap_or_default().bandwidth_bit_per_s),
        Swept::Payload => bytes(value),
        Swept::Devices | Swept::Concurrency => count(value as u64),
        Swept::Qos => format!("QoS {value}"),
    }
}

/// The same, for a sentence that does not name the parameter.
pub(crate) fn swept_named(swept: Swept, cell: &Cell) -> String {
    match swept {
        Swept::Devices => devices(cell.devices),
        Swept::Concurrency => format!("{} at once", cell.concurrency),
        _ => swept_value(swept, cell),
    }
}

/// The load without the swept parameter.
pub(crate) fn others(without: Swept, load: &Cell) -> String {
    let words = cell(load);
    let parts: Vec<&str> = words.split(", ").collect();
    // What is said of the line comes last.
    let of_line = if load.wan.is_some() { 2 } else { 0 };
    let left_out = match without {
        Swept::Payload => 0,
        Swept::Qos => 1,
        Swept::Interval | Swept::Concurrency => 2,
        Swept::Devices => parts.len() - 1 - of_line,
        Swept::Delay => parts.len() - 2,
        Swept::Bandwidth => parts.len() - 1,
    };
    let kept = parts
        .iter()
        .enumerate()
        .filter(|(place, _)| *place != left_out)
        .map(|(_, part)| *part);
    kept.collect::<Vec<_>>().join(", ")
}
