//! Passwords, tokens and certificates, from what is presented to who it is.

mod common;

use base64ct::{Base64UrlUnpadded, Encoding};
use common::{Edge, NOW, certificate, chosen, name, password, token};
use identity::{
    ApplicationLogins, CertificateError, CertificateIdentity, ClientKind, Credential, HeldCredential, IdentityOptions,
    Login, NewClient, Presented, PrincipalKind, Quotas, Refusal, TokenError, What,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

fn identity_of(certificate_pem: &str) -> CertificateIdentity {
    CertificateIdentity::from_der(&CertificateDer::from_pem_slice(certificate_pem.as_bytes()).unwrap()).unwrap()
}

fn by_certificate(edge: &Edge, certificate: &CertificateIdentity, now: i64) -> Result<PrincipalKind, Refusal> {
    let presented = Presented {
        certificate: Some(certificate),
        ..Presented::default()
    };
    edge.identity
        .authenticate(&presented, now)
        .map(|login| login.principal.kind)
}

#[test]
fn a_login_says_by_which_credentials_it_was_proved() {
    use HeldCredential::{Certificate, Password, Tokens, TrustedSubject};
    let edge = Edge::new();
    let secret = edge.device("pump");
    let issue = |credential| edge.identity.issue(&name("pump"), &credential, NOW).unwrap();
    let bearer = token(issue(Credential::Token { valid_s: 60 }));
    let own = identity_of(&certificate(issue(Credential::Certificate { valid_s: 60 })).0);
    issue(Credential::TrustedSubject);
    let foreign = CertificateIdentity {
        serial: "5f".into(),
        ..own.clone()
    };
    let proofs = |secret: Option<&str>, certificate| {
        let presented = Presented {
            user_name: Some("pump"),
            password: secret.map(str::as_bytes),
            certificate,
        };
        edge.identity.authenticate(&presented, NOW).unwrap().proofs.into_vec()
    };
    assert_eq!(proofs(Some(&secret), None), [Password]);
    assert_eq!(proofs(Some(&bearer), None), [Tokens]);
    assert_eq!(
        proofs(Some(&secret), Some(&own)),
        [Certificate(own.serial.clone()), Password]
    );
    assert_eq!(proofs(None, Some(&foreign)), [TrustedSubject, Certificate("5f".into())]);
}

#[test]
fn a_generated_password_lets_its_device_in_and_nobody_else() {
    let edge = Edge::new();
    let (pump, valve) = (edge.device("pump"), edge.device("valve"));
    let principal = edge.login("pump", &pump).unwrap();
    assert_eq!(
        (&*principal.tenant, principal.kind, &*principal.id),
        ("default", PrincipalKind::Device, "pump")
    );
    assert!(matches!(edge.login("pump", &valve), Err(Refusal::WrongPassword)));
    assert!(matches!(edge.login("pump", ""), Err(Refusal::WrongPassword)));
    assert!(matches!(edge.login("nobody", &pump), Err(Refusal::UnknownClient)));
}

#[test]
fn a_chosen_password_lets_its_app_in() {
    let edge = Edge::new();
    edge.add("dashboard", ClientKind::App, chosen("correct horse"));
    assert_eq!(
        edge.login("dashboard", "correct horse").unwrap().kind,
        PrincipalKind::App
    );
    // The second time from memory, and still nothing else is right.
    assert_eq!(
        edge.login("dashboard", "correct horse").unwrap().kind,
        PrincipalKind::App
    );
    assert!(matches!(
        edge.login("dashboard", "correct horse "),
        Err(Refusal::WrongPassword)
    ));
}

#[test]
fn the_same_id_in_two_tenants_is_two_clients() {
    let edge = Edge::new();
    edge.identity.registry().add_tenant("acme", &Quotas::default()).unwrap();
    let (ours, theirs) = (edge.device("pump"), edge.device("acme/pump"));
    assert_eq!(&*edge.login("acme/pump", &theirs).unwrap().tenant, "acme");
    assert!(matches!(edge.login("acme/pump", &ours), Err(Refusal::WrongPassword)));
    assert!(matches!(edge.login("pump", &theirs), Err(Refusal::WrongPassword)));
}

#[test]
fn user_names_that_are_no_names_are_refused() {
    let edge = Edge::new();
    let right = edge.device("pump");
    for bad in [
        "pump' OR '1'='1",
        "pump\0",
        "рump",
        "pump/",
        "/pump",
        "a/b/c",
        "$pump",
        "PUMP ",
        &"x".repeat(65_535),
    ] {
        assert!(matches!(edge.login(bad, &right), Err(Refusal::UserName(_))), "{bad:?}");
    }
    assert!(matches!(edge.login("PUMP", &right), Err(Refusal::UnknownClient)));
}

#[test]
fn a_password_over_the_bound_is_refused_unread() {
    let edge = Edge::new();
    edge.device("pump");
    assert!(matches!(
        edge.login("pump", &"x".repeat(65_535)),
        Err(Refusal::PasswordTooLong(65_535))
    ));
    assert!(matches!(
        edge.login("pump", &"x".repeat(1_025)),
        Err(Refusal::PasswordTooLong(1_025))
    ));
}

#[test]
fn a_new_password_replaces_the_old_one_at_once_though_it_was_remembered() {
    let edge = Edge::new();
    let old = edge.device("pump");
    edge.login("pump", &old).unwrap();
    let new = password(
        edge.identity
            .issue(&name("pump"), &Credential::GeneratedPassword, NOW)
            .unwrap(),
    );
    assert!(matches!(edge.login("pump", &old), Err(Refusal::WrongPassword)));
    edge.login("pump", &new).unwrap();
}

#[test]
fn a_removed_or_disabled_client_stays_out_though_its_password_was_remembered() {
    let edge = Edge::new();
    let right = edge.device("pump");
    edge.login("pump", &right).unwrap();
    edge.identity.registry().set_disabled(&name("pump"), true).unwrap();
    assert!(matches!(edge.login("pump", &right), Err(Refusal::Disabled)));
    assert!(matches!(edge.login("pump", "wrong"), Err(Refusal::WrongPassword)));
    edge.identity.registry().set_disabled(&name("pump"), false).unwrap();
    edge.login("pump", &right).unwrap();
    edge.identity.registry().remove(&name("pump")).unwrap();
    assert!(matches!(edge.login("pump", &right), Err(Refusal::UnknownClient)));
    edge.device("pump");
    assert!(matches!(edge.login("pump", &right), Err(Refusal::WrongPassword)));
}

#[test]
fn nobody_gets_in_with_nothing_unless_that_is_allowed() {
    let edge = Edge::new();
    let nothing = Presented::default();
    assert!(matches!(
        edge.identity.authenticate(&nothing, NOW),
        Err(Refusal::NoCredentials)
    ));
    let open = Edge::with_options(IdentityOptions { allow_anonymous: true });
    let Login { principal, proofs } = open.identity.authenticate(&nothing, NOW).unwrap();
    assert!(proofs.is_empty());
    assert_eq!(
        (&*principal.tenant, principal.kind),
        ("default", PrincipalKind::Anonymous)
    );
    // Wrong credentials are not taken for none.
    assert!(matches!(open.login("nobody", "x"), Err(Refusal::UnknownClient)));
    let named = Presented {
        user_name: Some("nobody"),
        ..nothing
    };
    assert!(matches!(open.identity.authenticate(&named, NOW), Err(Refusal::NoProof)));
    let unnamed = Presented {
        password: Some(b"x"),
        ..nothing
    };
    assert!(matches!(
        open.identity.authenticate(&unnamed, NOW),
        Err(Refusal::NoUserName)
    ));
}

#[test]
fn a_token_lets_its_client_in_until_it_expires() {
    let edge = Edge::new();
    let token = edge.device_with_token("pump");
    assert_eq!(edge.login("pump", &token).unwrap().kind, PrincipalKind::Device);
    assert_eq!(&*edge.login("", &token).unwrap().id, "pump");
    edge.login_at("pump", &token, NOW + 3_599).unwrap();
    assert!(matches!(
        edge.login_at("pump", &token, NOW + 3_600),
        Err(Refusal::Token(TokenError::Expired(at))) if at == NOW + 3_600
    ));
    // A clock set back by an hour locks nobody out.
    edge.login_at("pump", &token, NOW - 3_600).unwrap();
    assert!(token.len() < 512, "{} bytes", token.len());
}

#[test]
fn the_token_of_another_client_or_tenant_is_refused() {
    let edge = Edge::new();
    edge.identity.registry().add_tenant("acme", &Quotas::default()).unwrap();
    let token = edge.device_with_token("acme/pump");
    edge.device("pump");
    edge.device("acme/valve");
    for other in ["pump", "acme/valve", "nobody"] {
        assert!(
            matches!(edge.login(other, &token), Err(Refusal::TwoClients(..))),
            "{other}"
        );
    }
    assert_eq!(&*edge.login("acme/pump", &token).unwrap().tenant, "acme");
}

#[test]
fn a_token_of_another_edge_is_refused() {
    let (edge, other) = (Edge::new(), Edge::new());
    edge.device_with_token("pump");
    let token = other.device_with_token("pump");
    assert!(matches!(
        edge.login("pump", &token),
        Err(Refusal::Token(TokenError::UnknownKey(_)))
    ));
}

/// The token with another header and claims, each changed by a function of its JSON; the signature is kept.
fn forged(token: &str, header: impl Fn(&str) -> String, claims: impl Fn(&str) -> String) -> String {
    let parts: Vec<_> = token.split('.').collect();
    let changed = |part: &str, change: &dyn Fn(&str) -> String| {
        let json = String::from_utf8(Base64UrlUnpadded::decode_vec(part).unwrap()).unwrap();
        Base64UrlUnpadded::encode_string(change(&json).as_bytes())
    };
    format!(
        "{}.{}.{}",
        changed(parts[0], &header),
        changed(parts[1], &claims),
        parts[2]
    )
}

#[test]
fn a_token_that_was_tampered_with_is_refused() {
    let edge = Edge::new();
    let token = edge.device_with_token("pump");
    edge.device_with_token("valve");
    let keep = |json: &str| json.to_owned();
    let refusal = |token: &str| match edge.login("", token) {
        Err(Refusal::Token(error)) => error,
        other => panic!("{other:?}"),
    };
    let valve = forged(&token, keep, |json| json.replace("pump", "valve"));
    assert_eq!(refusal(&valve), TokenError::Signature);
    for algorithm in ["none", "None", "HS256", "RS256", ""] {
        let other = forged(&token, |json| json.replace("EdDSA", algorithm), keep);
        assert_eq!(refusal(&other), TokenError::Algorithm(algorithm.into()));
    }
    let unsigned = forged(&token, |json| json.replace("EdDSA", "none"), keep);
    let unsigned = format!("{}.", unsigned.rsplit_once('.').unwrap().0);
    assert_eq!(refusal(&unsigned), TokenError::Algorithm("none".into()));
    let without_signature = format!("{}.", token.rsplit_once('.').unwrap().0);
    assert_eq!(refusal(&without_signature), TokenError::Signature);
    assert!(matches!(refusal("eyJ9.eyJ9.x"), TokenError::Malformed(_)));
    let mut cut = token.clone();
    cut.truncate(cut.len() - 2);
    assert!(matches!(
        refusal(&cut),
        TokenError::Malformed(_) | TokenError::Signature
    ));
}

#[test]
fn tokens_end_with_their_client_and_with_a_revocation() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    let hour = Credential::Token { valid_s: 3_600 };
    let first = edge.device_with_token("pump");
    let second = token(edge.identity.issue(&name("pump"), &hour, NOW).unwrap());
    edge.login("pump", &first).unwrap();
    edge.login("pump", &second).unwrap();
    registry.revoke(&name("pump"), &HeldCredential::Tokens).unwrap();
    assert!(matches!(edge.login("pump", &first), Err(Refusal::TokenRevoked)));
    let third = token(edge.identity.issue(&name("pump"), &hour, NOW).unwrap());
    edge.login("pump", &third).unwrap();
    assert!(matches!(edge.login("pump", &second), Err(Refusal::TokenRevoked)));
    registry.remove(&name("pump")).unwrap();
    assert!(matches!(edge.login("pump", &third), Err(Refusal::UnknownClient)));
    edge.device_with_token("pump");
    assert!(matches!(edge.login("pump", &third), Err(Refusal::TokenRevoked)));
}

