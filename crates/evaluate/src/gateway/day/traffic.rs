//! When the applications of a day are asked: by the readings of an office, or by a profile of its hours.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::Value;
use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime};

use crate::gateway::options::DAY_S;
use crate::gateway::record::DayTraffic;
use crate::replay::{self, Pace};

const HOURS: usize = 24;
/// So far temperature has to go before it is stored again.
const TEMPERATURE_STEP: f64 = 0.1;
/// So far CO2 has to go before the air is asked about again.
const CO2_STEP_PPM: f64 = 25.0;
/// Binary fractions of values that differ by a whole step.
const SLACK: f64 = 1e-6;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Application {
    /// A web page that is open while somebody is there, and is loaded again each minute.
    Dashboard,
    /// An API that is told of the air where CO2 has changed.
    Air,
    /// A database that stores the temperature where it has changed.
    Database,
    /// Switched where somebody comes or the last one goes.
    Lights,
}

impl Application {
    /// All of them.
    pub(in crate::gateway) const ALL: [Application; 4] = [
        Application::Dashboard,
        Application::Air,
        Application::Database,
        Application::Lights,
    ];

    pub(in crate::gateway) fn name(self) -> &'static str {
        match self {
            Application::Dashboard => "dashboard",
            Application::Air => "air",
            Application::Database => "database",
            Application::Lights => "lights",
        }
    }

    /// Requests an hour where there are no readings.
    fn profile(self) -> [u32; HOURS] {
        match self {
            Application::Dashboard => [
                0, 0, 0, 0, 0, 0, 0, 20, 60, 60, 60, 60, 45, 15, 60, 60, 60, 60, 10, 0, 0, 0, 0, 0,
            ],
            Application::Air => [1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 6, 6, 6, 4, 6, 6, 6, 6, 4, 2, 1, 1, 1, 1],
            Application::Database => [2, 2, 2, 2, 2, 4, 6, 8, 8, 6, 6, 6, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 2],
            Application::Lights => [0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 1, 1, 4, 4, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0],
        }
    }
}

/// One request of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Request {
    /// Since midnight.
    pub(in crate::gateway) at: Duration,
    pub(in crate::gateway) of: Application,
}

/// The requests of a day in the order of time, and where they come from.
pub(in crate::gateway) struct Traffic {
    pub(in crate::gateway) requests: Vec<Request>,
    pub(in crate::gateway) about: DayTraffic,
}

impl Traffic {
    /// Of the first whole day of a file of readings; without one, of the profile.
    ///
    /// # Errors
    /// The file cannot be read, lacks a column, or has no whole day; with what would be right.
    pub(in crate::gateway) fn of(file: Option<&Path>) -> Result<Traffic, String> {
        let Some(file) = file else {
            return Ok(Traffic::of_profile());
        };
        let pace = Pace { devices: 1, speed: 1.0 };
        let trace = replay::read(file, pace).map_err(|error| error.to_string())?.trace;
        let named = |reason: String| format!("{}: {reason}", file.display());
        let readings = trace.readings.iter().map(|reading| OfOffice::parse(&reading.json));
        let readings: Vec<OfOffice> = readings.collect::<Result<_, _>>().map_err(named)?;
        let date = first_whole_day(&readings).ok_or_else(|| {
            named("no day has readings in each of its 24 hours, as a day that is replayed takes them".to_owned())
        })?;
        let of_day: Vec<OfOffice> = readings.into_iter().filter(|reading| reading.date == date).collect();
        Ok(Traffic::new(
            requests(&of_day),
            trace.source,
            trace.sha256,
            Some(date.to_string()),
        ))
    }

    fn of_profile() -> Traffic {
        let mut requests: Vec<Request> = Application::ALL.into_iter().flat_map(evenly).collect();
        requests.sort_by_key(|request| request.at);
        let lines = requests.iter().fold(String::new(), |mut lines, request| {
            let _ = writeln!(lines, "{} {}", request.at.as_millis(), request.of.name());
            lines
        });
        let hash = digest(&SHA256, lines.as_bytes());
        let sha256 = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Traffic::new(
            requests,
            "a built-in profile of an office's hours".to_owned(),
            sha256,
            None,
        )
    }

