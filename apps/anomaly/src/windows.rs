//! The last readings of each device.

use std::collections::{HashMap, VecDeque};

use crate::description::Description;
use crate::reading::{Mismatch, Reading, Reason};

/// Readings further apart than this do not follow each other, as where models are trained.
const GAP_INTERVALS: f64 = 2.5;
/// The mean step of a window is the model's interval but for this part of it.
const INTERVAL_TOLERANCE: f64 = 0.25;

/// What came of a reading.
#[derive(Debug, PartialEq)]
pub(crate) enum Taken {
    /// The window that it ends, [readings, features].
    Window(Vec<f32>),
    /// Its device has fewer readings than a window.
    Filling,
}

/// Windows of all devices, of which there are only so many.
#[derive(Debug)]
pub(crate) struct Windows {
    devices: HashMap<String, Window>,
    devices_max: usize,
    /// Features and interval of the readings in them.
    of: Option<(Vec<String>, u64)>,
    /// Readings that were taken, by which the device that was silent for longest is known.
    clock: u64,
    /// Devices that had to go for others.
    pub forgotten: u64,
    /// Windows that began anew after a gap.
    pub gaps: u64,
}

#[derive(Debug, Default)]
struct Window {
    readings: VecDeque<Past>,
    touched: u64,
    /// There was a gap before it.
    is_behind_gap: bool,
}

#[derive(Debug)]
struct Past {
    at_s: Option<f64>,
    values: Vec<f32>,
}

impl Windows {
    /// For so many devices.
    #[must_use]
    pub(crate) fn new(devices_max: usize) -> Self {
        Windows {
            devices: HashMap::new(),
            devices_max,
            of: None,
            clock: 0,
            forgotten: 0,
            gaps: 0,
        }
    }

    /// Devices that there are windows of.
    #[must_use]
    pub(crate) fn devices(&self) -> usize {
        self.devices.len()
    }

    /// Has them be of readings as this model takes them; those of others are forgotten.
    pub(crate) fn fit(&mut self, description: &Description) {
        let of = (description.features.clone(), description.interval_s.to_bits());
        if self.of.as_ref() != Some(&of) {
            self.devices.clear();
            self.of = Some(of);
        }
    }

    /// What a reading makes of the window of its device, which stays as it is.
    ///
    /// # Errors
    /// It does not follow those before it as the model has it.
    pub(crate) fn with(&self, device: &str, reading: &Reading, description: &Description) -> Result<Taken, Mismatch> {
        let nothing = Window::default();
        let window = self.devices.get(device).unwrap_or(&nothing);
        if let Some(step_s) = window.step_s(reading).filter(|step_s| *step_s <= 0.0) {
            let found = format!("{step_s} s after the reading before");
            return Err(Mismatch::new(
                Reason::OutOfOrder,
                Some("time"),
                &found,
                "a time after it",
            ));
        }
        let before = description.window_readings - 1;
        let is_gap = window.is_gap(reading, description);
        if let Some(step_s) = window
            .step_s(reading)
            .filter(|_| is_gap && window.is_lone() && before > 0)
        {
            return Err(other_interval(step_s, description.interval_s));
        }
        if is_gap || window.readings.len() < before {
            return match before {
                0 => Ok(Taken::Window(reading.values.clone())),
                _ => Ok(Taken::Filling),
            };
        }
        let past = window.readings.range(window.readings.len() - before..);
        check_interval(past.clone().next(), reading, before, description.interval_s)?;
        let values = past.flat_map(|past| &past.values).chain(&reading.values);
        Ok(Taken::Window(values.copied().collect()))
    }

    /// Puts a reading behind those of its device.
    pub(crate) fn keep(&mut self, device: &str, reading: Reading, description: &Description) {
        self.clock += 1;
        let window = self.window(device);
        let is_gap = window.is_gap(&reading, description);
        if is_gap {
            window.readings.clear();
            window.is_behind_gap = true;
        }
        window.readings.push_back(Past {
            at_s: reading.at_s,
            values: reading.values,
        });
        let too_many = window.readings.len().saturating_sub(description.window_readings);
        window.readings.drain(..too_many);
        self.gaps += u64::from(is_gap);
    }

    fn window(&mut self, device: &str) -> &mut Window {
        if !self.devices.contains_key(device) && self.devices.len() >= self.devices_max {
            let silent = self.devices.iter().min_by_key(|(_, window)| window.touched);
            if let Some(silent) = silent.map(|(device, _)| device.clone()) {
                self.devices.remove(&silent);
                self.forgotten += 1;
            }
        }
        let window = self.devices.entry(device.to_owned()).or_default();
        window.touched = self.clock;
        window
    }
}