/// Lets these applications of the default tenant log in, and no others.
fn let_in(edge: &Edge, names: &[&str]) -> ApplicationLogins {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    edge.identity.registry().set_applications("default", &names).unwrap()
}

fn given(edge: &Edge, application: &str) -> Option<String> {
    let token = edge.identity.application_token(&name(application), NOW, 3_600).unwrap();
    token.map(|token| token.expose().to_owned())
}

#[test]
fn an_application_is_the_app_of_its_name_for_as_long_as_the_edge_runs_it() {
    let edge = Edge::new();
    assert_eq!(given(&edge, "site"), None);
    assert_eq!(let_in(&edge, &["site", "other"]).added, ["other", "site"]);
    let first = given(&edge, "site").unwrap();
    let login = edge.login("site", &first).unwrap();
    assert_eq!(
        (login.kind, &*login.id, &*login.tenant),
        (PrincipalKind::App, "site", "default")
    );
    assert!(matches!(edge.login("other", &first), Err(Refusal::TwoClients(..))));
    assert!(matches!(
        edge.login_at("site", &first, NOW + 3_600),
        Err(Refusal::Token(TokenError::Expired(_)))
    ));
    let edge = edge.reopened();
    edge.login("site", &first).unwrap();
    assert_eq!(let_in(&edge, &["site", "other"]), ApplicationLogins::default());
    let before = edge.identity.registry().last_change();
    assert_eq!(let_in(&edge, &["other"]).removed, ["site"]);
    let changes = edge.identity.registry().changes_since(before).unwrap();
    assert_eq!((changes.len(), &changes[0].what), (1, &What::Removed));
    assert!(matches!(edge.login("site", &first), Err(Refusal::TokenRevoked)));
    let_in(&edge, &["site"]);
    assert!(matches!(edge.login("site", &first), Err(Refusal::TokenRevoked)));
    edge.login("site", &given(&edge, "site").unwrap()).unwrap();
    assert!(
        edge.identity
            .registry()
            .set_applications("nowhere", &["site".to_owned()].into())
            .unwrap()
            .added
            .is_empty()
    );
}

