//! Users of the HTTP API: who may log in, and what each token is good for.

mod common;

use std::os::unix::fs::PermissionsExt;

use common::{Edge, NOW};
use identity::{
    ACCESS_TOKEN_VALID_S, IdentityError, Issued, Quotas, REFRESH_TOKEN_VALID_S, Refusal, RegistryError, Role, Secret,
    TokenError, UserName, UserTokens,
};

fn user(text: &str) -> UserName {
    UserName::parse(text).unwrap()
}

fn with_user(text: &str, role: Role) -> (Edge, String) {
    let edge = Edge::new();
    match edge.identity.add_user(&user(text), role, None, NOW).unwrap() {
        Issued::Password(password) => (edge, password.expose().to_owned()),
        other => panic!("{other:?}"),
    }
}

fn log_in(edge: &Edge, name: &str, password: &str) -> UserTokens {
    edge.identity.log_in(name, password.as_bytes(), NOW).unwrap()
}

fn shows(edge: &Edge, tokens: &UserTokens, now: i64) -> Result<(String, Role), Refusal> {
    let logged_in = edge.identity.user_of(tokens.access.expose().as_bytes(), now)?;
    Ok((logged_in.user.name.to_string(), logged_in.user.role))
}

#[test]
fn a_user_logs_in_with_its_password_and_shows_who_it_is_by_its_token() {
    let (edge, password) = with_user("default/anna", Role::Operator);
    let tokens = log_in(&edge, "default/anna", &password);
    assert_eq!(
        shows(&edge, &tokens, NOW).unwrap(),
        ("default/anna".into(), Role::Operator)
    );
    let refused = |name: &str, password: &str| edge.identity.log_in(name, password.as_bytes(), NOW).unwrap_err();
    assert!(matches!(refused("default/anna", "wrong"), Refusal::WrongPassword));
    assert!(matches!(refused("anna", &password), Refusal::UnknownUser));
    assert!(matches!(
        refused("default/anna", &"x".repeat(2_000)),
        Refusal::PasswordTooLong(2_000)
    ));
    assert!(matches!(refused("' OR 1=1 --", &password), Refusal::UserName(_)));
}

#[test]
fn an_access_token_ends_after_a_quarter_of_an_hour_and_a_login_a_week_after_its_last_use() {
    let (edge, password) = with_user("anna", Role::Viewer);
    let tokens = log_in(&edge, "anna", &password);
    let end = NOW + i64::from(ACCESS_TOKEN_VALID_S);
    assert!(shows(&edge, &tokens, end - 1).is_ok());
    let refused = shows(&edge, &tokens, end).unwrap_err();
    assert!(matches!(refused, Refusal::Token(TokenError::Expired(at)) if at == end));
    let week_s = i64::from(REFRESH_TOKEN_VALID_S);
    let second = edge
        .identity
        .refresh(tokens.refresh.expose(), NOW + week_s - 1)
        .unwrap();
    assert!(
        edge.identity
            .refresh(second.refresh.expose(), NOW + 2 * week_s - 1)
            .is_err()
    );
}

#[test]
fn a_refresh_token_is_good_once_and_used_twice_ends_the_login() {
    let (edge, password) = with_user("anna", Role::Viewer);
    let first = log_in(&edge, "anna", &password);
    let other = log_in(&edge, "anna", &password);
    let second = edge.identity.refresh(first.refresh.expose(), NOW).unwrap();
    assert!(shows(&edge, &second, NOW).is_ok());
    let again = edge.identity.refresh(first.refresh.expose(), NOW).unwrap_err();
    assert!(matches!(again, Refusal::TokenRevoked));
    for dead in [&first, &second] {
        assert!(matches!(shows(&edge, dead, NOW), Err(Refusal::TokenRevoked)));
        assert!(edge.identity.refresh(dead.refresh.expose(), NOW).is_err());
    }
    assert!(shows(&edge, &other, NOW).is_ok());
}

#[test]
fn logging_out_another_password_and_removal_end_tokens_at_once() {
    let (edge, password) = with_user("anna", Role::Viewer);
    let [one, other] = [(), ()].map(|()| log_in(&edge, "anna", &password));
    let logged_in = edge.identity.user_of(one.access.expose().as_bytes(), NOW).unwrap();
    edge.identity.log_out(&logged_in).unwrap();
    assert!(shows(&edge, &one, NOW).is_err() && edge.identity.refresh(one.refresh.expose(), NOW).is_err());
    assert!(shows(&edge, &other, NOW).is_ok());
    let chosen = Secret::new("another password".into());
    edge.identity.set_user_password(&user("anna"), Some(&chosen)).unwrap();
    assert!(shows(&edge, &other, NOW).is_err());
    assert!(edge.identity.log_in("anna", password.as_bytes(), NOW).is_err());
    let third = log_in(&edge, "anna", "another password");
    edge.identity.registry().remove_user(&user("anna")).unwrap();
    assert!(shows(&edge, &third, NOW).is_err());
}

