//! Origins of web pages, as browsers name them (RFC 6454).

use hyper::Uri;
use serde::{Deserialize, Serialize};

/// Scheme and host, with the port where it is not the usual one, and nothing behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Origin(String);

impl TryFrom<String> for Origin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_whole = |uri: &Uri| {
            let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
            Some(text == format!("{scheme}://{authority}") && !authority.as_str().contains('@'))
        };
        match text.parse::<Uri>().ok().as_ref().and_then(is_whole) {
            Some(true) => Ok(Self(text)),
            _ => Err(format!(
                "{text:?} is no origin; one is a scheme and a host, such as \"https://dash.example\" or \
                 \"http://dash.example:8080\""
            )),
        }
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host_and_nothing_behind() {
        let is_origin = |text: &str| Origin::try_from(text.to_owned()).is_ok();
        for good in ["https://dash.example", "http://127.0.0.1:8080", "http://[::1]:8080"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "",
            "*",
            "null",
            "dash.example",
            "https://",
            "https://dash.example/",
            "https://u@dash.example",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
