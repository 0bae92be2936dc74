//! What a request is answered that cannot be done.

use crate::types::Failure;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A status and, in words, what happened and what would be right.
#[derive(Debug)]
pub(crate) struct Wrong {
    status: StatusCode,
    message: String,
    retry_after_s: Option<u64>,
}

pub(crate) type Done<T> = Result<T, Wrong>;

impl Wrong {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry_after_s: None,
        }
    }

    /// Says when it may go better.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// With a remark behind it.
    pub(crate) fn noting(mut self, remark: &str) -> Self {
        self.message += &format!("   ({remark})");
        self
    }

    /// 400: the request itself is at fault.
    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404.
    pub(crate) fn absent(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// 500: this side is at fault.
    pub(crate) fn here(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// 503: the hub gave no answer.
    pub(crate) fn no_answer() -> Self {
        let message = "the hub gave no answer: it is stopping, or its log is full or has stopped; see its log";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Failure { error: self.message })).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<identity::NameError> for Wrong {
    fn from(error: identity::NameError) -> Self {
        Self::request(error.to_string())
    }
}

impl From<identity::RegistryError> for Wrong {
    fn from(error: identity::RegistryError) -> Self {
        use identity::RegistryError as E;
        let status = match error {
            E::NoClient(_) | E::NoTenant(_) | E::NoUser(_) | E::NoCredential { .. } | E::NoInvitation(_) => {
                StatusCode::NOT_FOUND
            }
            E::ClientExists { .. }
            | E::TenantExists(_)
            | E::UserExists(_)
            | E::TenantNotEmpty(_)
            | E::TooManyTokenKeys { .. } => StatusCode::CONFLICT,
            E::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl From<identity::IdentityError> for Wrong {
    fn from(error: identity::IdentityError) -> Self {
        match error {
            identity::IdentityError::Registry(error) => error.into(),
            identity::IdentityError::Password(error) => Self::request(error.to_string()),
            other => Self::here(other.to_string()),
        }
    }
}

impl From<hub::StartError> for Wrong {
    fn from(error: hub::StartError) -> Self {
        Self::here(error.to_string())
    }
}
