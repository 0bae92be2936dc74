//! `selvedge edge join URL --token T`.

use std::path::PathBuf;

use api::{JoinCloud, Joined};
use clap::Args;
use hyper::Method;

use super::Where;
use crate::node::EDGE_DATA;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Join {
    /// URL of the cloud, as "selvedge edge invite" printed it there
    url: String,
    /// The token that it printed; good once
    #[arg(long, value_name = "T")]
    token: String,
    /// Data directory of the edge; one that is not there is made
    #[arg(long, value_name = "DIR", default_value = EDGE_DATA)]
    data: PathBuf,
    /// For people or for programs
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Output,
}

impl Join {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let join = JoinCloud {
            url: self.url,
            token: self.token,
        };
        let data = self.data.display().to_string();
        let joined: Joined = Where::named(self.data).ask(true, async |client| {
            Ok(client.send(Method::PUT, "/v1/link", &join).await?)
        })?;
        self.output.show(&joined, |joined| {
            let next = match joined.is_running {
                true => format!("the edge that runs links now; see how: selvedge get link --data {data}"),
                false => format!("the edge links once it runs: selvedge edge --data {data}"),
            };
            format!(
                "joined the cloud as {}, to link to {}\n  certificate  good until {}, and renewed by the edge before\n  \
                 next         {next}\n",
                joined.edge, joined.link_url, joined.until
            )
        });
        Ok(())
    }
}
