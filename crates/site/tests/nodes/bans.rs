//! A node that is banned is let in by nobody who has heard of it.

use std::time::Duration;

use identity::{Bans, NodeKeys};
use site::Known;
use tokio::time::timeout;

use crate::founder::{Founder, Node, PATIENCE, name, now_unix_s, start, start_with};

impl Node {
    async fn has_heard_of(&self, bans: &Bans) {
        let mut known = self.site.bans();
        let heard = timeout(PATIENCE, known.wait_for(|known| **known == *bans)).await;
        assert!(heard.is_ok(), "{:?}", self.site.bans().borrow());
    }

    async fn knows_nothing_of(&self, node: &str) {
        let is_unknown = |known: &[Known]| known.iter().all(|known| known.node != node);
        self.knows("rid of it", is_unknown).await;
    }
}

#[tokio::test]
async fn a_ban_ends_what_is_connected_everywhere_and_holds_after_a_restart_without_the_authority() {
    let founder = Founder::new();
    let one = start(founder.keys("hall-1"), &[]).await;
    let two = start(founder.joined("hall-2"), &[one.address]).await;
    let membership = founder.membership("hall-3");
    let keys = || NodeKeys::of_member(&membership).unwrap();
    let three = start(keys(), &[one.address, two.address]).await;
    one.is_connected_with(&["hall-2", "hall-3"]).await;
    two.is_connected_with(&["hall-1", "hall-3"]).await;
    let mut request = three.site.open("hall-2").await.unwrap();
    let bans = founder.identity.ban(&Bans::default(), &name("hall-3"), now_unix_s());
    let bans = bans.unwrap();
    one.site.ban(bans.clone()).await;
    for node in [&one, &two] {
        node.has_heard_of(&bans).await;
        node.knows_nothing_of("hall-3").await;
    }
    let read = tokio::io::AsyncReadExt::read_u8(&mut request);
    assert!(timeout(PATIENCE, read).await.unwrap().is_err());
    // All are started anew, the authority not.
    drop((one, two, three));
    let two = start_with(founder.joined("hall-2"), &[], |options| options.bans = bans.clone()).await;
    let address = two.address;
    let three = start(keys(), &[address]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(three.site.known().borrow().is_empty() && two.site.known().borrow().is_empty());
    // What it had is as little good as before; what it gets by another invitation is good.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let again = start(founder.joined("hall-3"), &[address]).await;
    again.is_connected_with(&["hall-2"]).await;
    two.knows("let in again", |known| {
        known.iter().any(|known| known.node == "hall-3" && known.is_connected)
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_banned_is_refused_whoever_dials() {
    let founder = Founder::new();
    let (two, three) = (founder.joined("hall-2"), founder.joined("hall-3"));
    let bans = founder.identity.ban(&Bans::default(), &name("hall-3"), now_unix_s());
    let three = start(three, &[]).await;
    let two = start_with(two, &[three.address], |options| options.bans = bans.unwrap()).await;
    let dialling = start_with(founder.keys("hall-1"), &[two.address, three.address], |_| {}).await;
    dialling.is_connected_with(&["hall-2"]).await;
    two.is_connected_with(&["hall-1"]).await;
    dialling.knows_nothing_of("hall-3").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(two.site.open("hall-3").await.is_err());
    assert!(three.site.open("hall-2").await.is_err());
}

#[tokio::test]
async fn bans_of_another_authority_change_nothing() {
    let (founder, other) = (Founder::new(), Founder::new());
    let one = start(founder.keys("hall-1"), &[]).await;
    let two = start(founder.joined("hall-2"), &[one.address]).await;
    other.joined("hall-1");
    let forged = other.identity.ban(&Bans::default(), &name("hall-1"), now_unix_s());
    one.is_connected_with(&["hall-2"]).await;
    two.is_connected_with(&["hall-1"]).await;
    two.site.ban(forged.unwrap()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(**two.site.bans().borrow(), Bans::default());
    assert_eq!(**one.site.bans().borrow(), Bans::default());
    one.is_connected_with(&["hall-2"]).await;
}
