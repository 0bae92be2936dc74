//! Who may ask what on a port: the token, the role and the tenant of each request under `/v1`.

use std::sync::Arc;

use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use identity::{LoggedIn, RegistryError, Role, Secret};

use crate::desk::Desk;
use crate::doors::Patience;
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

tokio::task_local! {
    static ACTOR: String;
}

/// Who acts through the control socket, in the audit log.
const OPERATOR: &str = "operator";

/// Who acts, for the audit log: the user whose request is being answered, else whoever is at the control socket.
pub(crate) fn actor() -> String {
    ACTOR.try_with(String::clone).unwrap_or_else(|_| OPERATOR.to_owned())
}

/// Does something in the name of somebody whom no check has let through.
pub(crate) async fn acting_as<T>(actor: String, work: impl Future<Output = T>) -> T {
    ACTOR.scope(actor, work).await
}

/// What a route asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) role: Role,
    /// Only a user of the whole cloud will do.
    pub(crate) whole_cloud: bool,
}

impl Needs {
    pub(crate) const fn in_tenant(role: Role) -> Self {
        Self {
            role,
            whole_cloud: false,
        }
    }

    pub(crate) const fn of_cloud(role: Role) -> Self {
        Self {
            role,
            whole_cloud: true,
        }
    }
}

/// By what a caller was let through, to be looked at again while the answer goes on.
#[derive(Clone)]
pub(crate) struct Pass {
    token: Secret,
    needs: Needs,
    tenant: Option<String>,
}

impl Pass {
    /// Whether its holder may still see what it asked for.
    pub(crate) async fn check(&self, desk: &Arc<Desk>) -> Done<()> {
        let caller = user_of(desk, self.token.expose()).await?;
        check_tenant(desk, &caller, self.tenant.as_deref()).await?;
        check_role(&caller, self.needs)
    }
}

/// Lets a request through whose caller may ask this; the handler finds a [`LoggedIn`] and a [`Pass`] with it.
pub(crate) async fn check(
    State((desk, needs)): State<(Arc<Desk>, Needs)>,
    params: RawPathParams,
    mut request: Request,
    next: Next,
) -> Done<Response> {
    let token = bearer(request.headers())
        .ok_or_else(|| unauthorized("log in first: POST /v1/login, then send its access token"))?;
    let token = Secret::new(token.to_owned());
    let caller = user_of(&desk, token.expose()).await?;
    let named = |wanted: &str| params.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    check_tenant(&desk, &caller, named("tenant")).await?;
    let changes_edges = named("kinds") == Some("edges") && request.method() != Method::GET;
    let needs = Needs {
        // An edge may be made to speak for any tenant.
        whole_cloud: needs.whole_cloud || changes_edges,
        ..needs
    };
    check_role(&caller, needs)?;
    if let Some(patience) = request.extensions().get::<Patience>() {
        patience.extend();
    }
    let actor = caller.user.name.to_string();
    let tenant = named("tenant").map(str::to_owned);
    request.extensions_mut().insert(Pass { token, needs, tenant });
    request.extensions_mut().insert(caller);
    Ok(ACTOR.scope(actor, next.run(request)).await)
}

async fn user_of(desk: &Arc<Desk>, token: &str) -> Done<LoggedIn> {
    let token = token.as_bytes().to_vec();
    let checked = desk
        .with_identity(move |identity| Ok::<_, Wrong>(identity.user_of(&token, unix_now_s())))
        .await?;
    checked.map_err(|refusal| match refusal.is_failed_login() {
        true => unauthorized(&refusal.to_string()),
        false => Wrong::here(refusal.to_string()),
    })
}

/// The token of `Authorization: Bearer …`, or among the protocols of a WebSocket, since a web page can send no other
/// header with one: `bearer.…`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if let Some(value) = text(header::AUTHORIZATION) {
        let (scheme, token) = value.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| token.trim());
    }
    let mut protocols = text(header::SEC_WEBSOCKET_PROTOCOL)?.split(',');
    protocols.find_map(|protocol| protocol.trim().strip_prefix("bearer."))
}

/// 401, for whoever is not known.
pub(crate) fn unauthorized(message: &str) -> Wrong {
    Wrong::new(StatusCode::UNAUTHORIZED, message)
}

/// Another tenant is as absent to a tenant's user as one that is not there.
async fn check_tenant(desk: &Desk, caller: &LoggedIn, tenant: Option<&str>) -> Done<()> {
    let Some(tenant) = tenant else { return Ok(()) };
    match caller.user.name.tenant() {
        Some(own) if own == tenant => Ok(()),
        Some(_) => Err(RegistryError::NoTenant(tenant.chars().take(identity::MAX_NAME_BYTES).collect()).into()),
        None => desk.check_tenant(tenant).await,
    }
}

/// Refuses who may not do this.
pub(crate) fn check_role(caller: &LoggedIn, needs: Needs) -> Done<()> {
    let user = &caller.user;
    let forbidden = |what: &str| {
        let message = format!("{} is {} and may not do this; it takes {what}", user.name, user.role);
        Err(Wrong::new(StatusCode::FORBIDDEN, message))
    };
    if needs.whole_cloud && user.name.tenant().is_some() {
        return forbidden("a user of the whole cloud");
    }
    match user.role >= needs.role {
        true => Ok(()),
        false => forbidden(&format!("the role {}", needs.role)),
    }
}
