//! How edges get their certificates from a cloud, and nodes from the edge where their site began: invited with a token,
//! later by the certificate before.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use base64ct::{Base64, Encoding};
use identity::{Action, CertificateIdentity, ClientName, Enrolled, EnrolmentOptions, JoinToken, Refusal};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clients::{add_missing_tenant, date_time};
use crate::desk::Desk;
use crate::doors::Peer;
use crate::guard;
use crate::logins::tried;
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// Seconds that an invitation may be good for.
const INVITED_MIN_S: u32 = 60;
const INVITED_MAX_S: u32 = 30 * 86_400;

/// How a cloud lets edges join, or an edge nodes.
#[derive(Clone, Debug)]
pub struct Enrolment {
    /// Where they ask: `https://host:port`; `None`: there is no door of HTTPS.
    pub url: Option<String>,
    /// Where their links go, or where the node is, `{host}` being the host that they asked; `None`: a cloud has no door of
    /// MQTT with TLS.
    pub link_url: Option<String>,
    /// How long what they get is good for.
    pub options: EnrolmentOptions,
}

/// How an edge is invited.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    /// For how many seconds the token is good: a minute to 30 days.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub valid_s: u32,
}

/// An invitation; its token is shown this once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationInfo {
    /// The edge: `{id}` in the default tenant, else `{tenant}/{id}`.
    pub edge: String,
    /// Whether it was added with this.
    pub is_new: bool,
    /// Where it asks.
    pub url: String,
    /// What it shows; good once.
    pub token: String,
    /// Until when.
    pub until: String,
    /// What to run on its machine.
    pub command: String,
}

/// The certificate authority of a cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuthorityInfo {
    /// Its certificate.
    pub(crate) certificate_pem: String,
    /// `sha256:` and the digest of that certificate in DER, in hexadecimal: join tokens carry it.
    pub(crate) fingerprint: String,
}

/// An edge that was invited asks for its first certificate.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Join {
    /// The token of its invitation.
    pub(crate) token: String,
    /// A request for a certificate (PKCS #10, in PEM), of which nothing but the public key counts: ECDSA on P-256.
    pub(crate) request_pem: String,
}

/// An edge asks for its next certificate.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renew {
    /// The certificate that it has. It may have expired.
    pub(crate) certificate_pem: String,
    /// As for the first.
    pub(crate) request_pem: String,
    /// ECDSA with SHA-256 of `selvedge renewal of an edge's certificate, version 1`, a newline and the request, by the
    /// key of the certificate that it has; ASN.1, in Base64.
    pub(crate) signature: String,
}

/// What an edge gets.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct Grant {
    /// Who it is: `{id}` in the default tenant, else `{tenant}/{id}`.
    pub(crate) edge: String,
    /// Its certificate.
    pub(crate) certificate_pem: String,
    /// The life of the certificate in seconds, from now on; it is to be renewed after two thirds.
    pub(crate) valid_s: u32,
    /// Where its link goes, `{host}` being the host that it asked.
    pub(crate) link_url: String,
}

/// The certificate authority of this cloud.
#[utoipa::path(get, path = "/v1/authority", tag = "enrolment", operation_id = "show_authority",
    responses((status = 200, body = AuthorityInfo)))]
pub(crate) async fn authority(State(desk): State<Arc<Desk>>) -> Json<AuthorityInfo> {
    let authority = desk.identity.authority();
    Json(AuthorityInfo {
        certificate_pem: authority.certificate_pem().to_owned(),
        fingerprint: authority.fingerprint().to_string(),
    })
}

/// A certificate for an edge that was invited. Its token is bound to the key that it is first used with: whoever did
/// not get the answer asks again.
#[utoipa::path(post, path = "/v1/join", tag = "enrolment", operation_id = "join",
    responses((status = 200, body = Grant)))]
