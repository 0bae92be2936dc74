//! `selvedge device rotate` and `selvedge app rotate`.

use api::{Added, EdgeInfo, Replace, paths};
use clap::Args;
use identity::{ClientKind, ClientName};

use super::chosen::Chosen;
use super::clients::Named;
use super::issued;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    credential: Chosen,
}

impl Rotate {
    pub(crate) fn run(self, kind: ClientKind) -> anyhow::Result<()> {
        let Named { id, target } = self.named;
        let name = ClientName::new(&target.tenant, &id)?;
        self.credential.check_files(&name)?;
        let is_chosen = self.credential.is_chosen();
        let replace = Replace {
            credential: self.credential.wish(),
        };
        let path = paths::credential(&name, kind);
        let (given, edge) = target.edge.ask(false, async |client| {
            let given: Added = client.post(&path, &replace).await?;
            let edge: EdgeInfo = client.get("/v1/edge").await?;
            Ok((given, edge))
        })?;
        if target.output == Output::Text {
            issued::write_files(&given)?;
        }
        let what_happened =
            format!("{kind} {id} has a new credential; what it had is worthless, its connections ended");
        target.output.show(&given, |given| {
            issued::text(&what_happened, given, is_chosen, &edge, &target.edge.data)
        });
        Ok(())
    }
}