    fn new(requests: Vec<Request>, source: String, sha256: String, date: Option<String>) -> Traffic {
        let count = |of| requests.iter().filter(|request| request.of == of).count() as u32;
        let about = DayTraffic {
            source,
            sha256,
            date,
            requests: Application::ALL.map(|of| (of.name().to_owned(), count(of))).to_vec(),
        };
        Traffic { requests, about }
    }
}

/// How much is asked in each of so many equal parts of the day that the file has, or of the built-in one: 1 on average.
///
/// # Errors
/// As those of [`Traffic::of`].
pub(crate) fn day_by_steps(file: Option<&Path>, steps: usize) -> Result<(Vec<f64>, DayTraffic), String> {
    let Traffic { requests, about } = Traffic::of(file)?;
    let each = steps as f64 / requests.len().max(1) as f64;
    let mut by_steps = vec![0.0; steps];
    for request in requests {
        let place = request.at.as_secs() as usize * steps / DAY_S as usize;
        by_steps[place.min(steps - 1)] += each;
    }
    Ok((by_steps, about))
}

/// An application's requests by its profile: those of an hour evenly spread over it.
fn evenly(of: Application) -> impl Iterator<Item = Request> {
    let hour = Duration::from_secs(u64::from(DAY_S) / HOURS as u64);
    of.profile().into_iter().zip(0..).flat_map(move |(count, number)| {
        (0..count).map(move |place| Request {
            at: hour * number + hour * (2 * place + 1) / (2 * count),
            of,
        })
    })
}

/// What a reading says.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OfOffice {
    date: Date,
    at: Duration,
    temperature: f64,
    co2_ppm: f64,
    is_occupied: bool,
}

impl OfOffice {
    fn parse(json: &str) -> Result<OfOffice, String> {
        let object: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let time = object["ts"].as_str().unwrap_or_default();
        let instant = OffsetDateTime::parse(time, &Rfc3339).map_err(|error| format!("`{time}` is no time: {error}"))?;
        let number = |column: &str| {
            object[column].as_f64().ok_or_else(|| {
                format!("the reading of {time} has no number `{column}`: a day takes Temperature, CO2 and Occupancy")
            })
        };
        Ok(OfOffice {
            date: instant.date(),
            at: Duration::from_secs(
                instant
                    .time()
                    .duration_since(time::Time::MIDNIGHT)
                    .whole_seconds()
                    .unsigned_abs(),
            ),
            temperature: number("Temperature")?,
            co2_ppm: number("CO2")?,
            is_occupied: number("Occupancy")? > 0.0,
        })
    }

    fn hour(&self) -> usize {
        self.at.as_secs() as usize * HOURS / DAY_S as usize
    }
}

/// The first with a reading in each of its hours.
fn first_whole_day(readings: &[OfOffice]) -> Option<Date> {
    let days = readings.chunk_by(|one, next| one.date == next.date);
    let mut whole = days.filter(|day| (0..HOURS).all(|hour| day.iter().any(|reading| reading.hour() == hour)));
    Some(whole.next()?.first()?.date)
}

/// What the readings of a day have asked, in the order of time.
fn requests(day: &[OfOffice]) -> Vec<Request> {
    let (mut stored, mut told, mut was_occupied) = (None, None, false);
    let mut requests = Vec::new();
    for reading in day {
        let asked = [
            (Application::Dashboard, reading.is_occupied),
            (Application::Air, has_gone(&mut told, reading.co2_ppm, CO2_STEP_PPM)),
            (
                Application::Database,
                has_gone(&mut stored, reading.temperature, TEMPERATURE_STEP),
            ),
            (
                Application::Lights,
                std::mem::replace(&mut was_occupied, reading.is_occupied) != reading.is_occupied,
            ),
        ];
        let asked = asked.into_iter().filter(|(_, is_asked)| *is_asked);
        requests.extend(asked.map(|(of, _)| Request { at: reading.at, of }));
    }
    requests
}

