//! `selvedge user …`.

use api::{AddUser, AddedUser, ChangeUser, Page, SetPassword, UserInfo, UserRole, paths};
use clap::{Args, Subcommand, ValueEnum};
use hyper::Method;
use identity::UserName;

use super::{Asked, tenant_name};
use crate::output::{say, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Add one, with a password that is made and shown once, or another
    Add {
        #[command(flatten)]
        named: Named,
        /// What it may do; each may do what those before it may
        #[arg(long, value_name = "ROLE")]
        role: Role,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// List those of the whole cloud, or of a tenant
    List {
        /// The tenant; those of the whole cloud where it is left out
        #[arg(long, value_name = "NAME", value_parser = tenant_name)]
        tenant: Option<String>,
        #[command(flatten)]
        asked: Asked,
    },
    /// Give one another role, which holds from its next request on; its logins go on
    Set {
        #[command(flatten)]
        named: Named,
        /// What it may do; each may do what those before it may
        #[arg(long, value_name = "ROLE")]
        role: Role,
    },
    /// Give one another password, made and shown once, or chosen: its logins end at once
    #[command(visible_alias = "passwd")]
    Rotate {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Remove one: its logins end at once
    Remove(Named),
}

#[derive(Args)]
pub(crate) struct Named {
    /// NAME of the whole cloud, TENANT/NAME of a tenant
    #[arg(value_parser = UserName::parse)]
    name: UserName,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Args)]
pub(crate) struct Chosen {
    /// This password instead of one that is made
    #[arg(long, value_name = "P")]
    password: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Role {
    /// Sees devices, twins and telemetry
    Viewer,
    /// Adds and removes devices and apps, sets twins, calls methods
    Operator,
    /// Adds and removes users; of the whole cloud also tenants and edges
    Admin,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Add { named, role, chosen } => named.add(role, chosen),
            Command::List { tenant, asked } => list(tenant.as_deref(), &asked),
            Command::Set { named, role } => named.set(role),
            Command::Rotate { named, chosen } => named.rotate(chosen),
            Command::Remove(named) => named.remove(),
        }
    }
}

impl Named {
    fn add(self, role: Role, chosen: Chosen) -> anyhow::Result<()> {
        let add = AddUser {
            name: self.name.name().to_owned(),
            role: role.into(),
            password: chosen.password,
        };
        let path = paths::users(self.name.tenant());
        let added: AddedUser = self
            .asked
            .edge
            .ask(true, async |client| Ok(client.post(&path, &add).await?))?;
        let text = |added: &AddedUser| format!("user {} added\n{}", added.user, password(added));
        self.asked.output.show(&added, text);
        Ok(())
    }

    fn set(self, role: Role) -> anyhow::Result<()> {
        let change = ChangeUser { role: role.into() };
        let path = paths::user(&self.name);
        let changed: UserInfo = self.asked.edge.ask(false, async |client| {
            Ok(client.send(Method::PATCH, &path, &change).await?)
        })?;
        self.asked.output.show(&changed, |user| {
            let article = if user.role == "viewer" { "a" } else { "an" };
            format!(
                "user {} is {article} {} from its next request on\n",
                user.user, user.role
            )
        });
        Ok(())
    }

    fn rotate(self, chosen: Chosen) -> anyhow::Result<()> {
        let set = SetPassword {
            password: chosen.password,
        };
        let path = format!("{}/password", paths::user(&self.name));
        let added: AddedUser = self
            .asked
            .edge
            .ask(false, async |client| Ok(client.send(Method::PUT, &path, &set).await?))?;
        let text = |added: &AddedUser| {
            let said = "has another password; its logins ended";
            format!("user {} {said}\n{}", added.user, password(added))
        };
        self.asked.output.show(&added, text);
        Ok(())
    }

    fn remove(self) -> anyhow::Result<()> {
        let path = paths::user(&self.name);
        self.asked.edge.ask(false, async |client| {
            Ok(client.good(Method::DELETE, &path, Vec::new()).await?)
        })?;
        say(format_args!("user {} removed; its logins ended\n", self.name));
        Ok(())
    }
}

fn list(tenant: Option<&str>, asked: &Asked) -> anyhow::Result<()> {
    let path = paths::users(tenant);
    let users: Page<UserInfo> = asked.edge.ask(false, async |client| Ok(client.get(&path).await?))?;
    asked.output.show(&users.items, |users| match users.is_empty() {
        true => "no users; add one: selvedge user add NAME --role viewer\n".to_owned(),
        false => table(["USER", "ROLE", "ADDED"], &users.iter().map(row).collect::<Vec<_>>()),
    });
    Ok(())
}

fn row(user: &UserInfo) -> [String; 3] {
    [user.user.clone(), user.role.clone(), user.created.clone()]
}

/// A line with the password that was made, if one was.
fn password(added: &AddedUser) -> String {
    let line = |password: &String| format!("  password   {password}   (shown this once)\n");
    added.password.as_ref().map(line).unwrap_or_default()
}

impl From<Role> for UserRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Viewer => UserRole::Viewer,
            Role::Operator => UserRole::Operator,
            Role::Admin => UserRole::Admin,
        }
    }
}
