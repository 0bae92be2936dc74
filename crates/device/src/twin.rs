//! A device's twin: what its operators desire and what it reports.

use serde_json::{Value, json};

use crate::document::{Document, Side};
use crate::limits::Limits;
use crate::patch::{Patch, PatchError};

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
    /// It is in. `changed` is false where everything was so already: then there is nothing to log or publish.
    Accepted {
        /// The version from now on.
        version: u64,
        /// Whether it differs from the one before.
        changed: bool,
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
    /// Applies the payload of `devices/{id}/twin/reported`; true if that changed anything. A `$version` in it is
    /// ignored, so that a device may report back what was desired as it came.
    ///
    /// # Errors
    /// Why the patch was refused; nothing was changed.
    pub fn report(&mut self, patch: &[u8], side: Side, limits: &Limits) -> Result<bool, PatchError> {
        let patch = Patch::parse(patch, limits)?;
        self.reported.apply(&patch, side, limits)
    }

    /// Applies the payload of `devices/{id}/twin/desired/set`, unless it is based on another version.
    pub fn set_desired(&mut self, patch: &[u8], side: Side, limits: &Limits) -> SetOutcome {
        let patch = match Patch::parse(patch, limits) {
            Ok(patch) => patch,
            Err(error) => return SetOutcome::Refused(error),
        };
        let version = self.desired.version();
        if let Some(based_on) = patch.based_on().filter(|based_on| *based_on != version) {
            return SetOutcome::Conflict { based_on, version };
        }
        match self.desired.apply(&patch, side, limits) {
            Ok(changed) => SetOutcome::Accepted {
                version: self.desired.version(),
                changed,
            },
            Err(error) => SetOutcome::Refused(error),
        }
    }

    /// The payload of `devices/{id}/twin/desired`: the whole desired state with its `$version`.
    #[must_use]
    pub fn desired_payload(&self) -> Vec<u8> {
        self.desired.to_versioned_json().to_string().into_bytes()
    }

    /// The payload of `devices/{id}/twin/get/result`: both states, whole, each with its `$version`.
    #[must_use]
    pub fn get_payload(&self) -> Vec<u8> {
        let desired = self.desired.to_versioned_json();
        let reported = self.reported.to_versioned_json();
        json!({"desired": desired, "reported": reported})
            .to_string()
            .into_bytes()
    }

    /// The payload of `devices/{id}/twin/desired/set/result`: status 200 with the version, 409 with the present state,
    /// 400 or 413 with what is wrong.
    #[must_use]
    pub fn set_payload(&self, outcome: &SetOutcome) -> Vec<u8> {
        self.set_answer(outcome).to_string().into_bytes()
    }

    fn set_answer(&self, outcome: &SetOutcome) -> Value {
        match outcome {
            SetOutcome::Accepted { version, .. } => json!({"status": 200, "version": version}),
            SetOutcome::Conflict { based_on, version } => json!({
                "status": 409,
                "message": format!("based on version {based_on}, but the desired state is at version {version}"),
                "desired": self.desired.to_versioned_json(),
            }),
            SetOutcome::Refused(error) => json!({"status": error.status(), "message": error.to_string()}),
        }
    }
}