#[test]
fn an_app_that_was_added_by_hand_stays_and_nothing_else_has_the_name_of_an_application() {
    let edge = Edge::new();
    let registry = edge.identity.registry();
    let by_hand = password(edge.add("site", ClientKind::App, Credential::GeneratedPassword));
    let_in(&edge, &["site", "pump"]);
    let token = given(&edge, "site").unwrap();
    registry.set_disabled(&name("site"), true).unwrap();
    assert!(matches!(edge.login("site", &token), Err(Refusal::Disabled)));
    registry.set_disabled(&name("site"), false).unwrap();
    edge.login("site", &token).unwrap();
    let before = registry.last_change();
    let_in(&edge, &["pump"]);
    let revoked = What::CredentialRevoked(Some(HeldCredential::Application));
    assert_eq!(registry.changes_since(before).unwrap()[0].what, revoked);
    edge.login("site", &by_hand).unwrap();
    let new = NewClient {
        name: name("pump"),
        kind: ClientKind::Device,
        labels: Default::default(),
        credential: Credential::GeneratedPassword,
        edge: None,
    };
    let refused = edge.identity.add(&new, NOW).unwrap_err().to_string();
    assert!(refused.contains("exists and is an app"), "{refused}");
    let_in(&edge, &[]);
    edge.device("pump");
    let_in(&edge, &["pump"]);
    assert!(matches!(
        edge.login("pump", &given(&edge, "pump").unwrap()),
        Err(Refusal::NameTaken(_, ClientKind::Device))
    ));
}

