//! A device's twin: what its operators desire and what it reports.

use serde_json::json;

use crate::document::Document;
use crate::edit::Undo;
use crate::limits::Limits;
use crate::patch::{Patch, PatchError};
use crate::seen::Author;

/// The two documents of a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Twin {
    /// Edited by operators and applications, read by the device.
    pub desired: Document,
    /// Edited by the device alone.
    pub reported: Document,
}

/// What came of a patch of the desired state.
#[derive(Clone, Debug, PartialEq)]
pub enum SetOutcome {
    /// It is in.
    Accepted {
        /// The version from now on.
        version: u64,
    },
    /// It was based on a version that is not the present one.
    Conflict {
        /// The version that it was based on.
        based_on: u64,
        /// The present one.
        version: u64,
    },
    /// It is no valid patch or would pass a limit.
    Refused(PatchError),
}

impl Twin {
    /// Applies the payload of `devices/{id}/twin/reported`, and says how [`Document::undo`] takes that back; `None`:
    /// all was so already. A `$version` in it is ignored, so that a device may report back what was desired as it came.
    ///
    /// # Errors
    /// Why the patch was refused; nothing was changed.
    pub fn report(
        &mut self,
        patch: &[u8],
        author: impl Into<Author>,
        limits: &Limits,
    ) -> Result<Option<Undo>, PatchError> {
        let patch = Patch::parse(patch, limits)?;
        self.reported.apply(patch, author, limits)
    }

    /// Applies the payload of `devices/{id}/twin/desired/set`, unless it is based on another version, and says how
    /// [`Document::undo`] takes that back; `None`: nothing was changed.
    pub fn set_desired(
        &mut self,
        patch: &[u8],
        author: impl Into<Author>,
        limits: &Limits,
    ) -> (SetOutcome, Option<Undo>) {
        let patch = match Patch::parse(patch, limits) {
            Ok(patch) => patch,
            Err(error) => return (SetOutcome::Refused(error), None),
        };
        let version = self.desired.version();
        if let Some(based_on) = patch.based_on().filter(|based_on| *based_on != version) {
            return (SetOutcome::Conflict { based_on, version }, None);
        }
        match self.desired.apply(patch, author, limits) {
            Ok(undo) => {
                let version = self.desired.version();
                (SetOutcome::Accepted { version }, undo)
            }
            Err(error) => (SetOutcome::Refused(error), None),
        }
    }

    /// The payload of `devices/{id}/twin/desired`: the whole desired state with its `$version`.
    #[must_use]
    pub fn desired_payload(&self) -> Vec<u8> {
        self.desired.to_versioned_json()
    }

    /// The whole reported state with its `$version`.
    #[must_use]
    pub fn reported_payload(&self) -> Vec<u8> {
        self.reported.to_versioned_json()
    }

    /// The payload of `devices/{id}/twin/get/result`: both states, whole, each with its `$version`.
    #[must_use]
    pub fn get_payload(&self) -> Vec<u8> {
        let (desired, reported) = (self.desired.to_versioned_json(), self.reported.to_versioned_json());
        [br#"{"desired":"#, &*desired, br#","reported":"#, &*reported, b"}"].concat()
    }

    /// The payload of `devices/{id}/twin/desired/set/result`: status 200 with the version, 409 with the present state,
    /// 400 or 413 with what is wrong.
    #[must_use]
    pub fn set_payload(&self, outcome: &SetOutcome) -> Vec<u8> {
        match outcome {
            SetOutcome::Accepted { version } => format!(r#"{{"status":200,"version":{version}}}"#).into_bytes(),
            SetOutcome::Conflict { based_on, version } => {
                let desired = self.desired.to_versioned_json();
                let rest = format!(
                    r#","message":"based on version {based_on}, but the desired state is at version {version}","status":409}}"#
                );
                [br#"{"desired":"#, &*desired, rest.as_bytes()].concat()
            }
            SetOutcome::Refused(error) => json!({"message": error.to_string(), "status": error.status()})
                .to_string()
                .into_bytes(),
        }
    }
}
