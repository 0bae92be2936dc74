//! The keys that tokens of users, devices and apps are signed with.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use identity::{Event, TokenKey};

use crate::clients::date_time;
use crate::desk::Desk;
use crate::guard::{acting_as, actor};
use crate::types::{Page, RotateKeys, TokenKeyInfo};
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// The keys that are good for something: the one that signs, then those that verify what they have signed.
#[utoipa::path(get, path = "/v1/token-keys", tag = "token keys", operation_id = "list_token_keys",
    responses((status = 200, body = Page<TokenKeyInfo>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>) -> Done<Json<Page<TokenKeyInfo>>> {
    Ok(Json(shown(desk.token_keys().await?)))
}

/// Signs with a new key from now on, which edges that are linked hear at once. What was signed before is good until it
/// ends, or with `at_once` worthless: connections made with a token end, devices and apps need new ones, and who is
/// logged in shows the refresh token.
#[utoipa::path(post, path = "/v1/token-keys", tag = "token keys", operation_id = "rotate_token_keys",
    responses((status = 201, body = Page<TokenKeyInfo>)))]
pub(crate) async fn rotate(
    State(desk): State<Arc<Desk>>,
    Json(RotateKeys { at_once }): Json<RotateKeys>,
) -> Done<(StatusCode, Json<Page<TokenKeyInfo>>)> {
    let keys = desk.rotate_token_keys(at_once).await?;
    Ok((StatusCode::CREATED, Json(shown(keys))))
}

impl Desk {
    /// Waits while one is being replaced, or a token signed.
    async fn token_keys(&self) -> Done<Vec<TokenKey>> {
        self.with_identity(|identity| Ok::<_, Wrong>(identity.token_keys(unix_now_s())))
            .await
    }

    async fn rotate_token_keys(&self, ends_others: bool) -> Done<Vec<TokenKey>> {
        self.with_identity(move |identity| identity.rotate_token_keys(ends_others, unix_now_s()))
            .await?;
        if let Some(files) = &self.login_files {
            // Before connections end, and those who were connected look for what is good now.
            files.renew().await;
        }
        let keys = self.token_keys().await?;
        self.account_for_event(&Event::TokenKey {
            key: keys.first().map_or("", |key| &key.id),
            ends_others,
            by: &actor(),
        });
        self.settle().await?;
        Ok(keys)
    }

    /// Signs with a new key if the one that signs is older than this. One that says it comes from the future is not.
    pub async fn rotate_token_keys_older_than(&self, age_s: i64) {
        let has_its_age = |key: &TokenKey| unix_now_s() - key.created_unix_s >= age_s;
        let is_due = |keys: Vec<TokenKey>| keys.first().is_some_and(has_its_age);
        if !self.token_keys().await.is_ok_and(is_due) {
            return;
        }
        match acting_as("its age".to_owned(), self.rotate_token_keys(false)).await {
            Ok(_) => tracing::info!("tokens are signed with a new key: the one before had its age"),
            Err(wrong) => tracing::warn!(
                error = wrong.message(),
                "tokens are still signed with a key that has its age"
            ),
        }
    }
}

fn shown(keys: Vec<TokenKey>) -> Page<TokenKeyInfo> {
    Page {
        items: keys.into_iter().map(info).collect(),
        has_more: false,
    }
}

fn info(key: TokenKey) -> TokenKeyInfo {
    TokenKeyInfo {
        id: key.id,
        created: date_time(key.created_unix_s),
        until: key.until_unix_s.map(date_time),
    }
}