/// Whether `value` is a whole step away from the last that was sent, and then is the last itself (send on delta).
fn has_gone(last: &mut Option<f64>, value: f64, step: f64) -> bool {
    let has_gone = last.is_none_or(|last| (value - last).abs() >= step - SLACK);
    if has_gone {
        *last = Some(value);
    }
    has_gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_by_steps_has_all_its_requests_and_one_of_each_step_on_average() {
        let (by_steps, about) = day_by_steps(None, 24).unwrap();
        let all: u32 = about.requests.iter().map(|(_, count)| count).sum();
        assert!((by_steps.iter().sum::<f64>() - 24.0).abs() < 1e-9);
        // The profile's first hour: three requests.
        assert!((by_steps[0] - 3.0 * 24.0 / f64::from(all)).abs() < 1e-9, "{by_steps:?}");
    }

    /// A file of one reading an hour from 22:00 on, 27 of them: the second day is whole.
    fn file(row: impl Fn(u32) -> String) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let rows = (22..49).map(|hour| format!("2015-02-{:02} {:02}:00:00,{}\n", 4 + hour / 24, hour % 24, row(hour)));
        let text = format!("date,Temperature,CO2,Occupancy\n{}", rows.collect::<String>());
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn hours_of(traffic: &Traffic, of: Application) -> Vec<u64> {
        let requests = traffic.requests.iter().filter(|request| request.of == of);
        requests.map(|request| request.at.as_secs() / 3_600).collect()
    }

    #[test]
    fn the_first_whole_day_of_readings_is_taken_and_each_application_asked_where_its_value_says() {
        let file = file(|hour| {
            let hour = hour % 24;
            let temperature = if hour < 12 { 20.0 } else { 20.1 };
            format!(
                "{temperature},{},{}",
                400 + 10 * hour,
                i32::from((8..10).contains(&hour))
            )
        });
        let traffic = Traffic::of(Some(file.path())).unwrap();
        assert_eq!(traffic.about.date.as_deref(), Some("2015-02-05"));
        assert_eq!(traffic.about.sha256.len(), 64);
        assert_eq!(hours_of(&traffic, Application::Dashboard), [8, 9]);
        assert_eq!(hours_of(&traffic, Application::Air), [0, 3, 6, 9, 12, 15, 18, 21]);
        assert_eq!(hours_of(&traffic, Application::Database), [0, 12]);
        assert_eq!(hours_of(&traffic, Application::Lights), [8, 10]);
        assert!(traffic.requests.is_sorted_by_key(|request| request.at));
        assert_eq!(traffic.about.requests[1], ("air".to_owned(), 8));
    }

    #[test]
    fn a_file_without_a_column_or_a_whole_day_is_refused_with_what_is_missing() {
        let lacking = file(|_| "20,500,".to_owned());
        let reason = Traffic::of(Some(lacking.path())).err().unwrap();
        assert!(reason.contains("no number `Occupancy`"), "{reason}");
        let short = file(|_| "20,500,0".to_owned());
        let text = std::fs::read_to_string(short.path()).unwrap();
        std::fs::write(short.path(), text.lines().take(20).collect::<Vec<_>>().join("\n")).unwrap();
        let reason = Traffic::of(Some(short.path())).err().unwrap();
        assert!(
            reason.contains("no day has readings in each of its 24 hours"),
            "{reason}"
        );
    }

    #[test]
    fn the_profile_is_a_day_of_the_same_requests_each_time() {
        let [first, second] = [(); 2].map(|()| Traffic::of(None).unwrap());
        assert_eq!(first.requests, second.requests);
        assert_eq!(first.about, second.about);
        assert!(
            first
                .requests
                .iter()
                .all(|request| request.at < Duration::from_secs(u64::from(DAY_S)))
        );
        assert_eq!(
            first
                .about
                .requests
                .iter()
                .map(|(_, count)| *count as usize)
                .sum::<usize>(),
            first.requests.len()
        );
    }
}
