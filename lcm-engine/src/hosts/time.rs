//! Moments as hosts write them, as milliseconds since 1970 UTC. Without floating point: the digits are read.

use lcm_core::Json;

/// Numbers from here on are milliseconds, below they are seconds: the year 5138 against March 1973.
const MILLISECONDS_FROM: i64 = 100_000_000_000;

/// Reads a moment: seconds or milliseconds as a number, or a text that [`from_text`] reads.
pub(crate) fn from_json(value: &Json) -> Option<i64> {
    match value {
        Json::Number(literal) => from_number(literal),
        Json::String(text) => from_text(text.as_str()?),
        _ => None,
    }
}

/// Reads seconds, or milliseconds where the number is that large, with or without a fraction.
pub(crate) fn from_number(literal: &str) -> Option<i64> {
    let (is_negative, digits) = match literal.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, literal),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || whole.len() > 18 || !whole.bytes().chain(fraction.bytes()).all(|c| c.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let moment = if whole >= MILLISECONDS_FROM {
        whole
    } else {
        let padded: String = fraction.chars().chain("000".chars()).take(3).collect();
        whole.checked_mul(1000)?.checked_add(padded.parse().ok()?)?
    };
    Some(if is_negative { -moment } else { moment })
}

/// Reads RFC 3339, a date alone, or a date with the name of its month (`March-15-2024`). Without an offset it is UTC.
pub(crate) fn from_text(text: &str) -> Option<i64> {
    let text = text.trim();
    let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
    let days = days(date)?;
    let of_day = if time.is_empty() { 0 } else { of_day_ms(time)? };
    days.checked_mul(DAY_MS)?.checked_add(of_day)
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Days since 1970 of a date.
fn days(date: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let (first, second, third) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (year, month, day) = match MONTHS.iter().zip(1..).find(|(name, _)| **name == first) {
        Some((_, month)) => (digits(third, 4, 4)?, month, digits(second, 1, 2)?),
        None => (digits(first, 4, 4)?, digits(second, 2, 2)?, digits(third, 2, 2)?),
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Years are counted from March, so that the leap day is the last of one; then the months before it have
    // 153 days every five.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(year * 365 + leaps + (153 * month + 2) / 5 + day - 1 - 719_468)
}

/// Milliseconds of a time of day, moved to UTC.
fn of_day_ms(time: &str) -> Option<i64> {
    let offset_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, offset) = time.split_at(offset_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?, 2, 2)?, digits(parts.next()?, 2, 2)?);
    let second = parts.next().map_or(Some(0), |second| digits(second, 2, 2))?;
    if parts.next().is_some()
        || hour > 23
        || minute > 59
        || second > 60
        || !fraction.bytes().all(|c| c.is_ascii_digit())
    {
        return None;
    }
    let fraction: String = fraction.chars().chain("000".chars()).take(3).collect();
    let ms = ((hour * 60 + minute) * 60 + second) * 1000 + fraction.parse::<i64>().ok()?;
    let minutes = match offset {
        "" | "Z" | "z" => 0,
        _ => {
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            let (hours, minutes) = offset[1..].split_once(':').or_else(|| offset[1..].split_at_checked(2))?;
            sign * (digits(hours, 2, 2)? * 60 + digits(minutes, 2, 2)?)
        }
    };
    Some(ms - minutes * 60_000)
}

/// A number of so many digits.
fn digits(text: &str, min: usize, max: usize) -> Option<i64> {
    if !(min..=max).contains(&text.len()) || !text.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_the_shapes_hosts_write() {
        assert_eq!(from_number("1772611204.125"), Some(1_772_611_204_125));
        assert_eq!(from_number("1772611204"), Some(1_772_611_204_000));
        assert_eq!(from_number("1772611204125"), Some(1_772_611_204_125));
        assert_eq!(from_number("1772611204.1"), Some(1_772_611_204_100));
        assert_eq!(from_number("-1.5"), Some(-1500));
        assert_eq!(from_text("2026-03-04T08:00:01.137Z"), Some(1_772_611_201_137));
        assert_eq!(from_text("2026-03-04T10:00:01.137999+02:00"), Some(1_772_611_201_137));
        assert_eq!(from_text("2026-03-04 07:30:01-0030"), Some(1_772_611_201_000));
        assert_eq!(from_text("2026-03-04"), Some(1_772_582_400_000));
        assert_eq!(from_text("1969-12-31T23:59:59Z"), Some(-1000));
        assert_eq!(from_text("2000-02-29"), Some(951_782_400_000));
        assert_eq!(from_text("0001-01-01"), Some(-62_135_596_800_000));
        assert_eq!(from_text("March-15-2024"), Some(1_710_460_800_000));
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for literal in ["", ".", "1e5", "NaN", "Infinity", "1.2.3", "99999999999999999999", "-", "1,5"] {
            assert_eq!(from_number(literal), None, "{literal}");
        }
        for text in [
            "",
            "yesterday",
            "2026-13-40",
            "2026-02-29",
            "1900-02-29",
            "2026-03-04T25:00:00Z",
            "2026-03-04T10:00:00+2",
            "2026-03-04T1é:00:00",
            "March-99-2024",
            "2026-03-04-05",
            &"9".repeat(5000),
        ] {
            assert_eq!(from_text(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9TZ:+. é-]{0,30}|\\PC{0,20}") {
            let _moment = (from_text(&text), from_number(&text));
        }
    }
}
