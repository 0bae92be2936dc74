//! A log that is being written, as a power cut would leave it. Its segments are files by their numbers, never written again
//! once they are full, and removed in their order; only the last ones change, and those grow at their end.

use std::fs::{self, File};
use std::io::{self, Seek};
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
    pub(crate) file: File,
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
        segment.file = backwards(&segment.file, &path).map_err(at(&path))?;
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

/// From its end to its beginning, page by page: what is written at its end meanwhile is either there with all before it, or
/// not at all.
fn backwards(from: &File, to: &Path) -> io::Result<File> {
    let bytes = from.metadata()?.len();
    let mut copy = File::options().read(true).write(true).create_new(true).open(to)?;
    copy.set_len(bytes)?;
    let mut page = [0; PAGE_BYTES as usize];
    for number in (0..bytes.div_ceil(PAGE_BYTES)).rev() {
        let offset = number * PAGE_BYTES;
        let length = PAGE_BYTES.min(bytes - offset) as usize;
        from.read_exact_at(&mut page[..length], offset)?;
        if page[..length].iter().any(|byte| *byte != 0) {
            copy.write_all_at(&page[..length], offset)?;
        }
    }
    copy.rewind()?;
    Ok(copy)
}
