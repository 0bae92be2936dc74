//! A log that is being written, as a power cut would leave it. Its segments are files by their numbers, and removed in
//! their order; records are written to the last ones alone, at their end. Once one is full, an index is written behind
//! its records, and the zeros behind that are cut off: one that is cut off while it is copied is taken with its zeros.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{Error, at, names_in, present};

/// Says which version wrote it.
pub(crate) const FORMAT: &str = "format";
const SEGMENT: &str = ".log";
/// Of a log, by its format file.
const LOG: &str = "selvedge log ";
/// Segments that are removed while they are opened are looked for anew so often.
const TRIES: usize = 100;
/// Segments that may be written to: the newest, and one that is being finished.
const GROWING: usize = 2;
const PAGE_BYTES: u64 = 4_096;

/// A segment of the log.
pub(crate) struct Segment {
    pub(crate) name: String,
    file: File,
    /// Of the file, as it was opened.
    pub(crate) bytes: u64,
}

impl Segment {
    /// Its bytes, no more and no less.
    pub(crate) fn read(&self) -> impl Read {
        (&self.file).chain(io::repeat(0)).take(self.bytes)
    }
}

pub(crate) fn is_one(directory: &Path) -> bool {
    fs::read_to_string(directory.join(FORMAT)).is_ok_and(|text| text.starts_with(LOG))
}

/// Its segments; those that grow are copied into `work` first.
pub(crate) fn copied(directory: &Path, work: &Path) -> Result<Vec<Segment>, Error> {
    let mut segments = opened(directory)?;
    let first = segments.len().saturating_sub(GROWING);
    // The newest last: nothing of a later one is there without all that came before it.
    for segment in segments[first..].iter_mut().rev() {
        let path = work.join(&segment.name);
        segment.file = backwards(segment, &path).map_err(at(&path))?;
        // Open it stays.
        fs::remove_file(&path).map_err(at(&path))?;
    }
    Ok(segments)
}

/// All segments that one moment had.
fn opened(directory: &Path) -> Result<Vec<Segment>, Error> {
    let mut names = segments_in(directory)?;
    for _ in 0..TRIES {
        let mut segments = Vec::new();
        for name in &names {
            let path: PathBuf = directory.join(name);
            if let Some(file) = present(File::open(&path)).map_err(at(&path))? {
                segments.push(Segment {
                    name: name.clone(),
                    bytes: file.metadata().map_err(at(&path))?.len(),
                    file,
                });
            }
        }
        let now = segments_in(directory)?;
        if now == names && segments.len() == names.len() {
            return Ok(segments);
        }
        names = now;
    }
    let message = "its files change faster than they can be opened; try again";
    Err(at(directory)(io::Error::other(message)))
}

fn segments_in(directory: &Path) -> Result<Vec<String>, Error> {
    let mut names = names_in(directory)?;
    names.retain(|name| name.ends_with(SEGMENT));
    Ok(names)
}

/// From its end to its beginning, page by page: what is written at its end meanwhile is either there with all before
/// it, or not at all.
fn backwards(segment: &Segment, to: &Path) -> io::Result<File> {
    let mut copy = File::options().read(true).write(true).create_new(true).open(to)?;
    copy.set_len(segment.bytes)?;
    let (mut from, mut page) = (&segment.file, Vec::new());
    for number in (0..segment.bytes.div_ceil(PAGE_BYTES)).rev() {
        let offset = number * PAGE_BYTES;
        from.seek(SeekFrom::Start(offset))?;
        page.clear();
        from.take(PAGE_BYTES.min(segment.bytes - offset))
            .read_to_end(&mut page)?;
        if page.iter().any(|byte| *byte != 0) {
            copy.write_all_at(&page, offset)?;
        }
    }
    copy.rewind()?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_are_cut_off_behind_their_index_while_they_are_copied_have_zeros_there() {
        let place = tempfile::tempdir().unwrap();
        let (path, copy) = (place.path().join("segment"), place.path().join("copy"));
        fs::write(&path, vec![1; 5_000]).unwrap();
        let segment = Segment {
            name: String::new(),
            file: File::open(&path).unwrap(),
            bytes: 3 * PAGE_BYTES + 7,
        };
        let mut was_opened = vec![1; 5_000];
        was_opened.resize(segment.bytes as usize, 0);
        let mut read = Vec::new();
        segment.read().read_to_end(&mut read).unwrap();
        assert_eq!(read, was_opened);
        let mut copied = Vec::new();
        backwards(&segment, &copy).unwrap().read_to_end(&mut copied).unwrap();
        assert_eq!(copied, was_opened);
    }
}
