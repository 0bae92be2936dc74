//! As whom an image runs: its `USER` by the names that it has in its own `/etc/passwd` and `/etc/group`.

use std::io::{self, Read};
use std::path::Path;

use super::unpack::place::Place;

/// Of each of the two files.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// As whom a container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    /// User.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
    /// Other groups that the user is in.
    pub(crate) others: Vec<u32>,
}

/// Of `USER`, `USER:GROUP` or nothing, by the files below `root`.
///
/// # Errors
/// There is no such user or group, in words.
pub(crate) fn of(root: &Path, user: &str) -> Result<Ids, String> {
    let files = Files::read(root).map_err(|error| format!("/etc/passwd of the image: {error}"))?;
    let (user, group) = match user.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (user, None),
    };
    let user = if user.is_empty() { "0" } else { user };
    let known = files.user(user);
    let uid = known.map(|(_, uid, _)| uid).or_else(|| user.parse().ok());
    let uid = uid.ok_or_else(|| format!("the image is run by {user:?}, whom its /etc/passwd does not have"))?;
    let gid = match group {
        Some(group) => {
            let gid = files.group(group).or_else(|| group.parse().ok());
            gid.ok_or_else(|| format!("the image is run in the group {group:?}, which its /etc/group does not have"))?
        }
        None => known.map_or(0, |(_, _, gid)| gid),
    };
    let others = match (group, known) {
        (None, Some((name, ..))) => files.groups_of(name).filter(|other| *other != gid).collect(),
        _ => Vec::new(),
    };
    Ok(Ids { uid, gid, others })
}

struct Files {
    passwd: String,
    group: String,
}

impl Files {
    fn read(root: &Path) -> io::Result<Files> {
        let place = Place::open(root)?;
        let read = |path| match place.file(path) {
            Ok(file) => {
                let mut text = Vec::new();
                file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error),
        };
        Ok(Files {
            passwd: read("etc/passwd")?,
            group: read("etc/group")?,
        })
    }

    /// Name, number and group of a user, by name or number (`passwd(5)`).
    fn user(&self, user: &str) -> Option<(&str, u32, u32)> {
        self.passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            let is_it = name == user || uid == user;
            is_it.then(|| Some((name, uid.parse().ok()?, gid.parse().ok()?)))?
        })
    }

    /// By its name (`group(5)`).
    fn group(&self, group: &str) -> Option<u32> {
        self.groups().find_map(|(name, gid, _)| (name == group).then_some(gid))
    }

    fn groups_of<'a>(&'a self, user: &'a str) -> impl Iterator<Item = u32> + 'a {
        let is_in =
            move |(_, gid, members): (&str, u32, &str)| members.split(',').any(|member| member == user).then_some(gid);
        self.groups().filter_map(is_in)
    }

    fn groups(&self) -> impl Iterator<Item = (&str, u32, &str)> {
        self.group.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?);
            Some((name, gid.parse().ok()?, fields.next().unwrap_or_default()))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(user: &str, expected: Result<(u32, u32, &[u32]), &str>) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        let passwd = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34::/:/bin/false\nbroken\nodd:x:many:1::\n";
        fs::write(root.path().join("etc/passwd"), passwd).unwrap();
        fs::write(
            root.path().join("etc/group"),
            "root:x:0:\nlogs:x:4:web,other\nweb:x:34:web\ntape:x:26:web\n",
        )
        .unwrap();
        let expected = expected.map(|(uid, gid, others)| Ids {
            uid,
            gid,
            others: others.to_vec(),
        });
        let found = of(root.path(), user);
        match (&found, &expected) {
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{user}: {found}"),
            _ => assert_eq!(found, expected.map_err(str::to_owned), "{user}"),
        }
    }

    #[test]
    fn a_user_is_known_by_its_name_or_number_with_its_groups() {
        check("", Ok((0, 0, &[])));
        check("web", Ok((33, 34, &[4, 26])));
        check("33", Ok((33, 34, &[4, 26])));
        check("web:logs", Ok((33, 4, &[])));
        check("33:7", Ok((33, 7, &[])));
        check("65534", Ok((65_534, 0, &[])));
        check("65534:65534", Ok((65_534, 65_534, &[])));
        check("nobody", Err("\"nobody\""));
        check("odd", Err("\"odd\""));
        check("web:nothing", Err("\"nothing\""));
    }

    #[test]
    fn an_image_without_users_has_numbers_alone() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(of(root.path(), "7").unwrap().uid, 7);
        assert!(of(root.path(), "web").is_err());
    }
}