#[test]
fn where_a_key_got_out_connections_of_applications_end_too() {
    let edge = Edge::new();
    let_in(&edge, &["site"]);
    let token = given(&edge, "site").unwrap();
    let before = edge.identity.registry().last_change();
    edge.identity.rotate_token_keys(false, NOW).unwrap();
    edge.login("site", &token).unwrap();
    edge.identity.rotate_token_keys(true, NOW).unwrap();
    let changes = edge.identity.registry().changes_since(before).unwrap();
    let revoked = What::CredentialRevoked(Some(HeldCredential::Application));
    assert_eq!((changes[0].id.as_deref(), &changes[0].what), (Some("site"), &revoked));
    assert!(edge.login("site", &token).is_err());
}

#[test]
fn keys_rotate_with_an_overlap_and_survive_a_restart() {
    let edge = Edge::new();
    let old = edge.device_with_token("pump");
    edge.identity.rotate_token_keys(false, NOW).unwrap();
    let edge = edge.reopened();
    let keys = edge.identity.token_keys(NOW);
    let until: Vec<_> = keys.iter().map(|key| key.until_unix_s).collect();
    assert_eq!(until, [None, Some(NOW + 3_600)], "the time of the longest token");
    assert_eq!(edge.identity.token_keys(NOW + 3_600).len(), 1);
    let new = token(
        edge.identity
            .issue(&name("pump"), &Credential::Token { valid_s: 3_600 }, NOW)
            .unwrap(),
    );
    edge.login_at("pump", &old, NOW + 3_599).unwrap();
    assert!(matches!(
        edge.login_at("pump", &old, NOW + 3_600),
        Err(Refusal::Token(TokenError::UnknownKey(_)))
    ));
    edge.login_at("pump", &new, NOW + 3_599).unwrap();
    // A key that got out ends at once, and those before it; so do connections.
    let before = edge.identity.registry().last_change();
    edge.identity.rotate_token_keys(true, NOW).unwrap();
    let changes = edge.identity.registry().changes_since(before).unwrap();
    assert_eq!(changes[0].what, What::CredentialRevoked(Some(HeldCredential::Tokens)));
    for token in [&old, &new] {
        assert!(matches!(
            edge.login("pump", token),
            Err(Refusal::Token(TokenError::UnknownKey(_)))
        ));
    }
}

