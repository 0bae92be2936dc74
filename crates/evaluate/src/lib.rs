//! Load, statistics, experiments, report: how well a system does, seen from its client's side.
//!
//! Measures through public protocols alone, so that what we did not write is measured by the same means.

// They panic where nobody reads or the disk is full: `cli::say` and `cli::complain` do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod arms;
pub mod balancing;
mod blocks;
pub mod capacity;
pub mod cli;
pub mod environment;
pub mod figures;
pub mod gateway;
mod generator;
pub mod interference;
mod interrupt;
pub mod network;
mod priority;
mod privacy;
mod proc;
pub mod processing;
pub mod raw;
pub mod replay;
pub mod report;
pub mod rtt;
pub mod run;
mod servers;
pub mod simulation;
pub mod stats;