impl Window {
    /// Seconds from the reading before to this one, where both say their times.
    fn step_s(&self, reading: &Reading) -> Option<f64> {
        Some(reading.at_s? - self.readings.back()?.at_s?)
    }

    /// Whether a reading is too far from those before to follow them.
    fn is_gap(&self, reading: &Reading, description: &Description) -> bool {
        self.step_s(reading)
            .is_some_and(|step_s| step_s > GAP_INTERVALS * description.interval_s)
    }

    /// Whether all that it has is one reading behind a gap. A second one behind that is no gap: readings come so.
    fn is_lone(&self) -> bool {
        self.is_behind_gap && self.readings.len() == 1
    }
}

fn check_interval(first: Option<&Past>, last: &Reading, steps: usize, interval_s: f64) -> Result<(), Mismatch> {
    let Some((first_s, last_s)) = first.and_then(|first| first.at_s.zip(last.at_s)) else {
        return Ok(());
    };
    let step_s = (last_s - first_s) / steps as f64;
    if (step_s - interval_s).abs() > INTERVAL_TOLERANCE * interval_s {
        return Err(other_interval(step_s, interval_s));
    }
    Ok(())
}

fn other_interval(step_s: f64, interval_s: f64) -> Mismatch {
    let found = format!("{step_s:.3} s from one to the next");
    Mismatch::new(Reason::Interval, Some("time"), &found, format!("{interval_s} s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::tests::described;

    fn at(at_s: Option<f64>, value: f32) -> Reading {
        Reading {
            time: None,
            at_s,
            values: vec![value],
        }
    }

    /// What becomes of readings of one device, each with its time.
    fn come(windows: &mut Windows, readings: &[(Option<f64>, f32)]) -> Vec<Result<Taken, Reason>> {
        let description = described();
        let take = |&(at_s, value)| {
            let taken = windows.with("pump", &at(at_s, value), &description);
            windows.keep("pump", at(at_s, value), &description);
            taken.map_err(|mismatch| mismatch.reason)
        };
        readings.iter().map(take).collect()
    }

    #[test]
    fn a_window_is_the_last_readings_in_their_order() {
        let taken = come(
            &mut Windows::new(1),
            &[(None, 1.0), (None, 2.0), (None, 3.0), (None, 4.0)],
        );
        let windows = [vec![1.0, 2.0, 3.0], vec![2.0, 3.0, 4.0]].map(|window| Ok(Taken::Window(window)));
        assert_eq!(taken[..2], [Ok(Taken::Filling), Ok(Taken::Filling)]);
        assert_eq!(taken[2..], windows);
    }

    #[test]
    fn a_gap_begins_a_window_anew_and_a_reading_left_out_does_not() {
        let mut windows = Windows::new(1);
        let times = [0.0, 60.0, 120.0, 180.0, 331.0, 391.0, 451.0];
        let taken = come(&mut windows, &times.map(|time| (Some(time), 1.0)));
        let filling = taken
            .iter()
            .map(|taken| *taken == Ok(Taken::Filling))
            .collect::<Vec<_>>();
        assert_eq!(filling, [true, true, false, false, true, true, false]);
        assert_eq!(windows.gaps, 1);
    }

    #[test]
    fn readings_that_all_have_a_gap_before_them_come_at_another_interval() {
        let taken = come(
            &mut Windows::new(1),
            &[0.0, 180.0, 360.0, 540.0].map(|time| (Some(time), 1.0)),
        );
        let interval = || Err(Reason::Interval);
        assert_eq!(taken, [Ok(Taken::Filling), Ok(Taken::Filling), interval(), interval()]);
    }

    #[test]
    fn a_window_whose_readings_come_too_fast_or_too_slowly_is_none_and_one_that_is_shaken_is() {
        for (step_s, is_right) in [(40.0, false), (46.0, true), (74.0, true), (80.0, false)] {
            let times = [0.0, step_s, 2.0 * step_s].map(|time| (Some(time), 1.0));
            let taken = come(&mut Windows::new(1), &times);
            assert_eq!(taken[2] != Err(Reason::Interval), is_right, "{step_s} s");
        }
    }

    #[test]
    fn a_model_of_other_features_begins_with_nothing_and_a_longer_one_of_the_same_with_what_is_there() {
        let mut windows = Windows::new(1);
        let mut description = described();
        windows.fit(&description);
        come(&mut windows, &[(None, 1.0), (None, 2.0), (None, 3.0)]);
        description.window_readings = 4;
        windows.fit(&description);
        let taken = windows.with("pump", &at(None, 4.0), &description);
        assert_eq!(taken, Ok(Taken::Window(vec![1.0, 2.0, 3.0, 4.0])));
        description.features = vec!["flow".into()];
        windows.fit(&description);
        assert_eq!(windows.devices(), 0);
    }
}
