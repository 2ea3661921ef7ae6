//! Values of settings: what kinds there are, and how one is read from a text.
//!
//! Every layer gives texts, so a value is read in one way wherever it comes from. There are no floats: a ratio is
//! whole thousandths.

use std::fmt;

use lcm_core::Json;

/// Elements of a list, and the longest text of a value: more than anybody means.
const LIST_MAX: usize = 1000;
const TEXT_BYTES_MAX: usize = 4096;

/// What a setting may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Yes or no.
    Flag,
    /// A whole number within bounds, both included.
    Number(u64, u64),
    /// A decimal number within bounds, both included, in thousandths.
    Ratio(u64, u64),
    /// Anything in one line.
    Text,
    /// One of these words, or nothing.
    Choice(&'static [&'static str]),
    /// Where an HTTP service is.
    Address,
    /// A file; one that does not begin with `/` is looked for in the data directory.
    File,
    /// Texts.
    List,
    /// What nobody may see.
    Secret,
}

/// What a setting is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Flag(bool),
    Number(u64),
    /// Thousandths.
    Ratio(u64),
    Text(String),
    List(Vec<String>),
    Secret(Secret),
}

/// A text that is never shown: neither as it is, nor by a derived `Debug` around it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text, for whoever must say it to its addressee.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "not set" } else { "set" })
    }
}

impl Kind {
    /// Reads a value.
    ///
    /// # Errors
    /// What would be right, to stand behind "must be".
    pub(crate) fn read(self, text: &str) -> Result<Value, String> {
        let trimmed = text.trim();
        if self != Self::List && text.len() > TEXT_BYTES_MAX {
            return Err(format!("at most {TEXT_BYTES_MAX} bytes long"));
        }
        match self {
            Self::Flag => match trimmed.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Ok(Value::Flag(true)),
                "false" | "no" | "off" | "0" => Ok(Value::Flag(false)),
                _ => Err("true or false".to_owned()),
            },
            Self::Number(min, max) => whole(trimmed)
                .filter(|number| (min..=max).contains(number))
                .map(Value::Number)
                .ok_or_else(|| format!("a whole number from {min} to {max}")),
            Self::Ratio(min, max) => thousandths(trimmed)
                .filter(|ratio| (min..=max).contains(ratio))
                .map(Value::Ratio)
                .ok_or_else(|| format!("a number from {} to {}, with at most three decimals", Ratio(min), Ratio(max))),
            Self::Text | Self::File => match trimmed.chars().any(char::is_control) {
                true => Err("one line of text".to_owned()),
                false => Ok(Value::Text(trimmed.to_owned())),
            },
            Self::Choice(words) => match trimmed.is_empty() || words.contains(&trimmed) {
                true => Ok(Value::Text(trimmed.to_owned())),
                false => Err(format!("one of {}", words.join(", "))),
            },
            Self::Address => address(trimmed).map(Value::Text),
            Self::List => {
                let parts: Vec<String> =
                    trimmed.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect();
                Self::list(parts)
            }
            // It becomes part of a header.
            Self::Secret => match trimmed.bytes().all(|byte| byte.is_ascii_graphic()) {
                true => Ok(Value::Secret(Secret::new(trimmed))),
                false => Err("visible ASCII characters without spaces".to_owned()),
            },
        }
    }

    /// A list whose elements are known.
    pub(crate) fn list(parts: Vec<String>) -> Result<Value, String> {
        if parts.len() > LIST_MAX || parts.iter().any(|part| part.len() > TEXT_BYTES_MAX) {
            return Err(format!("at most {LIST_MAX} texts of at most {TEXT_BYTES_MAX} bytes"));
        }
        Ok(Value::List(parts))
    }

    /// Whether a wrong value may be shown in a message: an address can hold a password.
    pub(crate) fn may_be_quoted(self) -> bool {
        !matches!(self, Self::Secret | Self::Address)
    }
}

/// A whole number; `_` may stand between digits, as in the file.
fn whole(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit()) && !digits.ends_with('_');
    is_number.then(|| digits.replace('_', "").parse().ok()).flatten()
}

