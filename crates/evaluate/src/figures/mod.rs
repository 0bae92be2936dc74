//! What the papers report, as data, and how a run of ours stands beside it (rules 12 and 13).
//!
//! `data/papers.json` holds the papers' requirements, figures and claims, each with its place. Absolute figures of
//! other hardware are shown beside ours; only the shape of a claim is tested.

mod balancing_claims;
mod beside;
mod claims;
mod gateway;
mod gateway_claims;
mod interference;
mod model_claims;
mod processing;

use serde::{Deserialize, Serialize};

use crate::interference::{Case, Group, Kind, Profile};
use crate::processing::{Model, Place, Task};

pub use balancing_claims::claims_of_balancing;
pub use beside::{Beside, beside};
pub use claims::{ClaimVerdict, Finding, Shape, claims};
pub use gateway::beside_gateway;
pub use gateway_claims::claims_of_gateway;
pub use interference::{beside_interference, claims_of_interference};
pub use processing::claims_of_processing;

/// What one paper contributes.
#[derive(Clone, Debug, Deserialize)]
pub struct Paper {
    /// Short name, that of its file among the seeds.
    pub key: String,
    /// Its title.
    pub title: String,
    /// What its figures were measured on.
    pub machine: String,
    /// What industry asks of latency, as the paper collects it.
    pub requirements: Vec<Requirement>,
    /// Its results.
    pub figures: Vec<Figure>,
    /// What it concludes from them, of round trips.
    #[serde(default)]
    pub claims: Vec<Claim<ShapeCheck>>,
    /// And of a gateway.
    #[serde(default)]
    pub gateway_claims: Vec<Claim<GatewayCheck>>,
    /// And of which node answers.
    #[serde(default)]
    pub balancing_claims: Vec<Claim<BalancingCheck>>,
    /// And of services that share a board.
    #[serde(default)]
    pub interference_claims: Vec<Claim<InterferenceCheck>>,
    /// And of what models cost.
    #[serde(default)]
    pub processing_claims: Vec<Claim<ProcessingCheck>>,
}

/// A class of applications and the latency that it asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// Unique key.
    pub id: String,
    /// The class of applications.
    pub name: String,
    /// An answer that takes longer is of no use, in ms.
    pub bound_ms: f64,
    /// Lower end where the paper gives a range, in ms: the demanding applications of the class.
    pub from_ms: Option<f64>,
    /// Whether the paper gives the bound as approximate.
    #[serde(default)]
    pub about: bool,
    /// Section, table or figure.
    pub place: String,
}

/// One reported figure.
#[derive(Clone, Debug, Deserialize)]
pub struct Figure {
    /// Unique key.
    pub id: String,
    /// What was measured.
    pub metric: String,
    /// One number, or several.
    pub value: Value,
    /// Unit of the value.
    pub unit: String,
    /// How the value is meant.
    pub qualifier: Qualifier,
    /// D-C, D-E-C, D-E or the baseline.
    pub model: Option<String>,
    /// Under which conditions, in words.
    pub conditions: Option<String>,
    /// Section, table or figure.
    pub place: String,
    /// What of a round trip of ours stands beside it; absent where that experiment has no counterpart.
    pub ours: Option<Counterpart>,
    /// What of a gateway of ours does.
    pub gateway: Option<RowOfGateway>,
    /// What a service of ours loses beside another one does.
    pub interference: Option<LossOf>,
}

/// The value of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// One number.
    One(f64),
    /// A range or a list.
    Several(Vec<f64>),
    /// What is said without a number.
    Words(String),
}

/// How a paper means a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Qualifier {
    /// As printed.
    Exact,
    /// "Around".
    Approx,
    /// "Below".
    UpperBound,
    /// "Above".
    LowerBound,
    /// From … to.
    Range,
    /// Each of these.
    List,
    /// Where something begins.
    Threshold,
}

/// Which row of a gateway's table stands beside a figure.
#[derive(Clone, Debug, Deserialize)]
pub struct RowOfGateway {
    /// What of it.
    pub statistic: RowStatistic,
    /// What it is called, but for the arm.
    pub row: String,
    /// Of which arms, each that was measured; none = the row has none in its name.
    #[serde(default)]
    pub arms: Vec<String>,
}

