//! How many replicas of an application a node runs, by the requests that come to it. Pure: what is counted and the time come
//! in.
//!
//! It grows at once, and shrinks once it has needed no more for a while: the most that was needed in that time is kept
//! (the paper's future work: kubeedge-local-scheduling, 6).

use std::collections::VecDeque;
use std::time::Duration;

/// How often a [`Scaler`] looks.
pub const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// What is looked at goes back so far, and no further than to when other replicas were ready.
const WINDOW: Duration = Duration::from_secs(2);
/// And at least so far, where somebody is ready, before more are started.
const LEAST_WINDOW: Duration = Duration::from_millis(500);
/// By so much more than the aim is noise.
const TOLERANCE: f32 = 1.1;
/// That so many replicas were too few is remembered for so many times as long as nothing else is needed before they end.
const REMEMBERED: u32 = 10;
/// As many answers a second as there were then, or so much of them.
const ALIKE: f32 = 0.9;
/// Where those that were started last are not ready after this, no more can be had.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// By what replicas are enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// Each has so many requests at once, those that wait among them.
    Concurrency(f32),
    /// Answers take so long, on average. How many requests a replica may have at once for that is learnt, and from time to
    /// time one fewer is tried.
    Latency(Duration),
}

/// How an application scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Replicas at least, from 1 on.
    pub least: u32,
    /// And at most.
    pub most: u32,
    /// By what they are enough.
    pub aim: Aim,
    /// What has not been needed for so long is ended.
    pub settle: Duration,
}

/// What has come to an application at this node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Requests, and connections of all else, that wait or are being answered.
    pub under_way: f32,
    /// Of them, requests whose answer has not begun.
    pub waiting: f32,
    /// Requests whose answer has begun so far.
    pub answered: u64,
    /// How long that took of all of them together.
    pub took_s: f64,
}

/// What a [`Scaler`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// So many replicas are to run.
    pub count: u32,
    /// Whether there can be more of them here.
    pub may_grow: bool,
    /// So many are needed for all, wherever they are, as far as it can be seen.
    pub needed: u32,
}

/// How many replicas of one application are to run at this node, from one look to the next.
#[derive(Clone, Debug)]
pub struct Scaler {
    scaling: Scaling,
    /// What was seen while as many were ready as are now.
    seen: VecDeque<(Duration, Demand)>,
    ready: u32,
    /// Since when as many have been ready as are to run.
    complete_at: Duration,
    /// What was needed lately: the most of it first, each with less behind it that was needed later.
    needed: VecDeque<(Duration, u32)>,
    /// So many requests a replica may have at once for answers to be in time, as far as it is known.
    fits: Option<f32>,
    /// How many there were, and how long answers took, when more were started last because that was too long.
    tried: Option<(u32, f32)>,
    too_few: Option<TooFew>,
}

/// Replicas by which answers took too long.
#[derive(Clone, Copy, Debug)]
struct TooFew {
    count: u32,
    /// Answers then.
    per_s: f32,
    until: Duration,
}

impl Scaler {
    /// Of one of which `count` replicas run.
    #[must_use]
    pub fn new(scaling: Scaling, count: u32, now: Duration) -> Self {
        let count = count.clamp(scaling.least, scaling.most);
        Scaler {
            scaling,
            seen: VecDeque::new(),
            ready: 0,
            complete_at: now,
            needed: VecDeque::from([(now, count)]),
            fits: None,
            tried: None,
            too_few: None,
        }
    }

    /// How it scales.
    #[must_use]
    pub fn scaling(&self) -> Scaling {
        self.scaling
    }

    /// How many are to run, by what there is now; asked each [`LOOK_PAUSE`].
    pub fn look(&mut self, demand: Demand, ready: u32, now: Duration) -> Verdict {
        let Scaling { least, most, .. } = self.scaling;
        let count = self.count();
        if ready != self.ready {
            self.ready = ready;
            self.seen.clear();
        }
        // A service that is gone takes its answers with it.
        if self
            .seen
            .back()
            .is_some_and(|(_, last)| demand.answered < last.answered)
        {
            self.seen.clear();
        }
        self.seen.push_back((now, demand));
        while self.seen.front().is_some_and(|(at, _)| *at + WINDOW < now) {
            self.seen.pop_front();
        }
        if ready >= count {
            self.complete_at = now;
        }
        let needs = self.needs(count, now);
        if let Some(needs) = needs {
            // What starts is not there yet: its share cannot be seen in what is.
            let most_now = (2 * ready).saturating_add(1).max(count).clamp(least, most);
            let is_more = needs > TOLERANCE * count as f32;
            let up_to = if is_more { most_now } else { count };
            self.need((needs.ceil() as u32).clamp(least, up_to), now);
        }
        let count = self.count();
        Verdict {
            count,
            may_grow: count < most && now < self.complete_at + STUCK_AFTER,
            needed: needs.map_or(count, |needs| needs.ceil() as u32),
        }
    }

