//! Ids of conversations and events, places of events in the log, and times.
//!
//! This module knows nothing of events, files or SQL. Its invariant: every id value is valid, so no other module has to
//! check it again. New conversation ids, event ids and [`Timestamp`]s are made only here.

mod relative;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike as _, Local, NaiveDateTime, SecondsFormat};

/// The maximum length of a conversation id, in bytes.
pub const CONVERSATION_ID_BYTES_MAX: usize = 200;

/// The maximum length of an event id, in bytes.
pub const EVENT_ID_BYTES_MAX: usize = 256;

/// The `parent_id` of an event that has no parent and starts a tree of its own.
///
/// Source: OpenHands SDK 1.58, `docs/reference/events.md#tree`. No event may have it as its id.
pub const ROOT: &str = "__root__";

/// Why a text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text is empty.
    #[error("an id cannot be empty")]
    Empty,
    /// The id is longer than the maximum. Both lengths are in bytes.
    #[error("an id of {bytes} bytes is longer than the {max} allowed")]
    TooLong {
        /// The id's length.
        bytes: usize,
        /// The maximum length.
        max: usize,
    },
    /// The id contains a character that is not allowed: a control character, or `/` or `\` in a conversation id.
    #[error("an id cannot contain {character:?} (at byte {at})")]
    Character {
        /// The character that is not allowed.
        character: char,
        /// Its offset, in bytes.
        at: usize,
    },
    /// The text is reserved: `.`, `..` or [`ROOT`].
    #[error("{text:?} is reserved and cannot be an id")]
    Reserved {
        /// The text.
        text: &'static str,
    },
}

fn check(text: &str, max: usize, forbidden: fn(char) -> bool) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > max {
        return Err(IdError::TooLong { bytes: text.len(), max });
    }
    // Nearly every id has only letters, digits and dashes. Without an early exit, many bytes are checked at once.
    if text.bytes().fold(true, |plain, byte| plain & (byte.is_ascii_alphanumeric() | (byte == b'-'))) {
        return Ok(());
    }
    match text.char_indices().find(|(_, character)| forbidden(*character)) {
        Some((at, character)) => Err(IdError::Character { character, at }),
        None => Ok(()),
    }
}

/// The id of a conversation: a UUID with dashes, or any text of 1 to [`CONVERSATION_ID_BYTES_MAX`] bytes without
/// control characters, `/` and `\`.
///
/// A UUID is always stored in lower case with dashes. So the folder name `0f…` (32 hex digits) and the id `0f…-…` are
/// the same conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationId(String);

impl ConversationId {
    /// Checks and normalises `text`.
    ///
    /// # Errors
    /// [`IdError`] if the text is empty, too long, reserved or contains a forbidden character.
    pub fn new(text: &str) -> Result<Self, IdError> {
        check(text, CONVERSATION_ID_BYTES_MAX, |c| c.is_control() || c == '/' || c == '\\')?;
        for reserved in [".", ".."] {
            if text == reserved {
                return Err(IdError::Reserved { text: reserved });
            }
        }
        if matches!(text.len(), 32 | 36)
            && let Ok(uuid) = uuid::Uuid::try_parse(text)
        {
            return Ok(Self(uuid.hyphenated().to_string()));
        }
        Ok(Self(text.to_owned()))
    }

    /// Makes a new random id (UUID version 4).
    #[must_use]
    pub fn mint() -> Self {
        Self(uuid::Uuid::new_v4().hyphenated().to_string())
    }

    /// Returns the id of a part of this conversation. The same name always gives the same id (UUID version 5).
    #[must_use]
    pub fn of_part(&self, name: &str) -> Self {
        let whole = format!("annals:{}:{}:{name}", self.0.len(), self.0);
        Self(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, whole.as_bytes()).hyphenated().to_string())
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the folder that the reference gives this conversation: 32 hex digits for a UUID, otherwise
    /// the id itself.
    #[must_use]
    pub fn folder_name(&self) -> String {
        match uuid::Uuid::try_parse(&self.0) {
            Ok(uuid) => uuid.simple().to_string(),
            Err(_) => self.0.clone(),
        }
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ConversationId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The id of an event. It is unique only within its conversation: a fork keeps the ids of the events that it copied.
///
/// It has 1 to [`EVENT_ID_BYTES_MAX`] bytes, contains no control characters, and is not [`ROOT`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(String);

impl EventId {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`IdError`] if the text is empty, too long, reserved or contains a control character.
    pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        check(&text, EVENT_ID_BYTES_MAX, char::is_control)?;
        if text == ROOT {
            return Err(IdError::Reserved { text: ROOT });
        }
        Ok(Self(text))
    }

