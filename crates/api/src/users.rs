//! Users of the API: of a tenant, and of the whole cloud.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use identity::{Action, Issued, Role, Secret, User, UserName};

use crate::clients::date_time;
use crate::desk::Desk;
use crate::types::{AddUser, AddedUser, ChangeUser, Page, SetPassword, UserInfo, UserRole};
use crate::unix_now_s;
use crate::wrong::Done;

/// Users of the whole cloud.
#[utoipa::path(get, path = "/v1/users", tag = "users", operation_id = "list_cloud_users",
    responses((status = 200, body = Page<UserInfo>)))]
pub(crate) async fn list_of_cloud(State(desk): State<Arc<Desk>>) -> Done<Json<Page<UserInfo>>> {
    list(&desk, None).await
}

/// Users of a tenant.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/users", tag = "users", operation_id = "list_users",
    responses((status = 200, body = Page<UserInfo>)))]
pub(crate) async fn list_of_tenant(
    State(desk): State<Arc<Desk>>,
    Path(tenant): Path<String>,
) -> Done<Json<Page<UserInfo>>> {
    list(&desk, Some(tenant)).await
}

/// Adds a user of the whole cloud.
#[utoipa::path(post, path = "/v1/users", tag = "users", operation_id = "add_cloud_user",
    responses((status = 201, body = AddedUser)))]
pub(crate) async fn add_to_cloud(
    State(desk): State<Arc<Desk>>,
    Json(new): Json<AddUser>,
) -> Done<(StatusCode, Json<AddedUser>)> {
    add(&desk, None, new).await
}

/// Adds a user of a tenant.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/users", tag = "users", operation_id = "add_user",
    responses((status = 201, body = AddedUser)))]
pub(crate) async fn add_to_tenant(
    State(desk): State<Arc<Desk>>,
    Path(tenant): Path<String>,
    Json(new): Json<AddUser>,
) -> Done<(StatusCode, Json<AddedUser>)> {
    add(&desk, Some(&tenant), new).await
}

/// Gives a user of the whole cloud another password; its logins end.
#[utoipa::path(put, path = "/v1/users/{name}/password", tag = "users", operation_id = "set_cloud_user_password",
    responses((status = 200, body = AddedUser)))]
pub(crate) async fn set_password_in_cloud(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    Json(password): Json<SetPassword>,
) -> Done<Json<AddedUser>> {
    set_password(&desk, UserName::new(None, &name)?, password).await
}

/// Gives a user of a tenant another password; its logins end.
#[utoipa::path(put, path = "/v1/tenants/{tenant}/users/{name}/password", tag = "users",
    operation_id = "set_user_password", responses((status = 200, body = AddedUser)))]
pub(crate) async fn set_password_in_tenant(
    State(desk): State<Arc<Desk>>,
    Path((tenant, name)): Path<(String, String)>,
    Json(password): Json<SetPassword>,
) -> Done<Json<AddedUser>> {
    set_password(&desk, UserName::new(Some(&tenant), &name)?, password).await
}

/// Gives a user of the whole cloud another role, which holds from its next request on; its logins go on.
#[utoipa::path(patch, path = "/v1/users/{name}", tag = "users", operation_id = "change_cloud_user",
    responses((status = 200, body = UserInfo)))]
pub(crate) async fn change_in_cloud(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    Json(change): Json<ChangeUser>,
) -> Done<Json<UserInfo>> {
    set_role(&desk, UserName::new(None, &name)?, role(change.role)).await
}

/// Gives a user of a tenant another role, which holds from its next request on; its logins go on.
#[utoipa::path(patch, path = "/v1/tenants/{tenant}/users/{name}", tag = "users", operation_id = "change_user",
    responses((status = 200, body = UserInfo)))]
pub(crate) async fn change_in_tenant(
    State(desk): State<Arc<Desk>>,
    Path((tenant, name)): Path<(String, String)>,
    Json(change): Json<ChangeUser>,
) -> Done<Json<UserInfo>> {
    set_role(&desk, UserName::new(Some(&tenant), &name)?, role(change.role)).await
}

