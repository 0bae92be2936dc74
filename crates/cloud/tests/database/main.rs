//! The telemetry database through its public face, on SQLite and on PostgreSQL.

mod cluster;
mod common;
mod faults;
mod file;
mod live;
mod model;
mod once;
mod opening;
mod place;
mod queries;
mod questions;
mod rejected;
mod retention;
mod tls;
mod tmpfs;
mod values;