#[test]
fn another_role_holds_at_once_and_ends_no_login() {
    let (edge, password) = with_user("anna", Role::Viewer);
    let tokens = log_in(&edge, "anna", &password);
    let registry = edge.identity.registry();
    assert_eq!(
        registry.set_user_role(&user("anna"), Role::Operator).unwrap().role,
        Role::Operator
    );
    assert_eq!(shows(&edge, &tokens, NOW).unwrap().1, Role::Operator);
    assert!(registry.set_user_role(&user("otto"), Role::Viewer).is_err());
}

#[test]
fn a_devices_token_is_no_users_and_a_users_is_no_devices() {
    let (edge, password) = with_user("pump-7", Role::Admin);
    let device = edge.device_with_token("pump-7");
    let as_user = edge.identity.user_of(device.as_bytes(), NOW).unwrap_err();
    assert!(
        matches!(&as_user, Refusal::Token(TokenError::Type(found)) if found == "JWT"),
        "{as_user}"
    );
    let tokens = log_in(&edge, "pump-7", &password);
    let as_device = edge.login("pump-7", tokens.access.expose()).unwrap_err();
    assert!(
        matches!(&as_device, Refusal::Token(TokenError::Type(found)) if found == "at+jwt"),
        "{as_device}"
    );
}

#[test]
fn another_clouds_token_and_a_changed_one_are_worth_nothing() {
    let (edge, password) = with_user("anna", Role::Viewer);
    let (foreign, foreign_password) = with_user("anna", Role::Admin);
    let theirs = log_in(&foreign, "anna", &foreign_password);
    assert!(matches!(
        shows(&edge, &theirs, NOW),
        Err(Refusal::Token(TokenError::UnknownKey(_)))
    ));
    let ours = log_in(&edge, "anna", &password).access.expose().to_owned();
    for changed in [
        "",
        ".",
        "..",
        &ours[1..],
        &ours[..ours.len() - 1],
        &ours.replace('.', ""),
    ] {
        assert!(edge.identity.user_of(changed.as_bytes(), NOW).is_err(), "{changed}");
    }
}

#[test]
fn tokens_of_users_outlive_a_change_of_keys_unless_all_are_ended() {
    let (edge, password) = with_user("anna", Role::Viewer);
    let tokens = log_in(&edge, "anna", &password);
    edge.identity.rotate_token_keys(false, NOW + 5).unwrap();
    assert!(shows(&edge, &tokens, NOW + 899).is_ok());
    assert!(matches!(
        shows(&edge, &tokens, NOW + 900),
        Err(Refusal::Token(TokenError::Expired(_)))
    ));
    let second = edge.identity.refresh(tokens.refresh.expose(), NOW + 900).unwrap();
    assert!(shows(&edge, &second, NOW + 900).is_ok());
    // Where a key got out, who is logged in shows its refresh token, which no key has signed.
    edge.identity.rotate_token_keys(true, NOW + 901).unwrap();
    assert!(shows(&edge, &second, NOW + 901).is_err());
    let third = edge.identity.refresh(second.refresh.expose(), NOW + 901).unwrap();
    assert!(shows(&edge, &third, NOW + 901).is_ok());
}

#[test]
fn a_user_has_32_logins_and_one_more_ends_the_oldest() {
    let (edge, password) = with_user("anna", Role::Viewer);
    let log_in_at = |now| edge.identity.log_in("anna", password.as_bytes(), now).unwrap();
    let all: Vec<UserTokens> = (0..33).map(|second| log_in_at(NOW + second)).collect();
    let alive = all.iter().map(|tokens| shows(&edge, tokens, NOW + 40).is_ok());
    assert_eq!(alive.collect::<Vec<_>>(), [vec![false], vec![true; 32]].concat());
}

#[test]
fn users_belong_to_their_tenant_and_go_with_it() {
    let (edge, _) = with_user("anna", Role::Admin);
    let registry = edge.identity.registry();
    registry.add_tenant("acme", &Quotas::default()).unwrap();
    let add = |text: &str| edge.identity.add_user(&user(text), Role::Viewer, None, NOW);
    add("acme/anna").unwrap();
    add("acme/ben").unwrap();
    let names = |tenant| {
        let users = registry.users(tenant).unwrap();
        users.iter().map(|user| user.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(None), names(Some("acme"))),
        (vec!["anna".to_owned()], vec!["acme/anna".into(), "acme/ben".into()])
    );
    let refused = |text: &str| match add(text) {
        Err(IdentityError::Registry(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused("acme/ben"), RegistryError::UserExists(_)));
    assert!(matches!(refused("nobody/ben"), RegistryError::NoTenant(_)));
    registry.remove_tenant("acme").unwrap();
    registry.add_tenant("acme", &Quotas::default()).unwrap();
    assert_eq!(names(Some("acme")), [""; 0]);
}

#[test]
fn the_first_start_of_a_cloud_makes_an_admin_and_leaves_its_password_to_its_owner() {
    let edge = Edge::new();
    let directory = edge.directory.path();
    assert!(edge.identity.make_first_admin(directory, NOW).unwrap());
    let path = directory.join("admin.password");
    let password = std::fs::read_to_string(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let tokens = log_in(&edge, "admin", password.trim_end());
    assert_eq!(shows(&edge, &tokens, NOW).unwrap(), ("admin".into(), Role::Admin));
    assert!(!edge.identity.make_first_admin(directory, NOW).unwrap());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), password);
}