/// What is taken from a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowStatistic {
    /// Its figure.
    Figure,
    /// By how much it is more than its baseline, in percent.
    Added,
    /// By how much it is less, in percent.
    Lost,
}

/// Which of our results stands beside a figure.
#[derive(Clone, Debug, Deserialize)]
pub struct Counterpart {
    /// What of it.
    pub statistic: Statistic,
    /// Of which arms, each that was measured.
    pub arms: Vec<String>,
    /// In cells of these intervals.
    pub interval_ms: Option<Vec<f64>>,
    /// In cells of this payload.
    pub payload_bytes: Option<u32>,
    /// In cells of so many devices.
    pub devices: Option<u32>,
    /// In cells of this bandwidth between edge and cloud.
    pub bandwidth_bit_per_s: Option<u64>,
}

/// What is taken from a counterpart's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// Mean response time.
    Mean,
    /// Longest response time.
    Worst,
    /// Mean as a multiple of that at the smallest payload of the sweep.
    Growth,
    /// The shortest interval from which on all are deterministic.
    DeterministicFrom,
    /// What is added to p50 by the way through the edge.
    Added,
    /// By how much the mean at 128 kbit/s is more than at 10 Mbit/s, in percent.
    Narrowed,
    /// By how much the mean with 20 devices is more than with one, in percent.
    Crowded,
}

/// A statement of a paper and how its shape is tested.
#[derive(Clone, Debug, Deserialize)]
pub struct Claim<Check> {
    /// Unique key.
    pub id: String,
    /// In our words.
    pub statement: String,
    /// Section, table or figure.
    pub place: String,
    /// The test.
    pub check: Check,
}

/// Tests of shape.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ShapeCheck {
    /// Deterministic, and medians alike, at intervals from `interval_ms` on.
    FlatAbove {
        /// In ms.
        interval_ms: f64,
    },
    /// Buffering at some interval below `below_interval_ms`.
    TrendPositive {
        /// In ms.
        below_interval_ms: f64,
    },
    /// Medians alike up to `payload_bytes`, higher at ten times that.
    FlatBelow {
        /// In bytes.
        payload_bytes: u32,
    },
    /// Each arm's median below the next one's, in every cell that both were measured in.
    Order {
        /// Names of arms.
        ascending: Vec<String>,
        /// What the claim speaks of beside them.
        needs: String,
    },
    /// A higher median with `to` devices than with `from`.
    GrowsWithDevices {
        /// Devices.
        from: u32,
        /// Devices.
        to: u32,
        /// Models, from the one that loses least.
        order: Vec<String>,
        /// What the claim speaks of beside it, where those were not measured.
        needs: String,
    },
    /// The least median of a sweep over QoS is at `qos`.
    LeastAtQos {
        /// QoS.
        qos: u8,
    },
    /// The way through the edge takes longer than the direct one.
    Adds {
        /// The model that goes through it.
        arm: String,
        /// What it takes.
        needs: String,
    },
    /// Medians grow as the line narrows, less than in proportion down to one bandwidth, clearly at another.
    Narrows {
        /// In bits a second.
        flat_from_bit_per_s: u64,
        /// In bits a second.
        loss_at_bit_per_s: u64,
    },
    /// This experiment has nothing of it.
    NotMeasured {
        /// What it would take.
        needs: String,
    },
}

/// Tests of shape on the rows of a gateway's table.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GatewayCheck {
    /// The same in a container as natively: the whole interval of the ratio is within a share of 1, at every number of
    /// instances.
    Unchanged {
        /// What the rows are called, but for instances and arm.
        rows: Vec<String>,
        /// Arms, each a finding of its own.
        arms: Vec<String>,
        /// The share.
        within: f64,
        /// With at least so many instances at a time.
        #[serde(default)]
        instances_from: u32,
    },
    /// Less in a container than natively, by more than a share, at every number of instances.
    Loses {
        /// What the row is called, but for instances and arm.
        row: String,
        /// Arms, each a finding of its own.
        arms: Vec<String>,
        /// The share.
        more_than: f64,
    },
    /// A share of a core in a container that is natively the same or a little less, at every number of instances.
    AddsAtMost {
        /// What the row is called, but for instances and arm.
        row: String,
        /// Arms, each a finding of its own.
        arms: Vec<String>,
        /// The most that is added, as a share of a core.
        bound: f64,
    },
    /// A figure no more than a bound.
    AtMost {
        /// The row.
        row: String,
        /// In the row's unit.
        bound: f64,
    },
    /// A figure above others.
    Most {
        /// The row.
        row: String,
        /// The others.
        others: Vec<String>,
    },
    /// A figure below others.
    Least {
        /// The row.
        row: String,
        /// The others.
        others: Vec<String>,
    },
    /// Less than the baseline of the row.
    Saves {
        /// The rows, each a finding of its own.
        rows: Vec<String>,
    },
    /// No run on one machine has anything of it.
    NotMeasured {
        /// What it would take.
        needs: String,
    },
}

