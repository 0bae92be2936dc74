use super::*;

fn passphrase() -> Passphrase {
    Passphrase::new(b"a long passphrase of tests".to_vec()).unwrap()
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
    create(&data, &file, &passphrase(), |name| name == "images").unwrap();
    let text = fs::read(&file).unwrap();
    assert!(!text.windows(6).any(|part| part == b"secret"));
    restore(&file, &back, &passphrase()).unwrap();
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
    assert!(matches!(restore(&file, &back, &passphrase()), Err(Error::Occupied(_))));
    let left: Vec<String> = names_in(place.path()).unwrap();
    assert_eq!(left, ["b", "back", "data"]);
}
