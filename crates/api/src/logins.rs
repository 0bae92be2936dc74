//! Logging in, going on and logging out; and how often somebody may fail at it.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use identity::{ACCESS_TOKEN_VALID_S, Event, Identity, LoggedIn, Refusal, Secret, Throttle, UserTokens};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::desk::Desk;
use crate::doors::Peer;
use crate::guard::unauthorized;
use crate::types::{Login, Refresh, Tokens};
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// Passwords checked at one time; each takes [`identity::HASHING_MEMORY_BYTES`]. Others wait for their turn.
const CHECKS_AT_ONCE: usize = 2;

/// The same for passwords that are new, so that who adds many keeps nobody from logging in.
const NEW_AT_ONCE: usize = 1;

/// How long one waits for a turn before it is refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who failed to log in, and how many checks go on.
pub(crate) struct Logins {
    throttle: Mutex<Throttle>,
    checks: Semaphore,
    new: Semaphore,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            throttle: Mutex::default(),
            checks: Semaphore::new(CHECKS_AT_ONCE),
            new: Semaphore::new(NEW_AT_ONCE),
        }
    }
}

impl Logins {
    fn with_throttle<T>(&self, work: impl FnOnce(&mut Throttle) -> T) -> T {
        work(&mut self.throttle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The turn of one who makes credentials.
    pub(crate) async fn turn_of_new(&self) -> Done<SemaphorePermit<'_>> {
        turn(&self.new).await
    }

    fn check_wait(&self, address: IpAddr, name: &str) -> Done<()> {
        let wait = self.with_throttle(|throttle| throttle.wait(address, name, Instant::now()));
        wait.map_or(Ok(()), |wait| Err(throttled(wait)))
    }
}

async fn turn(turns: &Semaphore) -> Done<SemaphorePermit<'_>> {
    let turn = tokio::time::timeout(PATIENCE, turns.acquire()).await;
    let busy = |_| {
        let message = "as many passwords are being hashed as may be, and others wait; try again";
        Wrong::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(PATIENCE.as_secs())
    };
    Ok(turn.map_err(busy)?.expect("never closed"))
}

fn throttled(wait: Duration) -> Wrong {
    let wait_s = wait.as_secs() + 1;
    let message = format!("too many failed logins; try again in {wait_s} s");
    Wrong::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(wait_s)
}

/// Checks what somebody at `address` presents as `name`, with the bounds of all doors; a failure tells nobody why.
pub(crate) async fn attempt<T: Send + 'static>(
    desk: &Desk,
    address: IpAddr,
    name: &str,
    check: impl FnOnce(&Identity) -> Result<T, Refusal> + Send + 'static,
) -> Done<T> {
    tried(desk, address, name, check)
        .await?
        .map_err(|refusal| match refusal.is_failed_login() {
            true => unauthorized("not the name and password of anybody here"),
            false => Wrong::new(StatusCode::SERVICE_UNAVAILABLE, refusal.to_string()),
        })
}

/// As [`attempt`], for whoever may know why it failed.
pub(crate) async fn tried<T: Send + 'static>(
    desk: &Desk,
    address: IpAddr,
    name: &str,
    check: impl FnOnce(&Identity) -> Result<T, Refusal> + Send + 'static,
) -> Done<Result<T, Refusal>> {
    let logins = &desk.logins;
    logins.check_wait(address, name)?;
    let _turn = turn(&logins.checks).await?;
    // Others may have failed meanwhile.
    logins.check_wait(address, name)?;
    let checked = desk
        .with_identity(move |identity| Ok::<_, Wrong>(check(identity)))
        .await?;
    match &checked {
        Ok(_) => logins.with_throttle(|throttle| throttle.succeeded(address, name)),
        Err(refusal) if refusal.is_failed_login() => {
            logins.with_throttle(|throttle| throttle.failed(address, name, Instant::now()));
            let reason = refusal.to_string();
            desk.account_for_event(&Event::LoginRefused {
                address: Some(address),
                user_name: name,
                reason: &reason,
            });
        }
        Err(_) => {}
    }
    Ok(checked)
}

/// Two tokens for a name and a password. The access token goes with each request, as `Authorization: Bearer …`.
#[utoipa::path(post, path = "/v1/login", tag = "logins", operation_id = "log_in",
    responses((status = 200, body = Tokens)))]
pub(crate) async fn log_in(
    State(desk): State<Arc<Desk>>,
    Peer(address): Peer,
    Json(login): Json<Login>,
) -> Done<Json<Tokens>> {
    let (name, password) = (login.user.clone(), Secret::new(login.password));
    let check = move |identity: &Identity| identity.log_in(&name, password.expose().as_bytes(), unix_now_s());
    Ok(Json(tokens(&attempt(&desk, address, &login.user, check).await?)))
}

/// Two new tokens for the refresh token, which is good once: used twice, it ends the login.
#[utoipa::path(post, path = "/v1/refresh", tag = "logins", operation_id = "refresh_tokens",
    responses((status = 200, body = Tokens)))]
pub(crate) async fn refresh(State(desk): State<Arc<Desk>>, Json(refresh): Json<Refresh>) -> Done<Json<Tokens>> {
    let refreshed = desk
        .with_identity(move |identity| Ok::<_, Wrong>(identity.refresh(&refresh.refresh_token, unix_now_s())))
        .await?;
    let refreshed = refreshed.map_err(|refusal| match refusal.is_failed_login() {
        true => unauthorized("this refresh token is over, or was used before; log in again"),
        false => Wrong::here(refusal.to_string()),
    });
    Ok(Json(tokens(&refreshed?)))
}

/// Ends the login: both its tokens are worthless.
#[utoipa::path(post, path = "/v1/logout", tag = "logins", operation_id = "log_out", responses((status = 204)))]
pub(crate) async fn log_out(State(desk): State<Arc<Desk>>, Extension(caller): Extension<LoggedIn>) -> Done<StatusCode> {
    desk.with_identity(move |identity| identity.log_out(&caller)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn tokens(tokens: &UserTokens) -> Tokens {
    let user = &tokens.user;
    Tokens {
        access_token: tokens.access.expose().to_owned(),
        expires_in_s: ACCESS_TOKEN_VALID_S,
        refresh_token: tokens.refresh.expose().to_owned(),
        tenant: user.name.tenant().map(str::to_owned),
        role: user.role.to_string(),
    }
}