/// Tests of shape on the cells of a site.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BalancingCheck {
    /// One node alone: more answers a second with each more pods, and they take less.
    GrowsWithPods {
        /// At a time.
        clients: u32,
    },
    /// Without a delay, as many answers a second however pods are distributed.
    DistributionsAlike {
        /// At a time.
        clients: u32,
        /// The share by which the fewest may be from the most.
        within: f64,
    },
    /// More answers a second the more pods the node has that is asked.
    DistributionsOrdered {
        /// At a time.
        clients: u32,
        /// Each a finding of its own.
        round_trips_ms: Vec<u32>,
    },
    /// `local` answers more a second than `round-robin`, and faster, each distribution a finding of its own.
    LocalBeatsRoundRobin,
    /// Under `round-robin`, clients of the nodes that are asked least wait longest, where there are such.
    LeastTrafficWaitsLongest,
}

/// What a service loses beside another one.
#[derive(Clone, Debug, Deserialize)]
pub struct LossOf {
    /// On which board.
    pub profile: Profile,
    /// Which service.
    pub kind: Kind,
    /// How they are deployed.
    pub case: Case,
    /// In which pair.
    pub pair: (Kind, Kind),
    /// Whether it is so however they are deployed.
    #[serde(default)]
    pub any_case: bool,
}

impl LossOf {
    fn group(&self) -> Group {
        Group::Pair(self.pair.0, self.pair.1)
    }
}

/// Tests of shape on services that share a board.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InterferenceCheck {
    /// The service loses more there than in any other pair and case.
    LosesMost(LossOf),
    /// It loses less there.
    LosesLeast(LossOf),
    /// In every pair it loses less in one case than in others.
    BetterCase {
        /// On which board.
        profile: Profile,
        /// Which service.
        kind: Kind,
        /// The case.
        better: Case,
        /// The others.
        than: Vec<Case>,
    },
    /// It loses more than a little there alone.
    OnlyLoser(LossOf),
    /// Bonnie++ reads faster than it writes, alone.
    FasterInput {
        /// On which board.
        profile: Profile,
    },
}

/// Tests of shape on what models cost.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProcessingCheck {
    /// As long as on the host, within a share.
    Same {
        /// Of these models.
        models: Vec<Model>,
        /// What is done.
        task: Task,
        /// Each a finding of its own.
        places: Vec<Place>,
        /// The share.
        within: f64,
    },
    /// More than so many times as long as on the host.
    Longer {
        /// Of these models.
        models: Vec<Model>,
        /// What is done.
        task: Task,
        /// Each a finding of its own.
        places: Vec<Place>,
        /// The times.
        times: f64,
    },
    /// Faster with all of the machine than within the board, every model.
    Faster {
        /// What is done.
        task: Task,
    },
}

#[derive(Deserialize)]
struct Papers {
    papers: Vec<Paper>,
}

/// The papers that this program knows.
///
/// # Panics
/// Never: the data are part of the program, and tested.
pub fn papers() -> Vec<Paper> {
    let data: Papers =
        serde_json::from_str(include_str!("../../data/papers.json")).expect("papers.json is well formed");
    data.papers
}

/// The first paper, whose experiment 1 `evaluate rtt` repeats.
///
/// # Panics
/// Never: the data are part of the program, and tested.
pub fn client_perspective() -> Paper {
    paper("edge-cloud-client-perspective")
}

/// The gateway paper, whose evaluations `evaluate gateway` repeats.
///
/// # Panics
/// Never: the data are part of the program, and tested.
pub fn gateway_as_a_service() -> Paper {
    paper("gateway-as-a-service")
}

