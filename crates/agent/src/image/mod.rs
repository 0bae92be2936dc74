//! Images: what containers are made of.

pub mod archive;
pub mod build;
pub(crate) mod name;
pub mod registry;
pub mod retention;
pub mod store;
pub mod unpack;
pub(crate) mod users;