    fn count(&self) -> u32 {
        self.needed.front().map_or(self.scaling.least, |(_, count)| *count)
    }

    fn need(&mut self, wish: u32, now: Duration) {
        while self.needed.back().is_some_and(|(_, less)| *less <= wish) {
            self.needed.pop_back();
        }
        self.needed.push_back((now, wish));
        while self.needed.len() > 1 && self.needed[0].0 + self.scaling.settle < now {
            self.needed.pop_front();
        }
    }

    /// Replicas by which the aim is reached, which need not be a whole number; `None`: it cannot be seen yet.
    fn needs(&mut self, count: u32, now: Duration) -> Option<f32> {
        let seen_for = now - self.seen[0].0;
        if self.ready > 0 && seen_for < LEAST_WINDOW {
            return None;
        }
        let mean = |of: fn(&Demand) -> f32| {
            let all = self.seen.iter().map(|(_, demand)| of(demand));
            all.sum::<f32>() / self.seen.len() as f32
        };
        let aim = match self.scaling.aim {
            Aim::Concurrency(each) => return Some(mean(|demand| demand.under_way) / each),
            Aim::Latency(aim) => aim,
        };
        let waiting = mean(|demand| demand.waiting);
        if waiting == 0.0 {
            return Some(0.0);
        }
        let (first, last) = (self.seen[0].1, self.seen[self.seen.len() - 1].1);
        let answered = (last.answered - first.answered) as f32;
        let took_s = match answered {
            // The first of them has taken as long as was looked, and goes on.
            0.0 if first.waiting >= 1.0 && seen_for + LOOK_PAUSE >= WINDOW => WINDOW.as_secs_f32(),
            0.0 => return None,
            _ => (last.took_s - first.took_s) as f32 / answered,
        };
        // Of those that are to come it is not known how much they help.
        let is_complete = self.ready >= count.max(1);
        is_complete.then(|| self.needs_for(aim, waiting, (took_s, answered / seen_for.as_secs_f32()), now))
    }

