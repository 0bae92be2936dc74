//! Devices that an edge and its cloud share: which edge one may be given to, and what the other end of the link
//! changes.

use std::sync::Arc;

use identity::{Action, Client, ClientKind, ClientName, What};
use link::{DeviceChange, DeviceFigures, Follow};

use crate::applying;
use crate::desk::Desk;
use crate::guard::acting_as;
use crate::page::MetricsPage;
use crate::wrong::{Done, Wrong};

impl Desk {
    /// Acts on what the other end of a link changes about devices, as on what an operator here does.
    pub fn follower(self: &Arc<Self>) -> Follow {
        let desk = Arc::clone(self);
        Arc::new(move |changes| {
            let desk = Arc::clone(&desk);
            Box::pin(async move { desk.follow_link(changes).await })
        })
    }

    async fn follow_link(&self, changes: Vec<DeviceChange>) {
        for change in &changes {
            let by = match &*change.edge {
                "" => "cloud".to_owned(),
                edge => format!("edge {edge}"),
            };
            acting_as(by, async { self.account_for_change(change).await }).await;
        }
        if let Err(wrong) = self.settle().await {
            tracing::error!(
                error = wrong.message(),
                "what the other end of the link changed has no effect yet"
            );
        }
    }

    async fn account_for_change(
        &self,
        DeviceChange {
            name,
            changes,
            lost,
            edge,
        }: &DeviceChange,
    ) {
        for change in changes {
            let (action, what) = match change {
                What::Added => (Action::Added, "device".to_owned()),
                What::Removed => (Action::Removed, "device".to_owned()),
                What::Disabled => (Action::Disabled, "device".to_owned()),
                What::CredentialAdded => (Action::Added, "credential".to_owned()),
                What::CredentialRevoked(Some(credential)) => (Action::Removed, credential.to_string()),
                What::CredentialRevoked(None) => (Action::Removed, "credentials".to_owned()),
                What::Labels | What::Quotas => continue,
            };
            self.account_for(action, name, &what);
            if *change == What::Removed
                && let Err(wrong) = applying::forget_device(self, name).await
            {
                tracing::error!(device = %name, error = wrong.message(), "the manifest of a removed device stays");
            }
        }
        if !lost.is_empty() {
            let members = lost.join(", ");
            tracing::warn!(device = %name, %edge, %members, "edits of the cloud were given up for edits of the edge");
            self.account_for(Action::Changed, name, &format!("edits given up: {members}"));
        }
    }
}

/// The name of an edge that devices of a tenant may be given to.
pub(crate) async fn checked_edge(desk: &Desk, tenant: &str, edge: &str) -> Done<String> {
    let name = ClientName::from_user_name(edge)?;
    let wanted = name.clone();
    let client = desk.with_registry(move |registry| registry.client(&wanted)).await?;
    match client.filter(|client| speaks_for(client, tenant)) {
        Some(_) => Ok(name.user_name()),
        None => Err(Wrong::request(format!(
            "no edge \"{edge}\" that may speak for the tenant {tenant}; selvedge get edges lists them, and the label \
             tenants of an edge says for which it speaks beside its own"
        ))),
    }
}

fn speaks_for(client: &Client, tenant: &str) -> bool {
    let others = client.labels.get("tenants").map(String::as_str);
    client.kind == ClientKind::Edge && identity::tenants_of_edge(client.name.tenant(), others).any(|one| one == tenant)
}

/// What is said of shared devices on the page of metrics.
pub(crate) fn write(page: &mut MetricsPage, desk: &Desk) {
    let of_edge = desk.link.as_ref().map(|link| link.devices());
    let Some(figures) = of_edge.or_else(|| desk.connected.as_ref().map(|connected| connected.devices())) else {
        return;
    };
    type OfFigures = fn(&DeviceFigures) -> u64;
    page.counter(
        "link_devices_told_total",
        "What was told of devices over the link: many in short, each in short, each whole.",
    );
    let told: [(&str, OfFigures); 3] = [
        ("part", DeviceFigures::parts),
        ("digest", DeviceFigures::devices),
        ("record", DeviceFigures::records),
    ];
    for (what, of) in told {
        page.value(&[("what", what)], of(figures));
    }
    let counters: [(&str, &str, OfFigures); 3] = [
        (
            "link_records_taken_total",
            "Records of the other side that changed something here.",
            DeviceFigures::taken,
        ),
        (
            "link_records_refused_total",
            "Records of the other side that were not believed.",
            DeviceFigures::refusals,
        ),
        (
            "link_record_edits_lost_total",
            "Edits of records that were given up for the edge's.",
            DeviceFigures::lost,
        ),
    ];
    for (name, help, of) in counters {
        page.counter(name, help);
        page.value(&[], of(figures));
    }
}
