use std::io::{Read, Write};

use super::*;

const GOOD: &str = "a long passphrase of tests";

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.into()).unwrap()
}

fn sealed(content: &[u8]) -> Vec<u8> {
    let mut sealed = Sealed::begin(Vec::new(), &passphrase(GOOD)).unwrap();
    sealed.write_all(content).unwrap();
    sealed.finish().unwrap()
}

fn opened(sealed: &[u8], by: &str) -> Result<Vec<u8>, Broken> {
    let mut plain = Vec::new();
    let read = Opened::begin(sealed, &passphrase(by)).and_then(|mut opened| opened.read_to_end(&mut plain));
    read.map(|_| plain).map_err(|error| Broken::within(&error).unwrap())
}

#[test]
fn what_was_sealed_comes_back_whatever_its_length() {
    for length in [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000] {
        let content: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        assert_eq!(opened(&sealed(&content), GOOD).unwrap(), content, "{length}");
    }
}

#[test]
fn nothing_comes_back_of_what_was_changed_cut_off_or_put_together() {
    let content = vec![7; 200_000];
    let good = sealed(&content);
    let other = opened(&good, "another passphrase").unwrap_err();
    assert!(matches!(other, Broken::Shut), "{other}");
    let none = opened(b"SELVBAK2 and so on, and so forth, and so on", GOOD).unwrap_err();
    assert!(matches!(none, Broken::NotSealed), "{none}");
    let piece = 65_536 + 16;
    for cut in [39 + piece, 39 + 2 * piece, good.len() - 1] {
        let cut_off = opened(&good[..cut], GOOD).unwrap_err();
        assert!(matches!(cut_off, Broken::Damaged(_)), "{cut_off}");
    }
    for at in [10, 30, 39, 39 + piece, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(opened(&bad, GOOD).is_err(), "{at}");
    }
    let mut swapped = good.clone();
    let (first, second) = swapped[39..39 + 2 * piece].split_at_mut(piece);
    first.swap_with_slice(second);
    assert!(opened(&swapped, GOOD).is_err());
    let longer = [&good[..], b"x"].concat();
    assert!(opened(&longer, GOOD).is_err());
}

#[test]
fn what_would_take_a_machines_memory_or_day_is_not_opened() {
    let good = sealed(b"x");
    for (at, cost) in [(24, (64_u32 << 10) + 1), (28, 4)] {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&cost.to_be_bytes());
        assert_eq!(opened(&bad, GOOD), Err(Broken::NotSealed), "{at}");
    }
}

#[test]
fn a_passphrase_is_shown_to_nobody_and_not_too_short() {
    assert_eq!(format!("{:?}", passphrase(GOOD)), "Passphrase(redacted)");
    assert!(matches!(
        Passphrase::new(b"11 bytes in".to_vec()),
        Err(PassphraseError::Weak)
    ));
    assert!(matches!(Passphrase::new(vec![7; 70_000]), Err(PassphraseError::Long)));
}
