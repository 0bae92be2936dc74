//! The edge joins the cloud as every edge does: invited there, with a token that is good once.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::Context;
use api::{Client, InvitationInfo, Invite, JoinCloud, Joined, paths};
use hyper::Method;
use identity::{ClientName, DEFAULT_TENANT, Membership};

use super::EDGE;
use crate::node::unix_now_s;

/// How long the token is good, which is used at once.
const TOKEN_VALID_S: u32 = 60;

/// The cloud's ports for edges, on this machine alone.
pub(super) struct Doors {
    pub(super) mqtts: u16,
    pub(super) https: u16,
    /// The edge has joined a cloud at these ports.
    membership: Option<Membership>,
}

impl Doors {
    /// Those that the edge has joined at, where they are free; else others, at which it has to join anew.
    pub(super) fn of(edge_data: &Path) -> anyhow::Result<Self> {
        let membership = Membership::read(edge_data).ok().flatten();
        let at = |url: &str| url.rsplit_once(':')?.1.parse().ok();
        let joined = membership.as_ref();
        if let Some((mqtts, https)) = joined.and_then(|known| Some((at(&known.link_url)?, at(&known.cloud_url)?)))
            && [mqtts, https].into_iter().all(|port| listen(port).is_ok())
        {
            return Ok(Self {
                mqtts,
                https,
                membership,
            });
        }
        // Both held until both are known: they are two.
        let free = || listen(0).context("looking for a free port");
        let (mqtts, https) = (free()?, free()?);
        Ok(Self {
            mqtts: mqtts.local_addr()?.port(),
            https: https.local_addr()?.port(),
            membership: None,
        })
    }

    /// Whether the edge's certificate is good for this cloud.
    fn is_joined(&self, cloud_data: &Path) -> bool {
        let authority = std::fs::read_to_string(cloud_data.join("ca.pem")).unwrap_or_default();
        let is_good = |known: &Membership| known.authority_pem == authority && unix_now_s() < known.not_after_unix_s;
        self.membership.as_ref().is_some_and(is_good)
    }

    /// Has the edge join, unless it has.
    pub(super) async fn join(&self, cloud: &Client, cloud_data: &Path, edge: &Client) -> anyhow::Result<()> {
        if self.is_joined(cloud_data) {
            return Ok(());
        }
        let invite = Invite { valid_s: TOKEN_VALID_S };
        let invitation = paths::invitation(&ClientName::new(DEFAULT_TENANT, EDGE)?);
        let invitation: InvitationInfo = cloud.post(&invitation, &invite).await?;
        let join = JoinCloud {
            url: invitation.url,
            token: invitation.token,
        };
        let joined = edge.send::<Joined>(Method::PUT, "/v1/link", &join).await;
        joined.map(drop).context("the edge joins its cloud")
    }
}

fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}
