//! `--edge NAME` of `selvedge apply`, `get` and `delete`, at a cloud: manifests of one of its edges.

use api::{EdgeManifest, ManifestState, Page, paths};
use clap::Args;
use identity::{ClientName, DEFAULT_TENANT, NameError};

use super::Target;
use crate::output::table;

/// For which edge of a cloud.
#[derive(Args)]
pub(crate) struct ForEdge {
    /// At a cloud: for this edge of it, TENANT/NAME where it is not of the default tenant
    #[arg(long = "edge", value_name = "NAME", value_parser = edge_name)]
    pub(super) edge_name: Option<ClientName>,
}

fn edge_name(text: &str) -> Result<ClientName, NameError> {
    ClientName::from_user_name(text)
}

/// What was applied for an edge, and what became of it.
pub(super) fn list(target: &Target, edge: &ClientName) -> anyhow::Result<()> {
    let path = paths::edge_manifests(edge);
    let manifests: Page<EdgeManifest> = target.edge.ask(false, async |client| Ok(client.get(&path).await?))?;
    target
        .output
        .show(&manifests.items, |manifests| match manifests.is_empty() {
            true => format!("no manifests of edge {edge}; apply one: selvedge apply -f FILE --edge {edge}\n"),
            false => table(
                ["MANIFEST", "STATE", "WANTED", "ON EDGE", "ERROR"],
                &manifests.iter().map(row).collect::<Vec<_>>(),
            ),
        });
    Ok(())
}

fn row(manifest: &EdgeManifest) -> [String; 5] {
    let EdgeManifest { tenant, kind, name, .. } = manifest;
    let tenant = match &**tenant {
        DEFAULT_TENANT => String::new(),
        tenant => format!("{tenant}/"),
    };
    let revision = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let error = manifest.error.as_deref().unwrap_or_default();
    [
        format!("{tenant}{kind}/{name}"),
        state(manifest.state).to_owned(),
        revision(manifest.wanted),
        revision(manifest.on_edge),
        error.lines().collect::<Vec<_>>().join("; "),
    ]
}

fn state(state: ManifestState) -> &'static str {
    match state {
        ManifestState::Waiting => "waiting",
        ManifestState::Applied => "applied",
        ManifestState::Refused => "refused",
        ManifestState::TakenOver => "taken over",
        ManifestState::Removing => "removing",
        ManifestState::Unknown => "unknown here",
    }
}
