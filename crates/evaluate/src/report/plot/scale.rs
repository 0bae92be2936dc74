//! From values to positions, and the ticks between.

/// How values are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In proportion.
    Linear,
    /// By their logarithm.
    Log,
    /// A percentile by the logarithm of 1/(1 − q), so that each further nine takes the same room.
    Percentile,
}

/// From a range of values to a range of positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// `low` and `high` go to `from` and `to`.
    pub(super) fn new(kind: Kind, (low, high): (f64, f64), (from, to): (f64, f64)) -> Scale {
        Scale {
            kind,
            low,
            high,
            from,
            to,
        }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let spread = |value: f64| match self.kind {
            Kind::Linear => value,
            Kind::Log => value.max(f64::MIN_POSITIVE).ln(),
            Kind::Percentile => -(1.0 - value).max(1e-12).log10(),
        };
        let (low, high) = (spread(self.low), spread(self.high));
        let share = if high > low {
            (spread(value) - low) / (high - low)
        } else {
            0.5
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Values to mark, some three to nine of them.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let within = |ticks: Vec<f64>| -> Vec<f64> {
            let slack = (self.high - self.low) * 1e-9;
            ticks
                .into_iter()
                .filter(|tick| *tick >= self.low - slack && *tick <= self.high + slack)
                .collect()
        };
        match self.kind {
            Kind::Linear => within(linear(self.low, self.high)),
            Kind::Log => within(logarithmic(self.low, self.high)),
            Kind::Percentile => within(vec![0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999]),
        }
    }
}

fn linear(low: f64, high: f64) -> Vec<f64> {
    let rough = ((high - low) / 5.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let first = (low / step).ceil();
    (0..=10).map(|i| (first + f64::from(i)) * step).collect()
}

fn logarithmic(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = match decades {
        _ if decades < 1.0 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        _ if decades < 3.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    powers
        .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
        .collect()
}

/// The range of `values` for an axis, and whether it needs a logarithm: over a factor of ten it does, below it starts
/// at zero where values come near it. `None` without a positive value.
pub(super) fn range(values: impl Iterator<Item = f64>) -> Option<(Kind, (f64, f64))> {
    let positive = values.filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if high == 0.0 {
        None
    } else if high / low > 10.0 {
        Some((Kind::Log, (low * 0.9, high * 1.1)))
    } else {
        Some((Kind::Linear, (0.0, high * 1.05)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithm_gives_each_factor_the_same_room() {
        let scale = Scale::new(Kind::Log, (1.0, 100.0), (0.0, 10.0));
        assert!((scale.at(10.0) - 5.0).abs() < 1e-9);
        assert_eq!(scale.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn each_nine_of_a_percentile_takes_the_same_room() {
        let scale = Scale::new(Kind::Percentile, (0.0, 0.999), (0.0, 3.0));
        for (q, position) in [(0.0, 0.0), (0.9, 1.0), (0.99, 2.0), (0.999, 3.0)] {
            assert!((scale.at(q) - position).abs() < 1e-9, "p{q}");
        }
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(
            Scale::new(Kind::Linear, (0.0, 230.0), (0.0, 1.0)).ticks(),
            [0.0, 50.0, 100.0, 150.0, 200.0]
        );
    }

    #[test]
    fn values_over_a_factor_of_ten_apart_get_a_logarithm() {
        assert_eq!(range([10.0, 90.0].into_iter()).unwrap().0, Kind::Linear);
        assert_eq!(range([1.0, 90.0].into_iter()).unwrap().0, Kind::Log);
        assert_eq!(range([f64::INFINITY, 0.0].into_iter()), None);
    }
}