    /// Makes a new random id (UUID version 4), as the reference does.
    #[must_use]
    pub fn mint() -> Self {
        Self(uuid::Uuid::new_v4().hyphenated().to_string())
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The place of an event in its conversation: 0-based, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Sequence(pub u64);

/// The place of an event in the whole log: 1-based, ascending in the order of commit, never used twice.
///
/// There are no gaps as long as nothing is deleted. [`Position::START`] is the position before the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position(pub u64);

impl Position {
    /// The position before the first event. As `after`, it selects all events.
    pub const START: Self = Self(0);
}

/// The version of a conversation's base state: 0 when it is created, one more after every saved change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version(pub u64);

/// The number of an act in the administrative log, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ActNumber(pub u64);

impl ActNumber {
    /// The number before the first act. As `after`, it selects all acts.
    pub const START: Self = Self(0);
}

impl fmt::Display for ActNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time: microseconds since 1970-01-01T00:00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the current time of the clock. Clocks can jump, so Annals never uses a time to order events.
    #[must_use]
    pub fn now() -> Self {
        Self::of(SystemTime::now())
    }

    /// A clock may be before 1970. Chrono's own reading of it panics then.
    fn of(clock: SystemTime) -> Self {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(match clock.duration_since(UNIX_EPOCH) {
            Ok(after) => micros(after),
            Err(before) => micros(before.duration()).saturating_neg(),
        })
    }

    /// Returns the time in UTC. A time outside the calendar is its nearest end.
    #[cfg(any(feature = "server", feature = "postgres"))]
    pub(crate) fn to_utc(self) -> DateTime<chrono::Utc> {
        let end =
            if self.0 < 0 { DateTime::<chrono::Utc>::MIN_UTC } else { DateTime::<chrono::Utc>::MAX_UTC };
        DateTime::from_timestamp_micros(self.0).unwrap_or(end)
    }

    /// Returns the local time of this machine as the reference writes it into events: without the zone, and without the
    /// fraction if it is zero (`docs/reference/events.md#timestamps`).
    #[must_use]
    pub fn to_local(self) -> String {
        let Some(time) = DateTime::from_timestamp_micros(self.0) else { return self.to_rfc3339() };
        let local = time.with_timezone(&Local);
        let format = if self.0 % 1_000_000 == 0 { "%Y-%m-%dT%H:%M:%S" } else { "%Y-%m-%dT%H:%M:%S%.6f" };
        local.format(format).to_string()
    }

    /// Reads an ISO 8601 time in the forms that events have. A time without a zone is read as UTC.
    ///
    /// The reference writes local times without the zone (`docs/reference/events.md#timestamps`). So times of one
    /// conversation can be compared and subtracted; otherwise the result is approximate.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // A year has four digits in ISO 8601. What could be read otherwise (a sign, white space before it, a zone that leads out
        // of these years) could not be written so that it can be read again.
        let has_a_year = text.len() > 4 && text.bytes().take(4).all(|byte| byte.is_ascii_digit());
        let time = if has_a_year { Self::parse_any(text)? } else { return None };
        let year = DateTime::from_timestamp_micros(time.0)?.year();
        (0..=9999).contains(&year).then_some(time)
    }

    fn parse_any(text: &str) -> Option<Self> {
        if let Some(plain) = plain_time(text) {
            return Some(Self(plain.and_utc().timestamp_micros()));
        }
        if let Ok(zoned) = DateTime::parse_from_rfc3339(text) {
            return Some(Self(zoned.timestamp_micros()));
        }
        ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
            .iter()
            .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
            .map(|naive| Self(naive.and_utc().timestamp_micros()))
    }

    /// Returns the local time with microseconds and without a zone, as the reference writes the times of events.
    #[must_use]
    pub fn to_naive_local(self) -> String {
        DateTime::from_timestamp_micros(self.0).map_or_else(
            || self.0.to_string(),
            |time| time.with_timezone(&Local).format("%Y-%m-%dT%H:%M:%S%.6f").to_string(),
        )
    }

    /// Reads a time as a person types it: in a form that [`Timestamp::parse`] reads, as a date, or without seconds.
    #[must_use]
    pub fn parse_typed(text: &str) -> Option<Self> {
        Self::parse(text)
            .or_else(|| Self::parse(&format!("{text}T00:00:00")))
            .or_else(|| Self::parse(&format!("{text}:00")))
    }

