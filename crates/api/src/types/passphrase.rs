//! A passphrase in JSON: its bytes in Base64.

use base64ct::{Base64, Encoding};
use seal::Passphrase;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

pub(super) fn serialize<S: Serializer>(passphrase: &Option<Passphrase>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = passphrase
        .as_ref()
        .map(|passphrase| Base64::encode_string(passphrase.expose()));
    text.map(Zeroizing::new).as_deref().serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Passphrase>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)?.map(Zeroizing::new) else {
        return Ok(None);
    };
    let bytes = Base64::decode_vec(&text).map_err(|_| D::Error::custom("passphrase is no Base64"))?;
    Passphrase::new(bytes).map(Some).map_err(D::Error::custom)
}
