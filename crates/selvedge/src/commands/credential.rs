//! `selvedge device credential …`, `selvedge device rotate`, and the same of apps.

use api::{Added, CredentialInfo, EdgeInfo, Give, Page, paths};
use clap::{Args, Subcommand};
use hyper::Method;
use identity::{ClientKind, ClientName, HeldCredential};

use super::chosen::Chosen;
use super::clients::Named;
use super::{Target, issued};
use crate::output::{Output, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Give one another credential; those it has stay valid, but for a password, which takes the place of the one
    /// before
    Add(Given),
    /// List those that one has, certificates with serial number and end
    List(Named),
    /// Make a credential of one worthless at once; the connections made with it end, those made with another go on
    Revoke {
        #[command(flatten)]
        named: Named,
        /// password, token (all of them), trusted-certificate, or the serial number of a certificate
        #[arg(value_name = "CREDENTIAL")]
        credential: HeldCredential,
    },
}

#[derive(Args)]
pub(crate) struct Given {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    credential: Chosen,
}

impl Command {
    pub(super) fn target(&mut self) -> &mut Target {
        match self {
            Command::Add(given) => given.target(),
            Command::List(named) | Command::Revoke { named, .. } => &mut named.target,
        }
    }

    pub(crate) fn run(self, kind: ClientKind) -> anyhow::Result<()> {
        match self {
            Command::Add(given) => given.add(kind),
            Command::List(named) => list(&named, kind),
            Command::Revoke { named, credential } => revoke(&named, kind, &credential),
        }
    }
}

impl Given {
    pub(super) fn target(&mut self) -> &mut Target {
        &mut self.named.target
    }

    fn add(self, kind: ClientKind) -> anyhow::Result<()> {
        self.give(
            kind,
            Method::POST,
            "has another credential; those of another sort stay valid",
        )
    }

    pub(crate) fn replace(self, kind: ClientKind) -> anyhow::Result<()> {
        let said = "has a new credential; what it had is worthless, its connections ended";
        self.give(kind, Method::PUT, said)
    }

    fn give(self, kind: ClientKind, method: Method, said: &str) -> anyhow::Result<()> {
        let Named { id, target } = self.named;
        let name = ClientName::new(&target.tenant, &id)?;
        self.credential.check_files(&name)?;
        let is_chosen = self.credential.is_chosen();
        let give = Give {
            credential: self.credential.wish(),
        };
        let path = paths::credentials(&name, kind);
        let data = target.edge.directory()?;
        let (given, edge) = target.edge.ask(false, async |client| {
            let given: Added = client.send(method, &path, &give).await?;
            let edge: EdgeInfo = client.get("/v1/edge").await?;
            Ok((given, edge))
        })?;
        if target.output == Output::Text {
            issued::write_files(&given)?;
        }
        target.output.show(&given, |given| {
            issued::text(&format!("{kind} {id} {said}"), given, is_chosen, &edge, &data)
        });
        Ok(())
    }
}

fn list(named: &Named, kind: ClientKind) -> anyhow::Result<()> {
    let path = paths::credentials(&named.name()?, kind);
    let edge = &named.target.edge;
    let held: Page<CredentialInfo> = edge.ask(false, async |client| Ok(client.get(&path).await?))?;
    named.target.output.show(&held.items, |held| match held.is_empty() {
        true => format!("{kind} {} has no credential{}\n", named.id, hint(kind, &named.id)),
        false => table(
            ["CREDENTIAL", "SERIAL", "VALID UNTIL"],
            &held.iter().map(row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

fn row(held: &CredentialInfo) -> [String; 3] {
    [
        held.sort.clone(),
        held.serial.clone().unwrap_or_default(),
        held.until.clone().unwrap_or_default(),
    ]
}

fn revoke(named: &Named, kind: ClientKind, credential: &HeldCredential) -> anyhow::Result<()> {
    let path = paths::credential(&named.name()?, kind, credential);
    let edge = &named.target.edge;
    let left: Page<CredentialInfo> = edge.ask(false, async |client| {
        Ok(client.send(Method::DELETE, &path, &()).await?)
    })?;
    named.target.output.show(&left.items, |left| {
        let left = match left.is_empty() {
            true => format!("it has no credential left{}", hint(kind, &named.id)),
            false => "what else it has stays valid".to_owned(),
        };
        format!(
            "{credential} of {kind} {} is worthless, the connections made with it ended; {left}\n",
            named.id
        )
    });
    Ok(())
}

fn hint(kind: ClientKind, id: &str) -> String {
    format!("; give it one: selvedge {kind} credential add {id}")
}
