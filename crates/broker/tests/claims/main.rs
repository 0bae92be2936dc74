//! What the broker does, claim by claim.

mod delivery;
mod limits;
mod log;
mod memory;
mod outside;
mod retained;
mod sessions;
mod shared;
mod subscriptions;
mod wills;
mod world;