#[test]
fn a_rotation_that_would_end_a_token_is_refused_until_it_has_ended() {
    let edge = Edge::new();
    let old = edge.device_with_token("pump");
    for i in 0..15 {
        edge.identity.rotate_token_keys(false, NOW + i).unwrap();
    }
    // Keys that signed nothing long are needed for as long as a user's token may live.
    let refused = edge
        .identity
        .rotate_token_keys(false, NOW + 15)
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("15 earlier keys still verify tokens, the first until 1"),
        "{refused}"
    );
    edge.login("pump", &old).unwrap();
    edge.identity.rotate_token_keys(false, NOW + 1_000).unwrap();
    edge.login_at("pump", &old, NOW + 3_599).unwrap();
}

#[test]
fn a_clock_that_is_ahead_for_a_moment_ends_no_token_by_a_rotation() {
    let edge = Edge::new();
    let old = edge.device_with_token("pump");
    edge.identity.rotate_token_keys(false, NOW + 1_000_000_000).unwrap();
    edge.login("pump", &old).unwrap();
}

#[test]
fn an_issued_certificate_names_its_client_until_it_expires_or_is_revoked() {
    let edge = Edge::new();
    edge.identity.registry().add_tenant("acme", &Quotas::default()).unwrap();
    let (pem, _) = certificate(edge.add(
        "acme/pump",
        ClientKind::Device,
        Credential::Certificate { valid_s: 3_600 },
    ));
    let presented = identity_of(&pem);
    assert_eq!(
        (presented.name.clone(), presented.not_after_unix_s),
        (name("acme/pump"), NOW + 3_600)
    );
    assert_eq!(by_certificate(&edge, &presented, NOW).unwrap(), PrincipalKind::Device);
    assert!(matches!(
        by_certificate(&edge, &presented, NOW + 3_601),
        Err(Refusal::CertificateExpired(_))
    ));
    let listed = edge.identity.registry().certificates(&name("acme/pump")).unwrap();
    assert_eq!(listed[0].serial, presented.serial);
    edge.identity
        .registry()
        .revoke(&name("acme/pump"), &presented.serial.to_uppercase().parse().unwrap())
        .unwrap();
    assert!(matches!(
        by_certificate(&edge, &presented, NOW),
        Err(Refusal::CertificateRevoked(_))
    ));
}

