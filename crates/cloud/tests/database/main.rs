//! The telemetry database through its public face, on SQLite and on PostgreSQL.

mod cluster;
mod common;
mod once;
mod place;
mod queries;
mod rejected;
