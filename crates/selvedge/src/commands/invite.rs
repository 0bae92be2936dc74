//! `selvedge edge invite ID`, at a cloud.

use api::{InvitationInfo, paths};
use clap::Args;
use hyper::Method;
use identity::{ClientName, DEFAULT_TENANT};

use super::{Where, tenant_name};
use crate::output::{Output, say};

#[derive(Args)]
pub(crate) struct Invite {
    /// Id of the edge
    id: String,
    /// Tenant of the edge
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TENANT, value_parser = tenant_name)]
    tenant: String,
    /// How long the token is good, such as 30m, 12h or 2d; at most 30d. An earlier one of the edge is worthless at once
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = seconds)]
    valid: u32,
    /// Withdraw the invitation: its token is worthless at once
    #[arg(long, conflicts_with = "valid")]
    withdraw: bool,
    #[command(flatten)]
    cloud: Where,
    /// For people or for programs
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Output,
}

impl Invite {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let path = paths::invitation(&ClientName::new(&self.tenant, &self.id)?);
        self.cloud.of_cloud();
        if self.withdraw {
            let withdraw = self.cloud.ask(false, async |client| {
                Ok(client.good(Method::DELETE, &path, Vec::new()).await?)
            });
            withdraw?;
            say(format_args!(
                "the invitation of edge {} is withdrawn; its token is worthless\n",
                self.id
            ));
            return Ok(());
        }
        let invite = api::Invite { valid_s: self.valid };
        let invitation: InvitationInfo = self
            .cloud
            .ask(false, async |client| Ok(client.post(&path, &invite).await?))?;
        self.output.show(&invitation, text);
        Ok(())
    }
}

fn text(invitation: &InvitationInfo) -> String {
    let InvitationInfo {
        edge, until, command, ..
    } = invitation;
    let is_new = if invitation.is_new { " (which is new)" } else { "" };
    format!(
        "edge {edge}{is_new} may join once, until {until}. On its machine:\n\n  {command}\n{}",
        hint(&invitation.url)
    )
}

/// Where nobody else could follow the URL.
pub(super) fn hint(url: &str) -> &'static str {
    match url.contains("://127.") || url.contains("://localhost") || url.contains("://[::1]") {
        true => {
            "\nThe cloud listens for this machine alone; for others start it with --https 0.0.0.0:8443 --mqtts 0.0.0.0:8883\n"
        }
        false => "",
    }
}

/// A time in minutes, hours or days.
pub(super) fn seconds(text: &str) -> Result<u32, String> {
    let wrong = || format!("\"{text}\" is no time from 1m to 30d; such are 30m, 12h and 2d");
    let units = [('m', 60), ('h', 3_600), ('d', 86_400)];
    let found = units
        .iter()
        .find_map(|(letter, unit_s)| Some((text.strip_suffix(*letter)?, unit_s)));
    let (number, unit_s) = found.ok_or_else(wrong)?;
    let number: u32 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(*unit_s);
    seconds
        .filter(|seconds| (60..=30 * 86_400).contains(seconds))
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_of_minutes_hours_or_days_within_bounds() {
        for (text, expected) in [("1m", 60), ("90m", 5_400), ("1h", 3_600), ("30d", 2_592_000)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for bad in [
            "",
            "h",
            "0m",
            "31d",
            "1",
            "-1h",
            "1s",
            "1.5h",
            "99999999999d",
            "1hh",
            "10000000d",
        ] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn where_the_cloud_is_for_this_machine_alone_it_is_said() {
        for (url, is_said) in [
            ("https://127.0.0.1:8443", true),
            ("https://[::1]:8443", true),
            ("https://192.0.2.7:8443", false),
            ("https://cloud.example:8443", false),
        ] {
            assert_eq!(!hint(url).is_empty(), is_said, "{url}");
        }
    }
}