#[test]
fn a_credential_is_revoked_where_its_client_has_it_and_nowhere_else() {
    let edge = Edge::new();
    let day = Credential::Certificate { valid_s: 86_400 };
    let (pem, _) = certificate(edge.add("pump", ClientKind::Device, day.clone()));
    let (other, _) = certificate(edge.add("valve", ClientKind::Device, day));
    let (theirs, others) = (identity_of(&pem), identity_of(&other));
    let secret = password(
        edge.identity
            .issue(&name("pump"), &Credential::GeneratedPassword, NOW)
            .unwrap(),
    );
    let revoke = |credential: &str| {
        edge.identity
            .registry()
            .revoke(&name("pump"), &credential.parse().unwrap())
    };
    for missing in ["token", "trusted-certificate", "5f", &others.serial] {
        let refused = revoke(missing).unwrap_err().to_string();
        assert!(refused.starts_with("\"pump\" has no "), "{refused}");
    }
    edge.identity
        .issue(&name("pump"), &Credential::TrustedSubject, NOW)
        .unwrap();
    assert!(revoke(&others.serial).is_err(), "of another client");
    revoke("trusted-certificate").unwrap();
    revoke(&theirs.serial).unwrap();
    assert!(by_certificate(&edge, &theirs, NOW).is_err());
    by_certificate(&edge, &others, NOW).unwrap();
    edge.login("pump", &secret).unwrap();
    revoke("password").unwrap();
    assert!(matches!(edge.login("pump", &secret), Err(Refusal::WrongPassword)));
    assert!(revoke("password").is_err());
    let nobody = edge.identity.registry().revoke(&name("nobody"), &"5f".parse().unwrap());
    assert_eq!(nobody.unwrap_err().to_string(), "no device or app \"nobody\"");
}

#[test]
fn a_certificate_ends_with_its_client() {
    let edge = Edge::new();
    let day = Credential::Certificate { valid_s: 86_400 };
    let (pem, _) = certificate(edge.add("pump", ClientKind::Device, day.clone()));
    let presented = identity_of(&pem);
    let registry = edge.identity.registry();
    registry.set_disabled(&name("pump"), true).unwrap();
    assert!(matches!(by_certificate(&edge, &presented, NOW), Err(Refusal::Disabled)));
    registry.remove(&name("pump")).unwrap();
    assert!(matches!(
        by_certificate(&edge, &presented, NOW),
        Err(Refusal::UnknownClient)
    ));
    // Not even where any certificate of its name will do.
    for heir in [day, Credential::TrustedSubject] {
        edge.add("pump", ClientKind::Device, heir);
        assert!(matches!(
            by_certificate(&edge, &presented, NOW),
            Err(Refusal::CertificateRevoked(_))
        ));
        registry.remove(&name("pump")).unwrap();
    }
}

