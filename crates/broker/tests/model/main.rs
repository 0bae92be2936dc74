//! A broker under random operations, beside a reference that is too simple to be wrong.
//!
//! `MODEL_SEED=n` repeats one sequence and tells what happens in it; `MODEL_SEQUENCES=n` sets how many are run.

mod check;
mod client;
mod outside;
mod reference;
mod restart;
mod rng;
mod run;
mod traffic;
mod upkeep;

use std::hash::{BuildHasher, RandomState};

const STEPS: usize = 400;
const SEQUENCES: u64 = 2_000;

#[test]
fn random_operations_break_no_promise() {
    if let Some(seed) = variable("MODEL_SEED") {
        return sequence(seed, true);
    }
    let first = RandomState::new().hash_one(0) >> 16;
    let count = variable("MODEL_SEQUENCES").unwrap_or(SEQUENCES);
    println!("{count} sequences from seed {first}");
    (first..first + count).for_each(|seed| sequence(seed, false));
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

fn sequence(seed: u64, is_traced: bool) {
    let named = Named(seed);
    let mut run = run::Run::new(seed);
    run.out.is_traced = is_traced;
    for _ in 0..STEPS {
        run.step();
    }
    run.finish();
    drop(named);
}

/// Says which seed failed.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("repeat with MODEL_SEED={}", self.0);
        }
    }
}
