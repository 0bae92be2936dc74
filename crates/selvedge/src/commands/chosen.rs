//! Which credential somebody wants for a device or app.

use api::Credential;
use clap::Args;
use identity::ClientName;

use super::issued;

const DAY_S: u32 = 86_400;

#[derive(Args)]
pub(crate) struct Chosen {
    #[command(flatten)]
    sort: Sort,
    /// Days that a token or certificate is valid
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    valid_days: u32,
}

#[derive(Args)]
#[group(multiple = false)]
struct Sort {
    /// This password instead of one that is made
    #[arg(long, value_name = "P")]
    password: Option<String>,
    /// A signed token, which stands where a password would
    #[arg(long)]
    token: bool,
    /// A certificate and key of the authority of the edge or cloud itself, written to ID.pem and ID.key here
    #[arg(long)]
    certificate: bool,
    /// It has a certificate already, of an authority that the edge or cloud was told to trust (--tls-client-ca)
    #[arg(long)]
    trusted_certificate: bool,
}

impl Chosen {
    /// Whether somebody chose the password.
    pub(crate) fn is_chosen(&self) -> bool {
        self.sort.password.is_some()
    }

    /// Refuses to overwrite an earlier certificate of this name, if one is to be made.
    pub(crate) fn check_files(&self, name: &ClientName) -> anyhow::Result<()> {
        match self.sort.certificate {
            true => issued::check_files(name.id()),
            false => Ok(()),
        }
    }

    /// What to ask the edge for.
    pub(crate) fn wish(self) -> Credential {
        let valid_s = self.valid_days * DAY_S;
        match self.sort {
            Sort {
                password: Some(password),
                ..
            } => Credential::Password(password),
            Sort { token: true, .. } => Credential::Token { valid_s },
            Sort { certificate: true, .. } => Credential::Certificate { valid_s },
            Sort {
                trusted_certificate: true,
                ..
            } => Credential::TrustedCertificate,
            _ => Credential::GeneratedPassword,
        }
    }
}
