//! Strict types of the YAML manifests, with errors that name file, line and field, and what would be right.
//!
//! [`parse`] reads a file of one or more documents, [`diff`] says what applying it would change, [`Resource::to_yaml`]
//! writes one back. What a manifest means is not known here: topic filters and conditions are checked by those who
//! compile them, and [`Document::error`] puts their findings at the right line.

mod diff;
mod document;
mod error;
mod hints;
mod load;
mod names;
mod node;
mod quantity;
mod read;
mod resource;
mod tree;
mod typed;
pub mod workload;

pub use diff::{Change, diff};
pub use document::{Document, Excerpt};
pub use error::{Error, Errors};
pub use load::{MAX_DEPTH, MAX_FILE_BYTES, MAX_NODES};
pub use names::nearest;
pub use read::parse;
pub use resource::{DEFAULT_TENANT, Device, Priority, Resource, Route, Target, Upstream, WhenFull};
