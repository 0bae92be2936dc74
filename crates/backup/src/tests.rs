use super::*;

const PASSPHRASE: &[u8] = b"a long passphrase of tests";

fn sealed(content: &[u8]) -> Vec<u8> {
    let mut sealed = Sealed::begin(Vec::new(), PASSPHRASE).unwrap();
    sealed.write_all(content).unwrap();
    sealed.finish().unwrap()
}

fn opened(sealed: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, Error> {
    let mut plain = Vec::new();
    let read = Opened::begin(sealed, passphrase).and_then(|mut opened| opened.read_to_end(&mut plain));
    read.map(|_| plain).map_err(seal::wrong(Path::new("it")))
}

#[test]
fn what_was_sealed_comes_back_whatever_its_length() {
    for length in [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000] {
        let content: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        assert_eq!(opened(&sealed(&content), PASSPHRASE).unwrap(), content, "{length}");
    }
}

#[test]
fn nothing_comes_back_of_what_was_changed_cut_off_or_put_together() {
    let content = vec![7; 200_000];
    let good = sealed(&content);
    let other = opened(&good, b"another passphrase").unwrap_err();
    assert!(matches!(other, Error::Shut), "{other}");
    let none = opened(b"SELVBAK2 and so on, and so forth, and so on", PASSPHRASE).unwrap_err();
    assert!(matches!(none, Error::NoBackup), "{none}");
    let piece = 65_536 + 16;
    for cut in [39 + piece, 39 + 2 * piece, good.len() - 1] {
        let cut_off = opened(&good[..cut], PASSPHRASE).unwrap_err();
        assert!(matches!(cut_off, Error::Damaged(_)), "{cut_off}");
    }
    for at in [10, 30, 39, 39 + piece, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(opened(&bad, PASSPHRASE).is_err(), "{at}");
    }
    let mut swapped = good.clone();
    let (first, second) = swapped[39..39 + 2 * piece].split_at_mut(piece);
    first.swap_with_slice(second);
    assert!(opened(&swapped, PASSPHRASE).is_err());
    let longer = [&good[..], b"x"].concat();
    assert!(opened(&longer, PASSPHRASE).is_err());
}

#[test]
fn a_directory_comes_back_with_its_databases_and_without_what_is_left_out() {
    let place = tempfile::tempdir().unwrap();
    let (data, file, back) = (
        place.path().join("data"),
        place.path().join("b"),
        place.path().join("back"),
    );
    fs::create_dir_all(data.join("manifests/default")).unwrap();
    fs::create_dir_all(data.join("images")).unwrap();
    fs::create_dir_all(data.join("log-0")).unwrap();
    fs::write(data.join("images/big"), "x").unwrap();
    fs::write(data.join("manifests/default/a.yaml"), "a").unwrap();
    fs::write(data.join("edge.lock"), "1").unwrap();
    fs::write(data.join("log-0/format"), "selvedge log 2\n").unwrap();
    fs::write(data.join("log-0/0000000000000001.log"), vec![1; 10_000]).unwrap();
    fs::write(data.join("log-0/0000000000000002.log"), vec![2; 5_000]).unwrap();
    fs::write(data.join("log-0/spare"), vec![0; 5_000]).unwrap();
    fs::write(data.join("ca.key"), "secret").unwrap();
    fs::set_permissions(data.join("ca.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let database = Connection::open(data.join("registry.db")).unwrap();
    database.pragma_update(None, "journal_mode", "WAL").unwrap();
    database
        .execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (1), (2)")
        .unwrap();
    create(&data, &file, PASSPHRASE, |name| name == "images").unwrap();
    let text = fs::read(&file).unwrap();
    assert!(!text.windows(6).any(|part| part == b"secret"));
    restore(&file, &back, PASSPHRASE).unwrap();
    assert_eq!(
        names_in(&back).unwrap(),
        ["ca.key", "log-0", "manifests", "registry.db"]
    );
    assert_eq!(
        names_in(&back.join("log-0")).unwrap(),
        ["0000000000000001.log", "0000000000000002.log", "format"]
    );
    assert_eq!(
        fs::read(back.join("log-0/0000000000000001.log")).unwrap(),
        vec![1; 10_000]
    );
    assert_eq!(
        fs::metadata(back.join("ca.key")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let restored = Connection::open(back.join("registry.db")).unwrap();
    let sum: i64 = restored
        .query_row("SELECT sum(n) FROM t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sum, 3);
    assert!(matches!(restore(&file, &back, PASSPHRASE), Err(Error::Occupied(_))));
    let weak = create(&data, &file, b"short", |_| false);
    assert!(matches!(weak, Err(Error::Weak)));
    let left: Vec<String> = names_in(place.path()).unwrap();
    assert_eq!(left, ["b", "back", "data"]);
}
