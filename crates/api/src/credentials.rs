//! What devices and apps prove themselves by: asked for, handed out, listed, replaced, revoked.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use identity::{Action, ClientKind, ClientName, HeldCredential, Issued, Secret};

use crate::clients::{Kinds, date_time, find};
use crate::desk::Desk;
use crate::types::{Added, Credential, CredentialInfo, Give, IssuedCredential, Page};
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// What a client proves itself by.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/{kinds}/{id}/credentials", tag = "clients", operation_id = "list_credentials",
    responses((status = 200, body = Page<CredentialInfo>)))]
pub(crate) async fn list(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds, id)): Path<(String, Kinds, String)>,
) -> Done<Json<Page<CredentialInfo>>> {
    let name = ClientName::new(&tenant, &id)?;
    Ok(Json(held(&desk, &name, kinds.into()).await?))
}

/// One credential more. A password replaces the one before, and ends the connections made with that.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/{kinds}/{id}/credentials", tag = "clients", operation_id = "add_credential",
    responses((status = 200, body = Added)))]
pub(crate) async fn add(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds, id)): Path<(String, Kinds, String)>,
    Json(give): Json<Give>,
) -> Done<Json<Added>> {
    let (name, kind) = (ClientName::new(&tenant, &id)?, kinds.into());
    let issued = give_one(&desk, &name, kind, give.credential, Action::Added).await?;
    Ok(Json(handed_out(&name, kind, issued)))
}

/// One credential in place of all that the client had; its connections end.
#[utoipa::path(put, path = "/v1/tenants/{tenant}/{kinds}/{id}/credentials", tag = "clients", operation_id = "replace_credentials",
    responses((status = 200, body = Added)))]
pub(crate) async fn replace(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds, id)): Path<(String, Kinds, String)>,
    Json(give): Json<Give>,
) -> Done<Json<Added>> {
    let (name, kind) = (ClientName::new(&tenant, &id)?, kinds.into());
    let issued = give_one(&desk, &name, kind, give.credential, Action::Changed).await?;
    Ok(Json(handed_out(&name, kind, issued)))
}

/// Revokes a credential: the connections made with it end. What the client has left.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/{kinds}/{id}/credentials/{credential}", tag = "clients", operation_id = "revoke_credential",
    responses((status = 200, body = Page<CredentialInfo>)))]
pub(crate) async fn revoke(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds, id, credential)): Path<(String, Kinds, String, String)>,
) -> Done<Json<Page<CredentialInfo>>> {
    let (name, kind) = (ClientName::new(&tenant, &id)?, kinds.into());
    find(&desk, &name, kind).await?;
    let shown = |error| Wrong::request(format!("\"{credential}\": {error}"));
    let credential: HeldCredential = credential.parse().map_err(shown)?;
    let (wanted, named) = (credential.clone(), name.clone());
    desk.with_registry(move |registry| registry.revoke(&named, &wanted))
        .await?;
    desk.account_for(Action::Removed, &name, &credential.to_string());
    desk.settle().await?;
    Ok(Json(held(&desk, &name, kind).await?))
}

async fn give_one(
    desk: &Desk,
    name: &ClientName,
    kind: ClientKind,
    credential: Credential,
    action: Action,
) -> Done<Issued> {
    find(desk, name, kind).await?;
    check_sort(kind, &credential)?;
    let (wanted, named) = (wanted(&credential), name.clone());
    let _turn = desk.logins.turn_of_new().await?;
    let issued = desk
        .with_identity(move |identity| match action {
            Action::Added => identity.issue(&named, &wanted, unix_now_s()),
            _ => identity.replace(&named, &wanted, unix_now_s()),
        })
        .await?;
    let what = match &issued {
        Issued::Certificate { serial, .. } => HeldCredential::Certificate(serial.clone()).to_string(),
        _ => described(&credential).to_owned(),
    };
    desk.account_for(action, name, &what);
    desk.settle().await?;
    Ok(issued)
}

/// What a device or app has to prove itself by.
async fn held(desk: &Desk, name: &ClientName, kind: ClientKind) -> Done<Page<CredentialInfo>> {
    let (client, certificates) = find(desk, name, kind).await?;
    let of_sort = |is_there: bool, sort: &str| {
        is_there.then(|| CredentialInfo {
            sort: sort.to_owned(),
            serial: None,
            until: None,
        })
    };
    let certificates = certificates.into_iter().map(|certificate| CredentialInfo {
        sort: "certificate".to_owned(),
        serial: Some(certificate.serial),
        until: Some(date_time(certificate.not_after_unix_s)),
    });
    let sorts = [
        of_sort(client.has_password, "password"),
        of_sort(client.has_tokens, "token"),
        of_sort(client.trusts_subject, "trusted-certificate"),
    ];
    Ok(Page {
        items: sorts.into_iter().flatten().chain(certificates).collect(),
        has_more: false,
    })
}

/// What its owner is told, this once.
pub(crate) fn handed_out(name: &ClientName, kind: ClientKind, issued: Issued) -> Added {
    Added {
        kind: kind.to_string(),
        tenant: name.tenant().to_string(),
        is_new_tenant: false,
        id: name.id().to_string(),
        user_name: name.user_name(),
        edge: None,
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

/// Refuses what would lock one out some day that nobody is near of.
pub(crate) fn check_sort(kind: ClientKind, credential: &Credential) -> Done<()> {
    match (kind, credential) {
        (ClientKind::Edge, Credential::Token { .. }) => Err(Wrong::request(
            "an edge gets no token, which ends and is renewed by nobody: selvedge edge invite ID gets it a certificate that \
             it renews by itself, and a password does not end",
        )),
        _ => Ok(()),
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
            serial,
            certificate_pem,
            key_pem,
        } => IssuedCredential::Certificate {
            serial,
            certificate_pem,
            key_pem: key_pem.expose().to_owned(),
        },
    }
}
