//! What the processor says of its energy (RAPL), where it does.

use std::fs;

const PLACE: &str = "/sys/class/powercap";

/// Joules that all packages have used since some time; none where the machine does not say.
pub(super) fn energy_j() -> Option<f64> {
    let packages = fs::read_dir(PLACE).ok()?.flatten().filter(|entry| {
        let name = entry.file_name();
        // A package is `intel-rapl:0`; what has another colon is a part of one.
        name.to_string_lossy().matches(':').count() == 1
    });
    let used = packages.filter_map(|package| {
        let text = fs::read_to_string(package.path().join("energy_uj")).ok()?;
        text.trim().parse::<f64>().ok()
    });
    let used: Vec<f64> = used.collect();
    (!used.is_empty()).then(|| used.iter().sum::<f64>() / 1e6)
}

/// Joules since [`energy_j`] gave `before`; none where the machine does not say, or its counter has begun anew.
pub(super) fn used_j(before: Option<f64>) -> Option<f64> {
    let used_j = energy_j()? - before?;
    (used_j > 0.0).then_some(used_j)
}

/// What is to be said of it in a report.
pub(super) fn note(is_measured: bool) -> &'static str {
    if is_measured {
        "Power: of the processor's packages (RAPL)."
    } else {
        "Power: not measurable here: the machine has no /sys/class/powercap (RAPL), as most virtual machines; CPU seconds \
         stand in for it."
    }
}
