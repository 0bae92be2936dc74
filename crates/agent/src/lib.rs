//! Applications: runs what manifests describe, and keeps it running.
//!
//! Each container has a [`shim`] of its own, a process that outlives the agent: it starts the container, keeps its
//! log and its end. Whoever runs the agent again finds by the files of a container what became of it meanwhile.

pub mod cgroup;
pub mod disk;
pub mod engine;
mod freezer;
pub mod image;
pub mod instance;
pub mod local;
pub mod logins;
mod moves;
pub mod network;
pub mod probe;
pub mod runtime;
pub mod runtimes;
pub mod shim;
pub mod snapshot;
pub mod sockets;
pub mod supervise;
mod tail;
mod throttle;
mod tools;
mod tree;
pub mod workload;