/// A decimal number in thousandths; one with more than three decimals is none of ours.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = !whole.is_empty() || !decimals.is_empty();
    let decimals = decimals.trim_end_matches('0');
    if !is_number || decimals.len() > 3 || !whole.bytes().chain(decimals.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let decimals: u64 = format!("{decimals:0<3}").parse().ok()?;
    whole.checked_mul(1000)?.checked_add(decimals)
}

/// An address without anything secret in it; nothing for no address.
fn address(text: &str) -> Result<String, String> {
    let wanted = "an http:// or https:// address without name, password, query or fragment";
    if text.is_empty() {
        return Ok(String::new());
    }
    let url = reqwest::Url::parse(text).map_err(|_| wanted.to_owned())?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain { Ok(text.trim_end_matches('/').to_owned()) } else { Err(wanted.to_owned()) }
}

/// Thousandths as a decimal number.
struct Ratio(u64);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:03}", self.0 % 1000);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / 1000),
            decimals => write!(f, "{}.{decimals}", self.0 / 1000),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Ratio(ratio) => write!(f, "{}", Ratio(*ratio)),
            Self::Text(text) => f.write_str(text),
            Self::List(parts) => f.write_str(&parts.join(", ")),
            Self::Secret(secret) => write!(f, "{secret:?}"),
        }
    }
}

impl Value {
    /// As JSON; a ratio is a text, as it has no other exact form.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Flag(flag) => (*flag).into(),
            Self::Number(number) => (*number).into(),
            Self::List(parts) => Json::Array(parts.iter().map(|part| part.as_str().into()).collect()),
            Self::Ratio(_) | Self::Text(_) | Self::Secret(_) => self.to_string().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let number = |text: &str| Kind::Number(0, 1_000_000).read(text).map(|value| value.to_string()).ok();
        assert_eq!(number(" 20_000 ").as_deref(), Some("20000"));
        for wrong in ["", "-1", "1e3", "1.0", "_1", "1_", "1000001", "99999999999999999999999", "0x10", "١"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ratios_are_exact_and_within_bounds() {
        let ratio = |text: &str| Kind::Ratio(50, 980).read(text).map(|value| value.to_string()).ok();
        for (text, read) in [("0.35", "0.35"), (".5", "0.5"), ("0.9800", "0.98"), ("0.050", "0.05"), ("0.125", "0.125")]
        {
            assert_eq!(ratio(text).as_deref(), Some(read), "{text}");
        }
        for wrong in ["", ".", "1", "0.049", "0.1234", "nan", "inf", "-0.5", "0,5", "75%", "99999999999999999999"] {
            assert_eq!(ratio(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_holds_nothing_secret() {
        let read = |text: &str| Kind::Address.read(text).map(|value| value.to_string());
        assert_eq!(read("http://127.0.0.1:11434/v1/").unwrap(), "http://127.0.0.1:11434/v1");
        assert_eq!(read("").unwrap(), "");
        for wrong in
            ["localhost:8080", "file:///etc", "https://a:b@c/v1", "https://c/v1?key=1", "https://c/#x", "http://"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_shows_nothing_of_itself() {
        let value = Kind::Secret.read("sk-0123456789").unwrap();
        assert_eq!((value.to_string().as_str(), value.to_json()), ("set", "set".into()));
        assert_eq!(Kind::Secret.read("").unwrap().to_string(), "not set");
        assert!(!Kind::Secret.read("sk 0123").unwrap_err().contains("0123"));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_read_again(text in "\\PC{0,40}|[0-9._+-]{0,25}|https?://[a-z:@/?#.0-9]{0,20}") {
            let kinds = [
                Kind::Flag, Kind::Number(0, u64::MAX), Kind::Ratio(0, u64::MAX), Kind::Text, Kind::Choice(&["a"]),
                Kind::Address, Kind::File, Kind::List, Kind::Secret,
            ];
            for kind in kinds {
                if let Ok(value) = kind.read(&text)
                    && kind != Kind::Secret
                {
                    prop_assert_eq!(kind.read(&value.to_string()).map(|again| again.to_string()), Ok(value.to_string()));
                }
            }
        }
    }
}
