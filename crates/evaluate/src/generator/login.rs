//! Who the clients of an arm log in as.

use std::fmt;
use std::sync::Arc;

use super::role::device_id;

/// Client id of the responder, and its user name where it has one of its own.
pub(crate) const RESPONDER_ID: &str = "responder";

/// User name and password of each client.
#[derive(Clone)]
pub(crate) enum Login {
    /// The server takes anybody.
    Anonymous,
    /// One user for all clients.
    Shared {
        user_name: String,
        password: Option<Secret>,
    },
    /// Each client with a password of its own; its user name is its client id.
    Own(Arc<Passwords>),
}

/// Passwords by client.
pub(crate) struct Passwords {
    /// By number of the device.
    pub(crate) devices: Vec<Secret>,
    pub(crate) responder: Secret,
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Login::Anonymous => "Anonymous",
            Login::Shared { .. } => "Shared",
            Login::Own(_) => "Own",
        })
    }
}

impl Login {
    /// User name and password of a device, or of the responder.
    pub(crate) fn of(&self, device: Option<u32>) -> Option<(String, Option<Secret>)> {
        match self {
            Login::Anonymous => None,
            Login::Shared { user_name, password } => Some((user_name.clone(), password.clone())),
            Login::Own(passwords) => Some(match device {
                Some(device) => (device_id(device), passwords.devices.get(device as usize).cloned()),
                None => (RESPONDER_ID.to_owned(), Some(passwords.responder.clone())),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_password_and_none_is_shown() {
        let secret = |text: &str| Secret(text.to_owned());
        let login = Login::Own(Arc::new(Passwords {
            devices: vec![secret("first"), secret("second")],
            responder: secret("third"),
        }));
        assert_eq!(login.of(Some(1)), Some(("device-1".to_owned(), Some(secret("second")))));
        assert_eq!(login.of(None), Some(("responder".to_owned(), Some(secret("third")))));
        assert!(!format!("{login:?} {:?}", login.of(Some(0))).contains("first"));
    }
}