/// The load-balancing paper, whose evaluations `evaluate balancing` repeats.
///
/// # Panics
/// Never: the data are part of the program, and tested.
pub fn local_scheduling() -> Paper {
    paper("kubeedge-local-scheduling")
}

/// The interference paper, whose cases `evaluate interference` repeats.
///
/// # Panics
/// Never: the data are part of the program, and tested.
pub fn microservice_interference() -> Paper {
    paper("microservice-interference")
}

fn paper(key: &str) -> Paper {
    papers()
        .into_iter()
        .find(|paper| paper.key == key)
        .expect("the paper is in papers.json")
}

impl Requirement {
    /// The bound in words, such as `2–10 ms` or `< 2 ms`.
    pub fn bound(&self) -> String {
        let scaled = |ms: f64| if ms >= 1000.0 { (ms / 1000.0, "s") } else { (ms, "ms") };
        let (bound, unit) = scaled(self.bound_ms);
        match self.from_ms {
            Some(from) => format!("{from}–{bound} {unit}"),
            None if self.about => format!("~ {bound} {unit}"),
            None => format!("< {bound} {unit}"),
        }
    }
}

impl Figure {
    /// The value in words, such as `< 80 ms`.
    pub fn reported(&self) -> String {
        let numbers = match &self.value {
            Value::One(number) => number.to_string(),
            Value::Several(numbers) => {
                let between = if self.qualifier == Qualifier::Range {
                    " … "
                } else {
                    ", "
                };
                numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(between)
            }
            Value::Words(words) => return words.clone(),
        };
        let sign = match self.qualifier {
            Qualifier::Approx => "~ ",
            Qualifier::UpperBound => "< ",
            Qualifier::LowerBound => "> ",
            _ => "",
        };
        match self.unit.as_str() {
            "times" => format!("{sign}{numbers} ×"),
            unit => format!("{sign}{numbers} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_are_well_formed_and_their_keys_unique() {
        let (first, gateway) = (client_perspective(), gateway_as_a_service());
        let mut keys: Vec<&str> = first.requirements.iter().map(|r| r.id.as_str()).collect();
        let figures = first.figures.iter().chain(&gateway.figures);
        keys.extend(figures.map(|figure| figure.id.as_str()));
        keys.extend(first.claims.iter().map(|claim| claim.id.as_str()));
        keys.extend(first.processing_claims.iter().map(|claim| claim.id.as_str()));
        keys.extend(gateway.gateway_claims.iter().map(|claim| claim.id.as_str()));
        let balancing = local_scheduling();
        keys.extend(balancing.balancing_claims.iter().map(|claim| claim.id.as_str()));
        let interference = microservice_interference();
        keys.extend(interference.figures.iter().map(|figure| figure.id.as_str()));
        keys.extend(interference.interference_claims.iter().map(|claim| claim.id.as_str()));
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
        assert_eq!((first.requirements.len(), first.claims.len()), (7, 9));
        assert_eq!((gateway.claims.len(), gateway.gateway_claims.len()), (0, 16));
    }

    #[test]
    fn values_read_as_the_paper_means_them() {
        let paper = client_perspective();
        let figure = |id: &str| paper.figures.iter().find(|figure| figure.id == id).unwrap().reported();
        assert_eq!(figure("s0.e1.interval.paho.worst"), "< 80 ms");
        assert_eq!(figure("s0.e1.interval.dc.mean"), "~ 114 ms");
        assert_eq!(figure("s0.e1.payload.rise_at"), "100, 250 KB");
        assert_eq!(figure("s0.e1.payload.factor250.de"), "1.96 ×");
        let gateway = gateway_as_a_service();
        let figure = |id: &str| {
            gateway
                .figures
                .iter()
                .find(|figure| figure.id == id)
                .unwrap()
                .reported()
        };
        assert_eq!(figure("s4.general.disk.write.rpi2"), "~ 50 %");
        assert_eq!(figure("s4.general.cpu"), "negligible");
    }

    #[test]
    fn bounds_of_requirements_read_as_in_the_paper() {
        let paper = client_perspective();
        let bounds: Vec<String> = paper.requirements.iter().map(Requirement::bound).collect();
        assert_eq!(
            bounds,
            [
                "< 2 ms",
                "2–10 ms",
                "~ 50 ms",
                "10–100 ms",
                "40–500 ms",
                "< 1 s",
                "< 200 ms"
            ]
        );
    }
}
