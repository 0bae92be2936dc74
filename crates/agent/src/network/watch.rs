//! Sees to it that rules stay: another program may drop them all (`nft flush ruleset`, a firewall that is loaded anew),
//! and a Docker Engine that is started after the edge has the kernel forward nothing but what is its own.

use std::io;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{sleep, timeout};

use super::{HostRules, Network};

/// Who is told of each change of rules (`NFNLGRP_NFTABLES` of `linux/netfilter/nfnetlink.h`).
const CHANGES_OF_RULES: u32 = 7;
/// Changes seldom come alone: they are waited for.
const MORE_TO_COME: Duration = Duration::from_secs(1);
/// However many there are, looks are no closer together.
const PAUSE: Duration = Duration::from_secs(5);
/// A change is told in as many parts as it has rules.
const SKIPPED_MAX: usize = 10_000;
/// Old kinds of rules (`iptables-legacy`) change and nobody is told.
const EACH: Duration = Duration::from_secs(60);

/// Looks whether the rules of containers, and those of the host, are as they are to be, whenever any change, and has
/// them be so. It goes on for as long as it is polled, and does nothing where there are none of the edge.
pub async fn watch(network: Network, host: HostRules) {
    let changes = Changes::of_rules().inspect_err(|error| {
        tracing::warn!(%error, "changes of the kernel's rules are seen a minute late");
    });
    loop {
        match &changes {
            Ok(changes) => drop(timeout(EACH, changes.come()).await),
            Err(_) => sleep(EACH).await,
        }
        sleep(MORE_TO_COME).await;
        if let Ok(changes) = &changes {
            changes.skip();
        }
        let (network, host) = (network.clone(), host.clone());
        let look = move || [("containers", network.mend()), ("the host", host.mend())];
        let looked = tokio::task::spawn_blocking(look).await;
        for (of, mended) in looked.expect("a look at rules does not panic") {
            match mended {
                Ok(true) => tracing::warn!("another program changed the rules of {of}; they are as they were"),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the rules of {of} are not as they are to be"),
            }
        }
        sleep(PAUSE).await;
    }
}

/// What the kernel tells of changes.
struct Changes(AsyncFd<Socket>);

impl Changes {
    fn of_rules() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        socket.add_membership(CHANGES_OF_RULES)?;
        socket.set_non_blocking(true)?;
        // SAFETY: it owns its descriptor, which is the same for as long as it lives.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        Ok(Changes(socket.map_err(io::Error::from)?))
    }

    /// Waits for some.
    async fn come(&self) {
        drop(self.0.readable().await);
    }

    /// Forgets what has come; where there is more, the next wait is short.
    fn skip(&self) {
        for _ in 0..SKIPPED_MAX {
            // Of each the beginning is read, and the kernel drops the rest; that some were lost is an error, and is
            // passed over.
            let read = |socket: &Socket| socket.recv(&mut &mut [0_u8; 1][..], 0);
            match self.0.try_io(Interest::READABLE, read) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
    }
}
