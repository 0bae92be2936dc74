//! Segment files from a short form, in which checksums need not be guessed. A piece is a letter and what it needs:
//!
//! | letter | then | what it adds |
//! | --- | --- | --- |
//! | `S` | number (1 byte), base and end of the segment before (8 each) | a new file with its header |
//! | `R` | kind and flags (1), length of the meta and the body (2, 4), bytes (2 for their number) | a record |
//! | `F` | end of the records (8), live bytes (8), bytes of the index (2 for their number) | index and footer |
//! | `X` | bytes (2 for their number) | these bytes |
//! | `Z` | a number (2) | so many zeros |
//! | `C` | a place and a byte (2, 1) | another byte at that place of the file |
//!
//! The numbers are little-endian.

const RECORDS_AT: usize = 4096;
const HEADER_COPY_AT: usize = 2048;
const NONCE: u64 = 7;
/// Files of more bytes are not made.
const FILE_BYTES_MAX: usize = 256 << 10;

/// Numbers of segments, and their files.
pub fn decode(input: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut input = Input { rest: input };
    let mut files = Files::default();
    while files.add_piece(&mut input).is_some() {}
    files
        .files
        .into_iter()
        .map(|file| (file.number, file.content))
        .collect()
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        let taken = self.take(bytes)?;
        Some(
            taken
                .iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        )
    }

    /// As many bytes as are said, or all that are left.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let said = self.number(2)? as usize;
        self.take(said.min(self.rest.len()))
    }
}

#[derive(Default)]
struct Files {
    files: Vec<File>,
}

struct File {
    number: u64,
    base: u64,
    content: Vec<u8>,
}

impl Files {
    /// `None` at the end of the input.
    fn add_piece(&mut self, input: &mut Input<'_>) -> Option<()> {
        match (input.number(1)? as u8, self.files.last_mut()) {
            (b'S', _) => {
                let (number, base, previous_end) = (input.number(1)?, input.number(8)?, input.number(8)?);
                // Some far away from the others.
                let number = if number < 0xF0 {
                    number
                } else {
                    u64::MAX - (0xFF - number)
                };
                self.files.push(File::new(number, base, previous_end));
            }
            (piece, Some(file)) if file.content.len() < FILE_BYTES_MAX => file.add(piece, input)?,
            _ => {}
        }
        Some(())
    }
}

impl File {
    fn new(number: u64, base: u64, previous_end: u64) -> File {
        let mut header = b"SELVLOG1".to_vec();
        for field in [NONCE, number, base, previous_end] {
            header.extend(field.to_le_bytes());
        }
        header.extend(crc32c::crc32c(&header).to_le_bytes());
        let mut content = vec![0; RECORDS_AT];
        content[..header.len()].copy_from_slice(&header);
        content[HEADER_COPY_AT..][..header.len()].copy_from_slice(&header);
        File { number, base, content }
    }

    fn add(&mut self, piece: u8, input: &mut Input<'_>) -> Option<()> {
        match piece {
            b'R' => self.add_record(input)?,
            b'F' => self.add_index(input)?,
            b'X' => self.content.extend_from_slice(input.bytes()?),
            b'Z' => self.content.resize(self.content.len() + input.number(2)? as usize, 0),
            b'C' => {
                let (place, byte) = (input.number(2)? as usize, input.number(1)? as u8);
                if let Some(found) = self.content.get_mut(place) {
                    *found = byte;
                }
            }
            _ => {}
        }
        Some(())
    }

    fn add_record(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (kind, meta_len, body_len) = (input.number(1)? as u8, input.number(2)? as u16, input.number(4)? as u32);
        let bytes = input.bytes()?;
        let offset = self.offset();
        let (meta, body) = bytes.split_at(bytes.len().min(usize::from(meta_len)));
        let mut summed = sum(offset, body).to_le_bytes().to_vec();
        summed.extend(body_len.to_le_bytes());
        summed.extend([kind, meta_len.to_le_bytes()[0], meta_len.to_le_bytes()[1], 0]);
        summed.extend_from_slice(meta);
        self.content.extend(sum(offset, &summed).to_le_bytes());
        self.content.extend_from_slice(&summed);
        self.content.extend_from_slice(body);
        self.content.resize(self.content.len().next_multiple_of(8), 0);
        Some(())
    }

    fn add_index(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (end, live_bytes, entries) = (input.number(8)?, input.number(8)?, input.bytes()?);
        let index_at = self.content.len() as u64;
        let mut footer = b"SELVIDX2".to_vec();
        for field in [index_at, entries.len() as u64, end, live_bytes, 0] {
            footer.extend(field.to_le_bytes());
        }
        footer.extend(crc32c::crc32c(entries).to_le_bytes());
        footer.extend(sum(index_at, &footer).to_le_bytes());
        self.content.extend_from_slice(entries);
        self.content.extend(footer);
        Some(())
    }

    /// Where in the log the next record stands.
    fn offset(&self) -> u64 {
        (self.content.len() as u64)
            .wrapping_sub(RECORDS_AT as u64)
            .wrapping_add(self.base)
    }
}

/// A checksum of what belongs at `offset`.
fn sum(offset: u64, bytes: &[u8]) -> u32 {
    let seed = crc32c::crc32c(&NONCE.to_le_bytes());
    crc32c::crc32c_append(seed ^ (offset / 8) as u32, bytes)
}
