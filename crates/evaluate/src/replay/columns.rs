//! Which column holds what.

use csv::StringRecord;

use super::timestamp;

/// Names of a column of times, in lower case.
const TIME_NAMES: [&str; 6] = ["timestamp", "datetime", "date_time", "date", "time", "ts"];
/// Name of a first column that the header leaves out: a row number.
const ROW_NUMBER: &str = "row";

/// Names of the fields of a row.
pub(super) struct Columns {
    names: Vec<String>,
    /// Which of them is the time.
    pub(super) time: usize,
}

impl Columns {
    /// From the header and the first row. Where rows have one field more than the header has names, the first of them
    /// is a row number that the header does not name, as R's `write.csv` does it.
    pub(super) fn new(header: &StringRecord, first: &StringRecord) -> Result<Columns, String> {
        let mut names: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
        if first.len() == names.len() + 1 {
            names.insert(0, ROW_NUMBER.to_owned());
        }
        let time = time_column(&names, first).ok_or_else(|| {
            format!(
                "no column of times among {}: name one `timestamp`, with values such as 2015-02-02 14:19:00",
                names.join(", ")
            )
        })?;
        Ok(Columns { names, time })
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Names and fields of a row but its time, the empty ones left out.
    pub(super) fn members<'a>(&'a self, row: &'a StringRecord) -> impl Iterator<Item = (&'a str, &'a str)> {
        let named = self
            .names
            .iter()
            .map(String::as_str)
            .zip(row.iter().map(str::trim))
            .enumerate();
        named
            .filter(|(place, (_, field))| *place != self.time && !field.is_empty())
            .map(|(_, member)| member)
    }
}

/// A column that is named so, else the first whose value reads as a time.
fn time_column(names: &[String], first: &StringRecord) -> Option<usize> {
    let named = |name: &String| TIME_NAMES.contains(&name.to_lowercase().as_str());
    names
        .iter()
        .position(named)
        .or_else(|| first.iter().position(|field| timestamp::parse(field).is_some()))
}
