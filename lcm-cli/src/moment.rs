//! Times as people write and read them.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// Where the machine keeps its zones.
const ZONES: &str = "/usr/share/zoneinfo";
/// The machine's own zone.
const LOCAL: &str = "/etc/localtime";

/// Now: milliseconds since 1970 UTC. For processes that live long; commands go by the moment at which they began.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// The zone in which people read times here: that of `TZ`, else the machine's.
///
/// One file is read. Asking the library for it would list the folder of all zones first, which takes longer than the
/// search whose hits are to be dated.
pub(crate) fn local_zone(tz: Option<&str>) -> TimeZone {
    let tz = tz.map(|name| name.trim_start_matches(':')).filter(|name| !name.is_empty());
    let path = match tz {
        None => PathBuf::from(LOCAL),
        Some("UTC") => return TimeZone::UTC,
        // Whatever this leads to, it may be no file with an end.
        Some(name) if name.contains("..") || name.starts_with('/') => return TimeZone::system(),
        Some(name) => Path::new(ZONES).join(name),
    };
    let read = fs::read(path).ok().and_then(|bytes| TimeZone::tzif(tz.unwrap_or("local"), &bytes).ok());
    // What is no file of zones may be a rule, or not there at all; the library knows what to do then.
    read.unwrap_or_else(TimeZone::system)
}

/// Reads a moment: `now`, `today`, `yesterday`, a date, a date and time, RFC 3339, or a span (`2 days ago`, `36h`).
///
/// A date is its first moment in `zone`. A span without a direction lies in the past.
pub(crate) fn parse(text: &str, now_ms: i64, zone: &TimeZone) -> Result<i64, String> {
    let text = text.trim();
    let unknown = || format!("{text:?} is no time");
    // The longest forms have some forty characters.
    if text.len() > 200 {
        return Err(unknown());
    }
    let now = Timestamp::from_millisecond(now_ms).map_err(|_| unknown())?.to_zoned(zone.clone());
    let of_day = |date: Date| date.to_zoned(zone.clone()).ok().map(|first| first.timestamp());
    let found = match text.to_ascii_lowercase().as_str() {
        "now" => Some(now.timestamp()),
        "today" => of_day(now.date()),
        "yesterday" => now.date().yesterday().ok().and_then(of_day),
        _ => absolute(text, zone).or_else(|| relative(text, &now)),
    };
    found.map(Timestamp::as_millisecond).ok_or_else(unknown)
}

fn absolute(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment);
    }
    // A date alone is its first moment.
    let local: DateTime = text.parse().ok()?;
    local.to_zoned(zone.clone()).ok().map(|moment| moment.timestamp())
}

fn relative(text: &str, now: &Zoned) -> Option<Timestamp> {
    let span: Span = text.parse().ok()?;
    now.checked_sub(span.abs()).ok().map(|moment| moment.timestamp())
}

/// A moment for people: local, to the second.
pub(crate) fn for_people(ms: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(moment) => moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        // Beyond the years that a calendar knows; a host's clock can say anything.
        Err(_) => format!("{ms} ms"),
    }
}

/// A moment for programs: RFC 3339 in UTC, to the millisecond.
pub(crate) fn for_programs(ms: i64) -> Option<String> {
    let moment = Timestamp::from_millisecond(ms).ok()?;
    Some(moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-04 12:00 UTC.
    const NOW_MS: i64 = 1_772_625_600_000;

    fn read(text: &str) -> Option<String> {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        parse(text, NOW_MS, &zone).ok().and_then(for_programs)
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, moment) in [
            ("now", "2026-03-04T12:00:00.000Z"),
            ("today", "2026-03-03T22:00:00.000Z"),
            ("Yesterday", "2026-03-02T22:00:00.000Z"),
            ("2026-03-01", "2026-02-28T22:00:00.000Z"),
            ("2026-03-01 10:30", "2026-03-01T08:30:00.000Z"),
            ("2026-03-01T10:30:00Z", "2026-03-01T10:30:00.000Z"),
            ("2026-03-01T10:30:00.5+01:00", "2026-03-01T09:30:00.500Z"),
            ("2 days ago", "2026-03-02T12:00:00.000Z"),
            ("36h", "2026-03-03T00:00:00.000Z"),
            ("1 week", "2026-02-25T12:00:00.000Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(moment), "{text}");
        }
    }

    #[test]
    fn a_zone_is_read_from_its_file() {
        // Midsummer and midwinter differ there; on a machine without zones there is only one to choose.
        let zone = local_zone(Some("Europe/Berlin"));
        if Path::new(ZONES).join("Europe/Berlin").exists() {
            assert_eq!(for_people(1_782_000_000_000, &zone), "2026-06-21 02:00:00");
            assert_eq!(for_people(1_766_275_200_000, &zone), "2025-12-21 01:00:00");
        }
        assert_eq!(local_zone(Some("UTC")), TimeZone::UTC);
        for name in [None, Some(""), Some("../../etc/passwd"), Some("no/such/zone"), Some("CET-1CEST")] {
            assert!(!for_people(NOW_MS, &local_zone(name)).is_empty(), "{name:?}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "soon", "2026-13-01", "9999999999999 years ago", &"1".repeat(500)] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn moments_no_calendar_knows_are_still_shown() {
        assert_eq!(for_people(i64::MAX, &TimeZone::UTC), format!("{} ms", i64::MAX));
        assert_eq!(for_programs(i64::MIN), None);
        assert_eq!(for_people(NOW_MS + 61_500, &TimeZone::UTC), "2026-03-04 12:01:01");
    }
}
