//! `selvedge edge join URL --token T`, and `selvedge site join`.

use std::path::PathBuf;

use api::{JoinCloud, Joined};
use clap::Args;
use hyper::Method;

use super::Where;
use crate::node::EDGE_DATA;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Join {
    /// URL that was printed with the token
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
    /// Joins a cloud.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (data, output) = (self.data.display().to_string(), self.output);
        output.show(&self.ask("/v1/link")?, |joined| {
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

    /// Joins a site.
    pub(crate) fn run_site(self) -> anyhow::Result<()> {
        let (data, output) = (self.data.display().to_string(), self.output);
        output.show(&self.ask("/v1/site")?, |joined| {
            let next = match joined.is_running {
                true => format!("the edge finds the other nodes now; see them: selvedge get nodes --data {data}"),
                false => format!("the edge finds the other nodes once it runs: selvedge edge --data {data} --site ADDRESS"),
            };
            format!(
                "joined the site as {}, by its node at {}\n  certificate  good until {}, and renewed by the edge before\n  \
                 next         {next}\n",
                joined.edge, joined.link_url, joined.until
            )
        });
        Ok(())
    }

    fn ask(self, path: &str) -> anyhow::Result<Joined> {
        let join = JoinCloud {
            url: self.url,
            token: self.token,
        };
        Where::named(self.data).ask(true, async |client| Ok(client.send(Method::PUT, path, &join).await?))
    }
}
