//! Twins and method calls of devices as pure state: JSON and times go in, JSON and outcomes come out.
//! Knows no socket, disk or clock, and nothing of who may do what.
//!
//! - [`topic`]: what a topic under `devices/` is for;
//! - [`Twin`]: the desired and the reported state of a device, patched and versioned, merged between edge and cloud;
//! - [`Calls`]: the method calls that wait for their result.

pub mod topic;

mod calls;
mod codec;
mod deadlines;
mod document;
mod edit;
mod failure;
mod json;
mod limits;
mod memory;
mod merge;
mod patch;
mod seen;
mod twin;

pub use calls::{CallId, CallLimits, Calls, Finished, LONGEST_TIMEOUT_MS, NotStarted, StartError, Timeout};
pub use codec::DecodeError;
pub use document::Document;
pub use edit::Undo;
pub use failure::{CallFailure, MAX_CORRELATION_BYTES};
pub use limits::Limits;
pub use merge::{Conflict, Merged, MergedTwin, merge};
pub use patch::{Patch, PatchError};
pub use seen::{Author, Seen, Side, Stamp};
pub use twin::{SetOutcome, Twin};
