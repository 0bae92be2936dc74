//! The first paper's Table III (edge-cloud-client-perspective, Sec. VI-B), each column beside the place it is of.

use super::record::{Job, Model, Place, Task};

/// A column of it for a task. Per cent of a core (400 are four), of the whole machine, and of its memory (1 GB on the
/// board, 16 GB in the cloud).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Column {
    /// Execution time in ms; the paper's own is not legible for one.
    pub(crate) time_ms: Option<f64>,
    /// Of the process: peak, average; and of the system.
    pub(crate) cpu_percent: [f64; 3],
    /// The same of memory.
    pub(crate) memory_percent: [f64; 3],
}

const fn of(time_ms: f64, cpu_percent: [f64; 3], memory_percent: [f64; 3]) -> Column {
    Column {
        time_ms: Some(time_ms),
        cpu_percent,
        memory_percent,
    }
}

/// What the paper has of a cell: its container beside `oci` and `docker` alike; of a process by an edge it has nothing.
pub(crate) fn column(job: Job) -> Option<Column> {
    let place = match job.place {
        Place::Host => 0,
        Place::Oci | Place::Docker => 1,
        Place::Cloud => 2,
        Place::HostAgain | Place::Process => return None,
    };
    let columns = match (job.task, job.model) {
        (Task::Training, Model::Regression) => [
            of(320.0, [101.0, 99.71, 26.16], [8.5, 8.15, 76.55]),
            of(341.0, [212.0, 176.43, 70.72], [8.1, 7.68, 84.14]),
            of(26.0, [291.0, 274.05, 76.49], [0.6, 0.55, 7.03]),
        ],
        (Task::Training, Model::Autoencoder) => [
            of(39_134.0, [125.0, 117.71, 35.36], [21.8, 21.76, 88.65]),
            of(40_915.0, [127.0, 119.9, 37.13], [22.1, 21.74, 93.56]),
            of(4_293.0, [176.0, 175.5, 40.35], [1.4, 1.4, 8.34]),
        ],
        (Task::Training, Model::LstmEd) => [
            of(1_304_000.0, [134.0, 127.85, 37.14], [31.4, 30.58, 95.2]),
            of(1_339_000.0, [136.0, 130.34, 38.48], [32.0, 30.94, 95.68]),
            Column {
                time_ms: None,
                ..of(0.0, [280.0, 239.0, 77.67], [2.3, 2.3, 6.93])
            },
        ],
        (Task::Prediction, Model::Regression) => [
            of(0.317, [100.0, 99.5, 25.79], [6.8, 6.8, 75.64]),
            of(0.323, [209.0, 188.66, 25.86], [6.4, 6.4, 84.2]),
            of(0.075, [285.0, 236.4, 25.16], [0.5, 0.5, 6.98]),
        ],
        (Task::Prediction, Model::Autoencoder) => [
            of(199.11, [124.0, 115.91, 26.21], [30.9, 26.21, 92.32]),
            of(203.56, [125.0, 121.6, 26.26], [25.0, 23.53, 95.57]),
            of(0.988, [166.0, 154.73, 26.4], [1.6, 1.52, 8.43]),
        ],
        (Task::Prediction, Model::LstmEd) => [
            of(314.55, [132.0, 130.36, 27.03], [33.6, 32.2, 93.84]),
            of(716.0, [136.0, 133.68, 27.69], [33.0, 31.51, 94.63]),
            of(7.26, [294.0, 282.73, 67.18], [2.3, 2.3, 6.94]),
        ],
    };
    Some(columns[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_container_stands_beside_both_runtimes_and_its_own_ratios_follow() {
        let time_ms = |model, task, place| column(Job { model, task, place }).and_then(|column| column.time_ms);
        let of = |place| time_ms(Model::LstmEd, Task::Training, place);
        assert_eq!(of(Place::Oci), of(Place::Docker));
        // It gives 35 s and 2.6 %.
        assert_eq!(of(Place::Oci).unwrap() - of(Place::Host).unwrap(), 35_000.0);
        assert_eq!(of(Place::Process), None);
        let faster =
            |task, model| time_ms(model, task, Place::Oci).unwrap() / time_ms(model, task, Place::Cloud).unwrap();
        // And 13 and 9.5 times, and 98.6.
        assert_eq!(faster(Task::Training, Model::Regression).round(), 13.0);
        assert_eq!((faster(Task::Training, Model::Autoencoder) * 10.0).round(), 95.0);
        assert_eq!((faster(Task::Prediction, Model::LstmEd) * 10.0).round(), 986.0);
    }
}
