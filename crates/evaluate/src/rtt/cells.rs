//! The loads of a plan: every sweep's cross product, checked.

use super::arm_kind::ArmKind;
use super::options::Options;
use super::plan::{PlanError, refused};
use super::presets::{Defaults, LEAST_MESSAGES, Sweep};
use super::trace::Trace;
use crate::generator::payload::Payloads;
use crate::network::Settings;
use crate::run::{Cell, LoadModel};

const MOST_DEVICES: u32 = 20_000;
const PAYLOAD_BYTES: std::ops::RangeInclusive<u32> = 8..=1_000_000;
/// Most messages of a block: each is kept until the run is written.
const MOST_MESSAGES: u64 = 20_000_000;

/// Each once. `arms`: models have a line between edge and cloud.
///
/// # Errors
/// The first load that cannot be.
pub(super) fn cells(
    options: &Options,
    defaults: &Defaults,
    (arms, trace): (&[ArmKind], Option<&Trace>),
) -> Result<Vec<Cell>, PlanError> {
    let has_line = arms.iter().any(ArmKind::is_model);
    let mut cells = Vec::new();
    for sweep in &defaults.sweeps {
        for cell in sweep_cells(&changed(sweep, options), options, defaults, (has_line, trace))? {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
    }
    Ok(cells)
}

/// A preset's sweep with what the person said in place.
fn changed(sweep: &Sweep, options: &Options) -> Sweep {
    fn said<T: Clone>(list: &[T], usual: &[T]) -> Vec<T> {
        if list.is_empty() { usual.to_vec() } else { list.to_vec() }
    }
    Sweep {
        load: options.load.unwrap_or(sweep.load),
        interval_us: said(&options.interval_us, &sweep.interval_us),
        payload_bytes: said(&options.payload_bytes, &sweep.payload_bytes),
        devices: said(&options.devices, &sweep.devices),
        qos: said(&options.qos, &sweep.qos),
        concurrency: said(&options.concurrency, &sweep.concurrency),
        bandwidth_bit_per_s: said(&options.bandwidth_bit_per_s, &sweep.bandwidth_bit_per_s),
        wan_round_trip_us: said(&options.wan_round_trip_us, &sweep.wan_round_trip_us),
    }
}

fn sweep_cells(
    sweep: &Sweep,
    options: &Options,
    defaults: &Defaults,
    (has_line, trace): (bool, Option<&Trace>),
) -> Result<Vec<Cell>, PlanError> {
    // What has no meaning for a load model takes one value, so that no cell is measured twice.
    let has_interval = matches!(sweep.load, LoadModel::Periodic | LoadModel::Poisson);
    let intervals = if has_interval {
        sweep.interval_us.iter().copied().map(Some).collect()
    } else {
        vec![None]
    };
    let concurrency = if sweep.load.is_closed() {
        sweep.concurrency.clone()
    } else {
        vec![0]
    };
    let payloads = trace.map_or_else(
        || sweep.payload_bytes.clone(),
        |trace| vec![Payloads::rows(trace).median_bytes()],
    );
    let cells = vec![first_cell(sweep, options, defaults)];
    let cells = with_each(&cells, &intervals, |cell, interval_us| cell.interval_us = interval_us);
    let cells = with_each(&cells, &payloads, |cell, bytes| cell.payload_bytes = bytes);
    let cells = with_each(&cells, &sweep.devices, |cell, devices| cell.devices = devices);
    let cells = with_each(&cells, &sweep.qos, |cell, qos| {
        cell.qos = qos;
        cell.think_us = options.think_us.unwrap_or_else(|| (defaults.think_us)(qos));
    });
    let cells = with_each(&cells, &concurrency, |cell, concurrency| cell.concurrency = concurrency);
    let mut cells = with_each(&cells, &lines(sweep, has_line), |cell, wan| cell.wan = wan);
    if options.duration_us.is_none() {
        cells
            .iter_mut()
            .for_each(|cell| cell.duration_us = duration_us(cell, defaults));
    }
    cells.iter().try_for_each(check)?;
    Ok(cells)
}

/// Settings of the line between edge and cloud, if there is one.
fn lines(sweep: &Sweep, has_line: bool) -> Vec<Option<Settings>> {
    if !has_line {
        return vec![None];
    }
    let of_delay = |round_trip_us: &u64| {
        let settings = |bandwidth_bit_per_s| Settings {
            bandwidth_bit_per_s,
            round_trip_us: *round_trip_us,
            ..Settings::default()
        };
        let rates = sweep.bandwidth_bit_per_s.iter();
        rates.map(|rate| Some(settings(*rate))).collect::<Vec<_>>()
    };
    sweep.wan_round_trip_us.iter().flat_map(of_delay).collect()
}

/// As long as the preset says, longer for as many messages as it wants within its time, and for the least in any case.
fn duration_us(cell: &Cell, defaults: &Defaults) -> u64 {
    let of = |messages: u64| cell.interval_us.unwrap_or(0) * messages.div_ceil(u64::from(cell.devices.max(1)));
    let wanted = of(defaults.messages).min(defaults.messages_within_us);
    cell.duration_us.max(wanted).max(of(LEAST_MESSAGES))
}

/// What all cells of a sweep have in common.
fn first_cell(sweep: &Sweep, options: &Options, defaults: &Defaults) -> Cell {
    Cell {
        load: sweep.load,
        interval_us: None,
        payload_bytes: 0,
        devices: 0,
        qos: 0,
        concurrency: 0,
        think_us: 0,
        duration_us: options.duration_us.unwrap_or(defaults.duration_us),
        timeout_us: options.timeout_us.unwrap_or(defaults.timeout_us),
        wan: None,
    }
}

/// Every cell with every value: one more factor of a cross product.
fn with_each<T: Copy>(cells: &[Cell], values: &[T], set: impl Fn(&mut Cell, T)) -> Vec<Cell> {
    let changed = |cell: &Cell, value: T| {
        let mut cell = cell.clone();
        set(&mut cell, value);
        cell
    };
    cells
        .iter()
        .flat_map(|cell| values.iter().map(|value| changed(cell, *value)).collect::<Vec<_>>())
        .collect()
}

fn check(cell: &Cell) -> Result<(), PlanError> {
    if !PAYLOAD_BYTES.contains(&cell.payload_bytes) {
        let (least, most) = (PAYLOAD_BYTES.start(), PAYLOAD_BYTES.end());
        return Err(refused(format!(
            "--payload {}: from {least} (the message's number) to {most} bytes",
            cell.payload_bytes
        )));
    }
    if !(1..=MOST_DEVICES).contains(&cell.devices) {
        return Err(refused(format!("--devices {}: from 1 to {MOST_DEVICES}", cell.devices)));
    }
    if cell.qos > 2 {
        return Err(refused(format!("--qos {}: 0, 1 or 2", cell.qos)));
    }
    if cell.interval_us == Some(0) {
        return Err(refused(
            "--interval 0: at least 1us; to send without a pause use --load closed",
        ));
    }
    if cell.load.is_closed() && !(1..=1_000_000).contains(&cell.concurrency) {
        return Err(refused(format!(
            "--concurrency {}: from 1 to 1000000",
            cell.concurrency
        )));
    }
    if cell.duration_us == 0 || cell.timeout_us == 0 {
        return Err(refused("--duration and --timeout: at least 1us"));
    }
    let messages = cell
        .interval_us
        .map_or(0, |us| cell.duration_us / us * u64::from(cell.devices));
    if let Some(settings) = &cell.wan {
        settings.check().map_err(|error| refused(error.to_string()))?;
    }
    if messages > MOST_MESSAGES {
        let words = format!("{messages} messages a block, where {MOST_MESSAGES} can be kept: shorten --duration");
        return Err(refused(words));
    }
    Ok(())
}