    /// By requests that wait, how long answers take, and how many come a second.
    fn needs_for(&mut self, aim: Duration, waiting: f32, (took_s, per_s): (f32, f32), now: Duration) -> f32 {
        let (ready, aim_s) = (self.ready as f32, aim.as_secs_f32());
        if took_s <= TOLERANCE * aim_s {
            self.tried = None;
            let fits = self.fits.unwrap_or_default().max(waiting / ready);
            if took_s > aim_s {
                return ready;
            }
            self.fits = Some(fits);
            let too_few = self.too_few.filter(|few| now < few.until && per_s >= ALIKE * few.per_s);
            let at_least = too_few.map_or(0, |few| few.count + 1);
            return (waiting / fits).min(ready - 1.0).max(at_least.min(self.ready) as f32);
        }
        let is_as_before = |(before, before_s): (u32, f32)| {
            self.ready >= before && (before_s / TOLERANCE..=before_s * TOLERANCE).contains(&took_s)
        };
        if let Some((before, _)) = self.tried.filter(|tried| is_as_before(*tried)) {
            // More of them are no faster.
            return before as f32;
        }
        self.tried = Some((self.ready, took_s));
        self.too_few = Some(TooFew {
            count: self.ready,
            per_s,
            until: now + REMEMBERED * self.scaling.settle,
        });
        ready * (took_s / aim_s).min(2.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BinaryHeap;

    use proptest::prelude::{any, prop_assert, proptest};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const S: Duration = Duration::from_secs(1);
    const SERVICE: Duration = Duration::from_millis(8);

    /// Replicas under simulated time, which take some requests at once each, and are ready 300 ms after they are wanted.
    struct Node {
        at_once: u32,
        scaler: Scaler,
        ready: u32,
        starting: VecDeque<Duration>,
        waiting: VecDeque<Duration>,
        /// When each is answered, the next first, and when it came.
        answering: BinaryHeap<std::cmp::Reverse<(Duration, Duration)>>,
        demand: Demand,
        now: Duration,
        random: ChaCha8Rng,
    }

    impl Node {
        fn new(aim: Aim, most: u32, at_once: u32) -> Self {
            let scaling = Scaling {
                least: 1,
                most,
                aim,
                settle: 10 * S,
            };
            Node {
                at_once,
                scaler: Scaler::new(scaling, 1, Duration::ZERO),
                ready: 1,
                starting: VecDeque::new(),
                waiting: VecDeque::new(),
                answering: BinaryHeap::new(),
                demand: Demand::default(),
                now: Duration::ZERO,
                random: ChaCha8Rng::seed_from_u64(5),
            }
        }

        /// For so long with so many callers who ask again at once, and so many requests a second beside them. What was
        /// wanted, look for look.
        fn run(&mut self, time: Duration, callers: u32, per_s: f64) -> Vec<u32> {
            let mut counts = Vec::new();
            let until = self.now + time;
            while self.now < until {
                self.now += MS;
                while self.answering.peek().is_some_and(|next| next.0.0 <= self.now) {
                    let (at, came) = self.answering.pop().expect("it was looked at").0;
                    self.demand.answered += 1;
                    self.demand.took_s += (at - came).as_secs_f64();
                }
                if self.random.random_bool(per_s / 1_000.0) {
                    self.waiting.push_back(self.now);
                }
                while (self.waiting.len() + self.answering.len()) < callers as usize {
                    self.waiting.push_back(self.now);
                }
                while self.answering.len() < (self.ready * self.at_once) as usize
                    && let Some(came) = self.waiting.pop_front()
                {
                    self.answering.push(std::cmp::Reverse((self.now + SERVICE, came)));
                }
                self.demand.under_way = (self.waiting.len() + self.answering.len()) as f32;
                self.demand.waiting = self.demand.under_way;
                while self.starting.front().is_some_and(|at| *at <= self.now) {
                    self.starting.pop_front();
                    self.ready += 1;
                }
                if self.now.as_millis().is_multiple_of(LOOK_PAUSE.as_millis()) {
                    let count = self.scaler.look(self.demand, self.ready, self.now).count;
                    while self.ready + (self.starting.len() as u32) < count {
                        self.starting.push_back(self.now + 300 * MS);
                    }
                    self.ready = self.ready.min(count);
                    counts.push(count);
                }
            }
            counts
        }

        /// How long answers took on average from now on.
        fn took(&mut self, time: Duration, callers: u32, per_s: f64) -> Duration {
            let before = self.demand;
            self.run(time, callers, per_s);
            let answered = (self.demand.answered - before.answered) as f64;
            Duration::from_secs_f64((self.demand.took_s - before.took_s) / answered)
        }
    }

    #[test]
    fn replicas_are_as_many_as_concurrency_asks_for_within_seconds_and_fewer_once_that_is_over_for_a_while() {
        let mut node = Node::new(Aim::Concurrency(2.0), 8, 1);
        assert!(node.run(5 * S, 1, 0.0).iter().all(|count| *count == 1));
        assert_eq!(node.run(4 * S, 12, 0.0).last(), Some(&6));
        assert!(node.run(30 * S, 12, 0.0).iter().all(|count| *count == 6));
        assert_eq!(node.run(4 * S, 40, 0.0).last(), Some(&8));
        assert!(node.run(9 * S, 1, 0.0).iter().all(|count| *count == 8));
        assert_eq!(node.run(4 * S, 1, 0.0).last(), Some(&1));
    }

    #[test]
    fn requests_by_chance_do_not_make_replicas_come_and_go() {
        let mut node = Node::new(Aim::Concurrency(1.0), 8, 1);
        node.run(10 * S, 0, 400.0);
        let counts = node.run(100 * S, 0, 400.0);
        let changes = counts.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(changes <= 10, "{changes} changes in 100 s");
    }

    #[test]
    fn a_latency_is_kept_by_replicas_that_take_one_request_at_a_time() {
        let mut node = Node::new(Aim::Latency(20 * MS), 16, 1);
        node.run(15 * S, 16, 0.0);
        let took = node.took(30 * S, 16, 0.0);
        assert!(took <= 22 * MS, "{took:?}");
        let count = *node.run(S, 16, 0.0).last().unwrap();
        assert!((6..=9).contains(&count), "{count}");
        assert_eq!(node.run(25 * S, 1, 0.0).last(), Some(&1));
    }

    #[test]
    fn an_open_loop_of_three_times_what_one_can_do_is_answered_in_time_with_as_many_as_that_takes() {
        let mut node = Node::new(Aim::Latency(24 * MS), 16, 1);
        node.run(30 * S, 0, 375.0);
        let took = node.took(60 * S, 0, 375.0);
        assert!(took <= 26 * MS, "{took:?}");
        let count = *node.run(S, 0, 375.0).last().unwrap();
        assert!((4..=8).contains(&count), "{count}");
    }

    #[test]
    fn one_that_takes_many_at_once_stays_alone() {
        let mut node = Node::new(Aim::Latency(20 * MS), 16, 64);
        assert!(node.run(60 * S, 32, 0.0).iter().all(|count| *count == 1));
    }

    #[test]
    fn where_more_replicas_answer_no_faster_there_are_no_more_than_two() {
        let mut node = Node::new(Aim::Latency(2 * MS), 16, 64);
        assert!(node.run(60 * S, 32, 0.0).iter().all(|count| *count <= 2));
        assert_eq!(node.run(S, 32, 0.0).last(), Some(&1));
    }

    #[test]
    fn it_says_how_many_are_needed_and_that_it_cannot_grow_where_those_that_were_started_do_not_come() {
        let scaling = Scaling {
            least: 1,
            most: 4,
            aim: Aim::Concurrency(1.0),
            settle: 10 * S,
        };
        let mut scaler = Scaler::new(scaling, 1, Duration::ZERO);
        let demand = |under_way| Demand {
            under_way,
            ..Demand::default()
        };
        let mut last = None;
        for look in 1..130 {
            last = Some(scaler.look(demand(3.0), 1, look * LOOK_PAUSE));
        }
        assert_eq!(
            last,
            Some(Verdict {
                count: 3,
                may_grow: false,
                needed: 3
            })
        );
        for look in 130..160 {
            last = Some(scaler.look(demand(9.0), 3, look * LOOK_PAUSE));
        }
        assert_eq!(
            last,
            Some(Verdict {
                count: 4,
                may_grow: false,
                needed: 9
            })
        );
    }

    #[test]
    fn what_is_not_answered_at_all_has_one_more_tried_and_a_connection_that_asks_nothing_none() {
        let scaling = Scaling {
            least: 1,
            most: 8,
            aim: Aim::Latency(50 * MS),
            settle: 10 * S,
        };
        for (waiting, most) in [(0.0, 1), (1.0, 2)] {
            let mut scaler = Scaler::new(scaling, 1, Duration::ZERO);
            let demand = Demand {
                under_way: 1.0,
                waiting,
                ..Demand::default()
            };
            let mut ready = 1;
            for look in 1..600 {
                ready = scaler.look(demand, ready, look * LOOK_PAUSE).count;
                assert!(ready <= most, "{ready} at look {look}");
            }
        }
    }

    #[test]
    fn answers_of_a_service_that_is_gone_say_nothing() {
        let mut node = Node::new(Aim::Latency(20 * MS), 16, 64);
        node.run(5 * S, 4, 0.0);
        node.demand.answered = 0;
        node.demand.took_s = 0.0;
        assert!(node.run(5 * S, 4, 0.0).iter().all(|count| *count == 1));
    }

    proptest! {
        /// Whatever is seen, whether those that are wanted come or not.
        #[test]
        fn never_fewer_than_the_least_more_than_the_most_or_twice_as_many_as_are_ready_and_one(
            least in 1_u32..4,
            more in 0_u32..20,
            is_latency in any::<bool>(),
            looks in proptest::collection::vec((0.0_f32..2_000.0, 0_u64..50, 0.0_f64..3.0, 0_u32..24), 1..200),
        ) {
            let aim = if is_latency { Aim::Latency(20 * MS) } else { Aim::Concurrency(1.5) };
            let scaling = Scaling { least, most: least + more, aim, settle: 5 * S };
            let mut scaler = Scaler::new(scaling, 0, Duration::ZERO);
            let (mut demand, mut before) = (Demand::default(), least);
            for (look, (under_way, answered, took_s, ready)) in looks.into_iter().enumerate() {
                demand = Demand { under_way, waiting: under_way / 2.0, answered: demand.answered + answered, took_s: demand.took_s + took_s };
                let count = scaler.look(demand, ready, (look as u32 + 1) * LOOK_PAUSE).count;
                prop_assert!((least..=least + more).contains(&count));
                prop_assert!(count <= before || count <= (2 * ready + 1).max(least));
                before = count;
            }
        }
    }
}