#[test]
fn a_credential_that_is_replaced_leaves_no_other_valid() {
    let edge = Edge::new();
    let day = Credential::Certificate { valid_s: 86_400 };
    let hour = Credential::Token { valid_s: 3_600 };
    let old_password = edge.device("pump");
    let old_token = token(edge.identity.issue(&name("pump"), &hour, NOW).unwrap());
    let (pem, _) = certificate(edge.identity.issue(&name("pump"), &day, NOW).unwrap());
    let old_certificate = identity_of(&pem);
    let replace = |credential: &Credential| edge.identity.replace(&name("pump"), credential, NOW).unwrap();

    let new_token = token(replace(&hour));
    edge.login("pump", &new_token).unwrap();
    assert!(matches!(edge.login("pump", &old_password), Err(Refusal::WrongPassword)));
    assert!(matches!(edge.login("pump", &old_token), Err(Refusal::TokenRevoked)));
    assert!(by_certificate(&edge, &old_certificate, NOW).is_err());

    let (pem, _) = certificate(replace(&day));
    assert!(matches!(edge.login("pump", &new_token), Err(Refusal::TokenRevoked)));
    by_certificate(&edge, &identity_of(&pem), NOW).unwrap();

    // Not even where any certificate of its name will do.
    replace(&Credential::TrustedSubject);
    for old in [&old_certificate, &identity_of(&pem)] {
        assert!(matches!(
            by_certificate(&edge, old, NOW),
            Err(Refusal::CertificateRevoked(_))
        ));
    }
    assert!(edge.identity.replace(&name("nobody"), &hour, NOW).is_err());
}

#[test]
fn the_certificates_of_one_client_are_bounded() {
    let edge = Edge::new();
    let day = Credential::Certificate { valid_s: 86_400 };
    edge.add("pump", ClientKind::Device, day.clone());
    (1..16).for_each(|_| drop(edge.identity.issue(&name("pump"), &day, NOW).unwrap()));
    let refused = edge.identity.issue(&name("pump"), &day, NOW).unwrap_err().to_string();
    assert!(refused.contains("16 valid certificates"), "{refused}");
    // Once they have expired there is room again.
    edge.identity.issue(&name("pump"), &day, NOW + 86_401).unwrap();
}

#[test]
fn a_certificate_of_another_authority_needs_a_client_that_trusts_its_subject() {
    let (edge, operators) = (Edge::new(), Edge::new());
    let (pem, _) = certificate(operators.add("pump", ClientKind::Device, Credential::Certificate { valid_s: 86_400 }));
    let presented = identity_of(&pem);
    edge.device("pump");
    assert!(matches!(
        by_certificate(&edge, &presented, NOW),
        Err(Refusal::CertificateNotIssued(_))
    ));
    edge.identity
        .issue(&name("pump"), &Credential::TrustedSubject, NOW)
        .unwrap();
    assert_eq!(by_certificate(&edge, &presented, NOW).unwrap(), PrincipalKind::Device);
    edge.identity
        .registry()
        .revoke(&name("pump"), &presented.serial.parse().unwrap())
        .unwrap();
    assert!(matches!(
        by_certificate(&edge, &presented, NOW),
        Err(Refusal::CertificateRevoked(_))
    ));
}

#[test]
fn everything_presented_must_be_right_and_of_one_client() {
    let edge = Edge::new();
    let (pem, _) = certificate(edge.add("pump", ClientKind::Device, Credential::Certificate { valid_s: 86_400 }));
    let certificate = identity_of(&pem);
    let secret = password(
        edge.identity
            .issue(&name("pump"), &Credential::GeneratedPassword, NOW)
            .unwrap(),
    );
    let valve = edge.device("valve");
    let login = |user_name, password: Option<&str>| {
        let password = password.map(str::as_bytes);
        edge.identity.authenticate(
            &Presented {
                user_name,
                password,
                certificate: Some(&certificate),
            },
            NOW,
        )
    };
    login(Some("pump"), Some(&secret)).unwrap();
    login(Some("pump"), None).unwrap();
    login(None, None).unwrap();
    assert!(matches!(
        login(Some("pump"), Some("wrong")),
        Err(Refusal::WrongPassword)
    ));
    assert!(matches!(
        login(Some("valve"), Some(&valve)),
        Err(Refusal::TwoClients(..))
    ));
    assert!(matches!(login(Some("valve"), None), Err(Refusal::TwoClients(..))));
}

