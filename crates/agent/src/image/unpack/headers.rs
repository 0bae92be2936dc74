//! What the headers of an archive say of its entries: those of the entry itself, and those before it that have what
//! does not fit in there (GNU's long names; POSIX.1-2001, "pax Interchange Format").

use std::io::Read;

use tar::EntryType;

use super::Error;

/// Of a header that has what does not fit in an entry's own.
const LONG_BYTES_MAX: u64 = 1 << 20;
/// Extended attributes are named so in an archive.
const ATTRIBUTE: &str = "SCHILY.xattr.";

/// What is to be made.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) kind: EntryType,
    /// What a link leads to.
    pub(super) link: String,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Seconds of Unix time.
    pub(super) modified_s: i64,
    pub(super) attributes: Vec<(String, Vec<u8>)>,
}

/// Headers whose entry has not come yet.
#[derive(Debug, Default)]
pub(super) struct Headers {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    owner: [Option<u32>; 2],
    modified_s: Option<i64>,
    attributes: Vec<(String, Vec<u8>)>,
}

impl Headers {
    /// Reads a header; the entry that it is the last one of.
    pub(super) fn read<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<Option<Entry>, Error> {
        match entry.header().entry_type() {
            EntryType::GNULongName => self.path = Some(ended(long(entry)?)),
            EntryType::GNULongLink => self.link = Some(ended(long(entry)?)),
            EntryType::XHeader => {
                let text = long(entry)?;
                self.extend(&text, entry.header().entry_size()?)?;
            }
            // Of the whole archive: nothing that is needed here.
            EntryType::XGlobalHeader => {}
            _ => return std::mem::take(self).describe(entry.header()).map(Some),
        }
        Ok(None)
    }

    /// `text`: lines of length, name and value; a value may have any bytes.
    fn extend(&mut self, mut text: &[u8], size: u64) -> Result<(), Error> {
        let wrong = || wrong("pax header", &format!("of {size} bytes cannot be read"));
        while !text.is_empty() {
            let length_ends = text.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let length = str::from_utf8(&text[..length_ends]).ok();
            let length: usize = length.and_then(|length| length.parse().ok()).ok_or_else(wrong)?;
            let line = text.get(length_ends + 1..length).ok_or_else(wrong)?;
            let line = line.strip_suffix(b"\n").ok_or_else(wrong)?;
            let name_ends = line.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            let (name, value) = (&line[..name_ends], &line[name_ends + 1..]);
            self.note(str::from_utf8(name).map_err(|_| wrong())?, value)?;
            text = &text[length..];
        }
        Ok(())
    }

    fn note(&mut self, name: &str, value: &[u8]) -> Result<(), Error> {
        let number = || str::from_utf8(value).ok()?.split('.').next()?.parse::<i64>().ok();
        let owner = || number().and_then(|number| u32::try_from(number).ok());
        match name {
            "path" => self.path = Some(value.to_vec()),
            "linkpath" => self.link = Some(value.to_vec()),
            "uid" => self.owner[0] = owner(),
            "gid" => self.owner[1] = owner(),
            "mtime" => self.modified_s = number(),
            "size" => return Err(wrong("pax header", "gives another size; no file of a layer has 8 GiB")),
            name if name.starts_with("GNU.sparse") => return Err(wrong("pax header", "describes a sparse file")),
            name => {
                if let Some(attribute) = name.strip_prefix(ATTRIBUTE) {
                    self.attributes.push((attribute.to_owned(), value.to_vec()));
                }
            }
        }
        Ok(())
    }

    fn describe(self, header: &tar::Header) -> Result<Entry, Error> {
        let path = self.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let path = text(path)?;
        let link = self
            .link
            .or_else(|| header.link_name_bytes().map(|link| link.into_owned()));
        let number = |number: u64| {
            let known = u32::try_from(number).ok().filter(|number| *number != u32::MAX);
            known.ok_or_else(|| wrong(&path, "has an owner that there is none of"))
        };
        let [uid, gid] = self.owner;
        Ok(Entry {
            kind: header.entry_type(),
            link: text(link.unwrap_or_default())?,
            mode: header.mode()? & 0o7777,
            // Some archives say nothing of these.
            uid: uid.map_or_else(|| number(header.uid().unwrap_or_default()), Ok)?,
            gid: gid.map_or_else(|| number(header.gid().unwrap_or_default()), Ok)?,
            modified_s: self
                .modified_s
                .or_else(|| i64::try_from(header.mtime().ok()?).ok())
                .unwrap_or_default(),
            attributes: self.attributes,
            path,
        })
    }
}

fn long<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<Vec<u8>, Error> {
    let size = entry.header().entry_size()?;
    if size > LONG_BYTES_MAX {
        let message = format!("has {size} bytes; one has at most {LONG_BYTES_MAX}");
        return Err(wrong("header", &message));
    }
    let mut text = Vec::new();
    entry.read_to_end(&mut text)?;
    Ok(text)
}

/// Up to the zero that ends it.
fn ended(mut text: Vec<u8>) -> Vec<u8> {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.truncate(end);
    text
}

fn text(bytes: Vec<u8>) -> Result<String, Error> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let path = String::from_utf8_lossy(error.as_bytes()).into_owned();
        wrong(&path, "is no name: not UTF-8")
    })?;
    match text.contains('\0') {
        true => Err(wrong(
            &text.replace('\0', "\\0"),
            "is no name: there is a zero byte in it",
        )),
        false => Ok(text),
    }
}

fn wrong(path: &str, message: &str) -> Error {
    Error::Wrong {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}