    /// Returns the time as RFC 3339 in UTC with microseconds and `Z`. For a time outside the calendar, returns the
    /// number itself.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        DateTime::from_timestamp_micros(self.0)
            .map_or_else(|| self.0.to_string(), |time| time.to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

/// Reads `2026-01-31T09:30:00.123456`, with one to six digits after the point, or without a fraction. Nearly every
/// event has this form, and every append reads such a time, so it has its own fast parser. `None` for any other form.
fn plain_time(text: &str) -> Option<NaiveDateTime> {
    let number = |digits: &str| {
        digits
            .bytes()
            .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0')))
    };
    let part = |range: std::ops::Range<usize>| text.get(range).and_then(number);
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !separators.iter().all(|(at, byte)| bytes.get(*at) == Some(byte)) {
        return None;
    }
    let micros = match text.get(19..)? {
        "" => 0,
        fraction => {
            let digits = fraction.strip_prefix('.').filter(|digits| (1..=6).contains(&digits.len()))?;
            number(digits)? * 10_u32.pow(6 - digits.len() as u32)
        }
    };
    let date = chrono::NaiveDate::from_ymd_opt(part(0..4)?.cast_signed(), part(5..7)?, part(8..10)?)?;
    date.and_hms_micro_opt(part(11..13)?, part(14..16)?, part(17..19)?, micros)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_is_a_time_like_others() {
        let second = Duration::from_secs(1);
        assert_eq!(Timestamp::of(UNIX_EPOCH - second), Timestamp(-1_000_000));
        assert_eq!(Timestamp::of(UNIX_EPOCH - second).to_rfc3339(), "1969-12-31T23:59:59.000000Z");
        assert_eq!(Timestamp::of(UNIX_EPOCH + second), Timestamp(1_000_000));
    }

    #[test]
    fn one_uuid_has_one_conversation_id_however_it_is_written() {
        let dashed = ConversationId::new("dc3e2801-a35e-5001-94a7-d105aced297a").unwrap();
        assert_eq!(ConversationId::new("DC3E2801A35E500194A7D105ACED297A").unwrap(), dashed);
        assert_eq!(dashed.folder_name(), "dc3e2801a35e500194a7d105aced297a");
        assert_eq!(ConversationId::new("my-task-123").unwrap().folder_name(), "my-task-123");
    }

    #[test]
    fn an_invalid_id_is_rejected_with_the_reason() {
        assert_eq!(ConversationId::new(""), Err(IdError::Empty));
        assert_eq!(ConversationId::new(".."), Err(IdError::Reserved { text: ".." }));
        assert_eq!(ConversationId::new("a/b"), Err(IdError::Character { character: '/', at: 1 }));
        assert_eq!(EventId::new("a\0"), Err(IdError::Character { character: '\0', at: 1 }));
        assert_eq!(EventId::new("__root__"), Err(IdError::Reserved { text: "__root__" }));
        assert_eq!(
            EventId::new("x".repeat(1_000_000)),
            Err(IdError::TooLong { bytes: 1_000_000, max: EVENT_ID_BYTES_MAX })
        );
    }

    #[test]
    fn times_are_read_with_and_without_a_zone() {
        let moment = Timestamp(1_758_795_296_123_456);
        assert_eq!(moment.to_rfc3339(), "2025-09-25T10:14:56.123456Z");
        assert_eq!(Timestamp::parse("2025-09-25T10:14:56.123456"), Some(moment));
        assert_eq!(Timestamp::parse("2025-09-25T12:14:56.123456+02:00"), Some(moment));
        assert_eq!(Timestamp::parse("2025-09-25T10:14:56"), Some(Timestamp(1_758_795_296_000_000)));
        let local = moment.to_local();
        assert_eq!((local.len(), &local[17..]), (26, "56.123456"));
        assert_eq!(Timestamp(1_758_795_296_000_000).to_local().len(), 19);
        assert_eq!(Timestamp::parse("2025-09-25T10:14:56.1"), Some(Timestamp(1_758_795_296_100_000)));
        assert_eq!(Timestamp::parse("2025-09-25T10:14:56.1234567"), Some(moment));
        assert_eq!(Timestamp::parse("2025-09-25 10:14:56.123456"), Some(moment));
        for invalid in [
            "yesterday",
            "2025-02-29T00:00:00",
            "2025-09-25T24:00:00",
            "2025-09-2５T10:14:56",
            "2025-09-25T10:14:56.",
            // Years that could not be written so that they can be read again.
            "-2025-09-25T10:14:56",
            "+2025-09-25T10:14:56",
            " +20260-01-08T00:00:00",
            "\n -2-01-8T00:00:00",
            " 2025-09-25T10:14:56",
            "20250-09-25T10:14:56",
            "0000-01-01T00:00:00+14:00",
            "9999-12-31T23:00:00-02:00",
        ] {
            assert_eq!(Timestamp::parse(invalid), None, "{invalid}");
        }
        for edge in
            ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2025-9-5T1:1:1", "2025-09-25 10:14:56"]
        {
            let time = Timestamp::parse(edge).unwrap();
            assert_eq!(Timestamp::parse(&time.to_rfc3339()), Some(time), "{edge}");
        }
        assert_eq!(Timestamp::parse_typed("2026-01-31"), Timestamp::parse("2026-01-31T00:00:00Z"));
        assert_eq!(Timestamp::parse_typed("2026-01-31 12:30"), Timestamp::parse("2026-01-31T12:30:00Z"));
    }
}