pub(crate) async fn join(
    State(desk): State<Arc<Desk>>,
    Peer(address): Peer,
    Json(join): Json<Join>,
) -> Done<Json<Grant>> {
    let place = place(&desk)?;
    let token = JoinToken::parse(&join.token).map_err(|error| Wrong::request(error.to_string()))?;
    let shown_as = format!("(join token {})", token.number());
    let options = place.options;
    let enrolled = tried(&desk, address, &shown_as, move |identity| {
        identity.join(&token, &join.request_pem, options, unix_now_s())
    });
    let enrolled = enrolled.await?.map_err(|refusal| refused(&refusal, options))?;
    grant(&desk, &place, enrolled, Action::Added).await
}

/// A certificate in place of one that ends or has ended. One that was revoked is never renewed.
#[utoipa::path(post, path = "/v1/renew", tag = "enrolment", operation_id = "renew",
    responses((status = 200, body = Grant)))]
pub(crate) async fn renew(
    State(desk): State<Arc<Desk>>,
    Peer(address): Peer,
    Json(renew): Json<Renew>,
) -> Done<Json<Grant>> {
    let place = place(&desk)?;
    let signature = Base64::decode_vec(&renew.signature);
    let signature = signature.map_err(|_| Wrong::request("signature: it is no Base64"))?;
    let options = place.options;
    let shown_as = shown_as(&renew.certificate_pem);
    let enrolled = tried(&desk, address, &shown_as, move |identity| {
        let (old, request) = (&renew.certificate_pem, &renew.request_pem);
        identity.renew(old, request, &signature, options, unix_now_s())
    });
    let enrolled = enrolled.await?.map_err(|refusal| refused(&refusal, options))?;
    grant(&desk, &place, enrolled, Action::Changed).await
}

/// As what failures count and are accounted for: each edge by itself, since several may share an address.
fn shown_as(certificate_pem: &str) -> String {
    let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).ok();
    let shown = der.and_then(|der| CertificateIdentity::from_der(&der).ok());
    shown.map_or_else(
        || "(renewal)".to_owned(),
        |shown| format!("(renewal of {})", shown.name),
    )
}

async fn grant(desk: &Desk, place: &Place, enrolled: Enrolled, action: Action) -> Done<Json<Grant>> {
    let edge = enrolled.name.user_name();
    guard::acting_as(edge.clone(), async {
        desk.account_for(action, &enrolled.name, &format!("certificate {}", enrolled.serial));
        desk.settle().await
    })
    .await?;
    Ok(Json(Grant {
        edge,
        certificate_pem: enrolled.certificate_pem,
        valid_s: enrolled.valid_s,
        link_url: place.link_url.clone(),
    }))
}

/// Invites an edge, which is added if it is not there. An earlier invitation of it is worthless from now on.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/edges/{id}/invitation", tag = "edges", operation_id = "invite_edge",
    params(("tenant" = String, Path), ("id" = String, Path)), responses((status = 201, body = InvitationInfo)))]
pub(crate) async fn invite(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id)): Path<(String, String)>,
    Json(Invite { valid_s }): Json<Invite>,
) -> Done<(StatusCode, Json<InvitationInfo>)> {
    let place = place(&desk)?;
    let name = ClientName::new(&tenant, &id)?;
    let own = desk.nodes.as_ref().and_then(|nodes| nodes.name());
    if own.as_deref() == Some(&id) {
        return Err(Wrong::new(
            StatusCode::CONFLICT,
            format!("{id} is this node itself; names of a site's nodes differ"),
        ));
    }
    if !(INVITED_MIN_S..=INVITED_MAX_S).contains(&valid_s) {
        let message = format!("valid_s is {valid_s}; it must be from {INVITED_MIN_S} to {INVITED_MAX_S}");
        return Err(Wrong::request(message));
    }
    let named = name.clone();
    let invitation = desk
        .with_identity(move |identity| {
            add_missing_tenant(identity.registry(), &tenant)?;
            identity.invite(&named, valid_s, unix_now_s())
        })
        .await?;
    desk.account_for(
        Action::Added,
        &name,
        &format!("join token {}", invitation.token.number()),
    );
    desk.settle().await?;
    let token = invitation.token.encode().expose().to_owned();
    let what = if place.options.are_nodes { "site" } else { "edge" };
    let info = InvitationInfo {
        edge: name.user_name(),
        is_new: invitation.is_new,
        command: format!("selvedge {what} join {} --token {token}", place.url),
        url: place.url,
        token,
        until: date_time(invitation.until_unix_s),
    };
    Ok((StatusCode::CREATED, Json(info)))
}