#[test]
fn a_certificate_whose_subject_is_no_client_is_refused() {
    assert_eq!(
        CertificateIdentity::from_der(b"\x30\x03\x02\x01"),
        Err(CertificateError::Unreadable)
    );
    let edge = Edge::new();
    let authority = edge.identity.authority().certificate_pem();
    let der = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    // Its common name has spaces.
    assert!(matches!(
        CertificateIdentity::from_der(&der),
        Err(CertificateError::Name(_))
    ));
    let subject = |names: &[(rcgen::DnType, &str)]| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        names
            .iter()
            .for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
        let key = rcgen::KeyPair::generate().unwrap();
        CertificateIdentity::from_der(params.self_signed(&key).unwrap().der())
    };
    use rcgen::DnType::{CommonName, OrganizationName};
    assert_eq!(subject(&[(CommonName, "pump")]).unwrap().name, name("pump"));
    assert_eq!(
        subject(&[(CommonName, "pump"), (OrganizationName, "acme")])
            .unwrap()
            .name,
        name("acme/pump")
    );
    assert!(matches!(
        subject(&[(OrganizationName, "acme")]),
        Err(CertificateError::Subject(_))
    ));
    assert!(matches!(
        subject(&[(CommonName, "a/b")]),
        Err(CertificateError::Name(_))
    ));
    assert!(matches!(subject(&[(CommonName, "")]), Err(CertificateError::Name(_))));
}

#[test]
fn no_secret_is_printed_for_debugging() {
    let edge = Edge::new();
    let issued = edge.add("pump", ClientKind::Device, Credential::GeneratedPassword);
    let printed = format!("{issued:?} {:?}", chosen("correct horse"));
    assert!(
        !printed.contains(&password(issued)) && !printed.contains("horse"),
        "{printed}"
    );
}

mod anything {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_character_of_a_token_can_be_changed(place in any::<prop::sample::Index>(), character in "[A-Za-z0-9_-]") {
            thread_local!(static EDGE: (Edge, String) = {
                let edge = Edge::new();
                let token = edge.device_with_token("pump");
                (edge, token)
            });
            EDGE.with(|(edge, token)| {
                let mut changed = token.clone().into_bytes();
                let place = place.index(changed.len());
                changed[place] = character.as_bytes()[0];
                let password = Some(&*changed);
                let presented = Presented { user_name: Some("pump"), password, ..Presented::default() };
                let right = changed == token.as_bytes();
                prop_assert_eq!(edge.identity.authenticate(&presented, NOW).is_ok(), right);
                Ok(())
            })?;
        }

        #[test]
        fn no_bytes_of_a_certificate_make_its_reader_panic(
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            thread_local!(static CERTIFICATE: Vec<u8> = {
                let edge = Edge::new();
                let (pem, _) =
                    certificate(edge.add("pump", ClientKind::Device, Credential::Certificate { valid_s: 1 }));
                CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
            });
            let mut der = CERTIFICATE.with(Vec::clone);
            for (place, byte) in places {
                let place = place.index(der.len());
                der[place] = byte;
            }
            let _ = CertificateIdentity::from_der(&der);
        }

        #[test]
        fn a_user_name_is_refused_or_read_back_as_it_was(user_name in "\\PC{0,40}|[a-z._:-]{0,130}(/[a-z]{0,3})?") {
            if let Ok(name) = identity::ClientName::from_user_name(&user_name) {
                prop_assert_eq!(name.user_name(), user_name.strip_prefix("default/").unwrap_or(&user_name));
            }
        }
    }
}