/// Removes a user of the whole cloud; its logins end.
#[utoipa::path(delete, path = "/v1/users/{name}", tag = "users", operation_id = "remove_cloud_user",
    responses((status = 204)))]
pub(crate) async fn remove_from_cloud(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Done<StatusCode> {
    remove(&desk, UserName::new(None, &name)?).await
}

/// Removes a user of a tenant; its logins end.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/users/{name}", tag = "users", operation_id = "remove_user",
    responses((status = 204)))]
pub(crate) async fn remove_from_tenant(
    State(desk): State<Arc<Desk>>,
    Path((tenant, name)): Path<(String, String)>,
) -> Done<StatusCode> {
    remove(&desk, UserName::new(Some(&tenant), &name)?).await
}

async fn list(desk: &Desk, tenant: Option<String>) -> Done<Json<Page<UserInfo>>> {
    let users = desk
        .with_registry(move |registry| registry.users(tenant.as_deref()))
        .await?;
    Ok(Json(Page {
        items: users.iter().map(info).collect(),
        has_more: false,
    }))
}

fn info(user: &User) -> UserInfo {
    UserInfo {
        user: user.name.to_string(),
        tenant: user.name.tenant().map(str::to_owned),
        role: user.role.to_string(),
        created: date_time(user.created_unix_s),
    }
}

async fn add(desk: &Desk, tenant: Option<&str>, new: AddUser) -> Done<(StatusCode, Json<AddedUser>)> {
    let name = UserName::new(tenant, &new.name)?;
    let (role, chosen, wanted) = (role(new.role), new.password.map(Secret::new), name.clone());
    let _turn = desk.logins.turn_of_new().await?;
    let issued = desk
        .with_identity(move |identity| identity.add_user(&wanted, role, chosen.as_ref(), unix_now_s()))
        .await?;
    account_for(desk, Action::Added, &name, &format!("user with role {role}")).await;
    Ok((StatusCode::CREATED, Json(handed_out(&name, issued))))
}

async fn set_role(desk: &Desk, name: UserName, role: Role) -> Done<Json<UserInfo>> {
    let wanted = name.clone();
    let user = desk
        .with_registry(move |registry| registry.set_user_role(&wanted, role))
        .await?;
    account_for(desk, Action::Changed, &name, &format!("role of user, now {role}")).await;
    Ok(Json(info(&user)))
}

async fn set_password(desk: &Desk, name: UserName, password: SetPassword) -> Done<Json<AddedUser>> {
    let (chosen, wanted) = (password.password.map(Secret::new), name.clone());
    let _turn = desk.logins.turn_of_new().await?;
    let issued = desk
        .with_identity(move |identity| identity.set_user_password(&wanted, chosen.as_ref()))
        .await?;
    account_for(desk, Action::Changed, &name, "password of user").await;
    Ok(Json(handed_out(&name, issued)))
}

async fn remove(desk: &Desk, name: UserName) -> Done<StatusCode> {
    let wanted = name.clone();
    desk.with_registry(move |registry| registry.remove_user(&wanted))
        .await?;
    account_for(desk, Action::Removed, &name, "user").await;
    Ok(StatusCode::NO_CONTENT)
}

async fn account_for(desk: &Desk, action: Action, name: &UserName, what: &str) {
    desk.account_for_user(action, name, what);
    desk.write_audit().await;
}

fn role(role: UserRole) -> Role {
    match role {
        UserRole::Viewer => Role::Viewer,
        UserRole::Operator => Role::Operator,
        UserRole::Admin => Role::Admin,
    }
}

fn handed_out(name: &UserName, issued: Issued) -> AddedUser {
    AddedUser {
        user: name.to_string(),
        password: match issued {
            Issued::Password(password) => Some(password.expose().to_owned()),
            _ => None,
        },
    }
}
