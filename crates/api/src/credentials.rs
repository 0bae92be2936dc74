//! What devices and apps prove themselves by: asked for, handed out, replaced.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use identity::{Action, ClientKind, ClientName, Issued, Secret};

use crate::clients::{Kinds, find};
use crate::desk::Desk;
use crate::types::{Added, Credential, IssuedCredential, Replace};
use crate::unix_now_s;
use crate::wrong::Done;

/// `POST /v1/tenants/{tenant}/devices/{id}/credential`: one in place of all that it had; its connections end.
pub(crate) async fn replace(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds, id)): Path<(String, Kinds, String)>,
    Json(Replace { credential }): Json<Replace>,
) -> Done<Json<Added>> {
    let name = ClientName::new(&tenant, &id)?;
    let kind = ClientKind::from(kinds);
    find(&desk, &name, kind).await?;
    let what = described(&credential);
    let (wanted, named) = (wanted(&credential), name.clone());
    let issued = desk
        .with_identity(move |identity| identity.replace(&named, &wanted, unix_now_s()))
        .await?;
    desk.account_for(Action::Changed, &name, what);
    desk.settle().await?;
    Ok(Json(handed_out(&name, kind, issued)))
}

/// What its owner is told, this once.
pub(crate) fn handed_out(name: &ClientName, kind: ClientKind, issued: Issued) -> Added {
    Added {
        kind: kind.to_string(),
        tenant: name.tenant().to_string(),
        is_new_tenant: false,
        id: name.id().to_string(),
        user_name: name.user_name(),
        issued: issued_credential(issued),
    }
}

/// The credential that is asked for.
pub(crate) fn wanted(credential: &Credential) -> identity::Credential {
    match credential {
        Credential::Password(password) => identity::Credential::Password(Secret::new(password.clone())),
        Credential::GeneratedPassword => identity::Credential::GeneratedPassword,
        Credential::Token { valid_s } => identity::Credential::Token { valid_s: *valid_s },
        Credential::Certificate { valid_s } => identity::Credential::Certificate { valid_s: *valid_s },
        Credential::TrustedCertificate => identity::Credential::TrustedSubject,
    }
}

/// What sort it is.
pub(crate) fn described(credential: &Credential) -> &'static str {
    match credential {
        Credential::Password(_) | Credential::GeneratedPassword => "password",
        Credential::Token { .. } => "token",
        Credential::Certificate { .. } => "certificate",
        Credential::TrustedCertificate => "certificate of a trusted authority",
    }
}

fn issued_credential(issued: Issued) -> IssuedCredential {
    match issued {
        Issued::Nothing => IssuedCredential::Nothing,
        Issued::Password(password) => IssuedCredential::Password(password.expose().to_owned()),
        Issued::Token(token) => IssuedCredential::Token(token.expose().to_owned()),
        Issued::Certificate {
            certificate_pem,
            key_pem,
        } => IssuedCredential::Certificate {
            certificate_pem,
            key_pem: key_pem.expose().to_owned(),
        },
    }
}
