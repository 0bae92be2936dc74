//! The end of a log that is kept in files: the newest has the log's own name, older ones `.1`, `.2`, ….

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// However many lines are asked for, no more bytes are given.
const BYTES_MAX: usize = 4 << 20;

/// The last whole lines, oldest first. Files may be rotated meanwhile.
pub(crate) fn read(log: &Path, lines: usize) -> io::Result<Vec<u8>> {
    let (mut parts, mut seen) = (Vec::new(), Vec::new());
    let (mut lines, mut room) = (lines, BYTES_MAX);
    for age in 0.. {
        let path = match age {
            0 => log.to_owned(),
            age => log.with_extension(age.to_string()),
        };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            // One that has not begun, or is being rotated: an older one may be there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && age == 0 => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        let inode = file.metadata()?.ino();
        if seen.contains(&inode) {
            continue;
        }
        seen.push(inode);
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // A line that is being written.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.truncate(whole);
        let last = last_lines(&text, lines, room);
        lines -= last.split_inclusive(|byte| *byte == b'\n').count();
        room -= last.len();
        let is_enough = last.len() < text.len();
        parts.push(last.to_vec());
        if is_enough || lines == 0 {
            break;
        }
    }
    parts.reverse();
    Ok(parts.concat())
}

/// As many lines as fit.
pub(crate) fn last_lines(text: &[u8], lines: usize, room: usize) -> &[u8] {
    let mut from = text.len();
    for line in text.split_inclusive(|byte| *byte == b'\n').rev().take(lines) {
        if text.len() - from + line.len() > room {
            break;
        }
        from -= line.len();
    }
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_of_all_files_and_none_that_is_not_whole() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let check = |lines: usize, expected: &str| {
            assert_eq!(
                String::from_utf8(read(&log, lines).unwrap()).unwrap(),
                expected,
                "{lines}"
            );
        };
        check(9, "");
        std::fs::write(place.path().join("log.2"), "a\nb\n").unwrap();
        std::fs::write(place.path().join("log.1"), "c\nd\n").unwrap();
        check(3, "b\nc\nd\n");
        std::fs::write(&log, "e\nf").unwrap();
        check(0, "");
        check(1, "e\n");
        check(2, "d\ne\n");
        check(4, "b\nc\nd\ne\n");
        check(9, "a\nb\nc\nd\ne\n");
    }

    #[test]
    fn no_more_bytes_are_given_than_may_be() {
        assert_eq!(last_lines(b"aa\nbb\ncc\n", 9, 7), b"bb\ncc\n");
        assert_eq!(last_lines(b"aa\n", 9, 2), b"");
    }
}