/// Withdraws the invitation of an edge: its token is worthless. A certificate that came of it stays good.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/edges/{id}/invitation", tag = "edges",
    operation_id = "withdraw_invitation", params(("tenant" = String, Path), ("id" = String, Path)),
    responses((status = 204)))]
pub(crate) async fn withdraw(
    State(desk): State<Arc<Desk>>,
    Path((tenant, id)): Path<(String, String)>,
) -> Done<StatusCode> {
    let name = ClientName::new(&tenant, &id)?;
    let named = name.clone();
    desk.with_registry(move |registry| registry.withdraw_invitation(&named))
        .await?;
    desk.account_for(Action::Removed, &name, "join token");
    desk.settle().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An [`Enrolment`] that lacks nothing.
struct Place {
    url: String,
    link_url: String,
    options: EnrolmentOptions,
}

fn place(desk: &Desk) -> Done<Place> {
    let wrong = |message: &str| Wrong::new(StatusCode::CONFLICT, message);
    let enrolment = desk.enrolment.as_ref().ok_or_else(|| match desk.running_hub() {
        Some(_) => wrong(
            "this is no cloud; edges join one (selvedge cloud), and nodes the site of an edge that is started with --site",
        ),
        None => wrong("it does not run, and who joins would find nobody; start it: selvedge cloud, or selvedge edge"),
    })?;
    let of_site = || desk.nodes.as_ref()?.member.membership();
    if let Some(joined) = of_site().filter(|_| enrolment.options.are_nodes) {
        let message = format!(
            "this edge has joined a site; others are invited where that began, at {}",
            joined.cloud_url
        );
        return Err(Wrong::new(StatusCode::CONFLICT, message));
    }
    let no_https = "there is no door of HTTPS here, by which others join; start it with --https, or listen.https";
    let no_link =
        "this cloud has no door of MQTT with TLS, by which edges link; start it with --mqtts, or listen.mqtts";
    Ok(Place {
        url: enrolment.url.clone().ok_or_else(|| wrong(no_https))?,
        link_url: enrolment.link_url.clone().ok_or_else(|| wrong(no_link))?,
        options: enrolment.options,
    })
}

/// What an edge is told that gets no certificate: it has shown a secret or a key, and its operator is to know what to
/// do.
fn refused(refusal: &Refusal, options: EnrolmentOptions) -> Wrong {
    let (invite, who) = match options.are_nodes {
        true => ("selvedge site invite NAME where the site began", "this edge"),
        false => ("selvedge edge invite ID at the cloud", "this cloud"),
    };
    let message = match refusal {
        Refusal::Unavailable(_) => return Wrong::here(refusal.to_string()),
        Refusal::Request(_) => return Wrong::request(refusal.to_string()),
        Refusal::NoInvitation => {
            format!(
                "this join token is not known here: it was withdrawn, or a later one took its place; ask for another: {invite}"
            )
        }
        Refusal::InvitationExpired(at_s) => {
            format!(
                "this join token expired at {}; ask for another: {invite}",
                date_time(*at_s)
            )
        }
        Refusal::InvitationUsed => format!(
            "this join token was used before, and not from here; if nobody of yours did, withdraw what came of it: \
             selvedge edge rotate ID there; ask for another: {invite}"
        ),
        Refusal::RenewalTooLate(at_s) => format!(
            "the edge's certificate expired at {}, longer ago than {who} renews it; join again: {invite} prints the \
             command",
            date_time(*at_s)
        ),
        Refusal::CertificateRevoked(serial) => {
            format!("the edge's certificate {serial} was revoked; {invite} lets it in again")
        }
        Refusal::Disabled => "the edge is disabled; selvedge edge enable ID there lets it in again".to_owned(),
        Refusal::UnknownClient => format!("the edge was removed; {invite} lets it in again"),
        other => other.to_string(),
    };
    Wrong::new(StatusCode::FORBIDDEN, message)
}
