//! Bonnie++: a file in blocks, written, written over and read, then places in it at random.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian has it, which is in no user's path.
const USUAL: &str = "/usr/sbin/bonnie++";
/// Columns of its CSV (1.98): blocks written, rewritten and read in KiB a second, then places a second.
const COLUMNS: [usize; 4] = [11, 13, 17, 19];
const KIB: f64 = 1024.0;

/// One run in a directory: bytes a second written, rewritten and read, and places a second; none of what was over before
/// it could be timed.
///
/// # Errors
/// It fails, with what it said; or says something else than it should.
pub(super) fn turn(directory: &Path, file_mib: u32) -> Result<[Option<f64>; 4], String> {
    let size = file_mib.to_string();
    // It asks for a file of twice the memory, which is not the machine's but the board's.
    let memory = (file_mib / 2).to_string();
    let directory = directory.display().to_string();
    let words = [
        "-d", &directory, "-s", &size, "-r", &memory, "-n", "0", "-f", "-u", "root", "-q",
    ];
    let output = Command::new(program())
        .args(words)
        .output()
        .map_err(|error| format!("bonnie++: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("bonnie++ ({}): {}", output.status, why.trim()));
    }
    parse(&said).ok_or_else(|| format!("bonnie++ said: {}", said.trim()))
}

fn program() -> PathBuf {
    PathBuf::from(USUAL)
}

fn parse(said: &str) -> Option<[Option<f64>; 4]> {
    let line = said.lines().find(|line| line.starts_with("1.9"))?;
    let columns: Vec<&str> = line.split(',').collect();
    let mut found = [None; 4];
    for (place, column) in COLUMNS.into_iter().enumerate() {
        let text = columns.get(column)?;
        // What took less than half a second is `+++++`.
        if !text.starts_with('+') {
            let unit = if place == 3 { 1.0 } else { KIB };
            found[place] = Some(text.parse::<f64>().ok()? * unit);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_by_its_columns_and_what_was_too_short_is_no_figure() {
        let said = "1.98,2.00a,vm,1,1795946170,128M,,8192,5,,,234108,64,+++++,+++,,,1000,9,512.5,+++,,,,,,,,,,,,,,,,,,,8075us,195us\n";
        let found = parse(said).unwrap();
        assert_eq!(found, [Some(234_108.0 * 1024.0), None, Some(1_024_000.0), Some(512.5)]);
        assert_eq!(parse("Writing intelligently...done"), None);
    }
}
