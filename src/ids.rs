//! Names and places: what a conversation and an event are called, and where an event stands.
//!
//! This room knows nothing of events, files or SQL. Its invariant: an id that exists is legal, so
//! nobody below has to check it again. It is also the only mint of ids and of the current time.

use std::fmt;

use chrono::{DateTime, Local, NaiveDateTime, SecondsFormat, Utc};

/// The longest conversation id, in bytes.
pub const CONVERSATION_ID_BYTES_MAX: usize = 200;

/// The longest event id, in bytes.
pub const EVENT_ID_BYTES_MAX: usize = 256;

/// The `parent_id` that says "no parent": the event starts a tree of its own.
///
/// Source: OpenHands SDK 1.58, `events.md` section 1. No event may bear it as its id.
pub const ROOT: &str = "__root__";

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// An id needs at least one character.
    #[error("an id cannot be empty")]
    Empty,
    /// The id is longer than the limit; both in bytes.
    #[error("an id of {bytes} bytes is longer than the {max} allowed")]
    TooLong {
        /// The id's length.
        bytes: usize,
        /// The longest that is allowed.
        max: usize,
    },
    /// A character that no id may hold: control characters everywhere, `/` and `\` in conversation ids.
    #[error("an id cannot contain {character:?} (at byte {at})")]
    Character {
        /// The offending character.
        character: char,
        /// Its place, in bytes from the start.
        at: usize,
    },
    /// A text with a meaning of its own: `.`, `..` or [`ROOT`].
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
    // Nearly every id is letters, digits and dashes; without an early end the compiler looks at many at a time.
    if text.bytes().fold(true, |plain, byte| plain & (byte.is_ascii_alphanumeric() | (byte == b'-'))) {
        return Ok(());
    }
    match text.char_indices().find(|(_, character)| forbidden(*character)) {
        Some((at, character)) => Err(IdError::Character { character, at }),
        None => Ok(()),
    }
}

/// The name of a conversation: a UUID with dashes, or any text of 1 to
/// [`CONVERSATION_ID_BYTES_MAX`] bytes without control characters, `/` and `\`.
///
/// A UUID is kept in its lower-case form with dashes, however it was written, so that the
/// folder name `0f…` (32 hex digits) and the id `0f…-…` are one conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationId(String);

impl ConversationId {
    /// Checks and normalises `text`.
    ///
    /// # Errors
    /// [`IdError`] where the text is empty, too long, reserved or holds a forbidden character.
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

    /// A new random id (UUID version 4).
    #[must_use]
    pub fn mint() -> Self {
        Self(uuid::Uuid::new_v4().hyphenated().to_string())
    }

    /// The id of what belongs to this conversation under a name: the same whenever it is asked for (UUID version 5).
    #[must_use]
    pub fn of_part(&self, name: &str) -> Self {
        let whole = format!("annals:{}:{}:{name}", self.0.len(), self.0);
        Self(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, whole.as_bytes()).hyphenated().to_string())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the folder the reference gives this conversation: 32 hex digits for a UUID,
    /// the id itself otherwise.
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

/// The name of an event, unique within its conversation only: a fork keeps the ids of what it copied.
///
/// 1 to [`EVENT_ID_BYTES_MAX`] bytes without control characters, and not [`ROOT`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(String);

impl EventId {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`IdError`] where the text is empty, too long, reserved or holds a control character.
    pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        check(&text, EVENT_ID_BYTES_MAX, char::is_control)?;
        if text == ROOT {
            return Err(IdError::Reserved { text: ROOT });
        }
        Ok(Self(text))
    }

    /// A new random id (UUID version 4), as the reference mints them.
    #[must_use]
    pub fn mint() -> Self {
        Self(uuid::Uuid::new_v4().hyphenated().to_string())
    }

    /// The id as text.
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

/// A place in one conversation: 0-based, dense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Sequence(pub u64);

/// A place in the whole log: 1-based, ascending in the order of commit, never given twice.
///
/// Dense as long as nothing is deleted. [`Position::START`] stands before the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position(pub u64);

impl Position {
    /// Before the first event: "everything" when used as `after`.
    pub const START: Self = Self(0);
}

/// The counter of a conversation's base state: 0 when created, +1 for every saved change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version(pub u64);

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

/// A moment: microseconds since 1970-01-01T00:00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The clock's present reading. Clocks jump; nothing in Annals is ordered by one.
    #[must_use]
    pub fn now() -> Self {
        Self(Utc::now().timestamp_micros())
    }

    /// The time of this machine's clock and zone as the reference writes it into events: without the zone,
    /// and without the fraction where there is none (`events.md` section 1).
    #[must_use]
    pub fn to_local(self) -> String {
        let Some(time) = DateTime::from_timestamp_micros(self.0) else { return self.to_rfc3339() };
        let local = time.with_timezone(&Local);
        let format = if self.0 % 1_000_000 == 0 { "%Y-%m-%dT%H:%M:%S" } else { "%Y-%m-%dT%H:%M:%S%.6f" };
        local.format(format).to_string()
    }

    /// Reads an ISO 8601 time as events carry it. One without a zone is taken as UTC.
    ///
    /// The reference writes naive local times without naming the zone (`events.md` section 1), so
    /// the result orders and subtracts well within one conversation and is otherwise approximate.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // ISO 8601 has four digits for a year: what is beyond them could be read and not be written.
        if text.starts_with(['-', '+']) { None } else { Self::parse_any(text) }
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

    /// Local time with microseconds and without a zone: how the reference writes the times of events.
    #[must_use]
    pub fn to_naive_local(self) -> String {
        DateTime::from_timestamp_micros(self.0).map_or_else(
            || self.0.to_string(),
            |time| time.with_timezone(&Local).format("%Y-%m-%dT%H:%M:%S%.6f").to_string(),
        )
    }

    /// Reads a time as a person types it: as [`Timestamp::parse`] does, or a date, or without seconds.
    #[must_use]
    pub fn parse_typed(text: &str) -> Option<Self> {
        Self::parse(text)
            .or_else(|| Self::parse(&format!("{text}T00:00:00")))
            .or_else(|| Self::parse(&format!("{text}:00")))
    }

    /// RFC 3339 in UTC with microseconds and `Z`; the number itself where no calendar reaches.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        DateTime::from_timestamp_micros(self.0)
            .map_or_else(|| self.0.to_string(), |time| time.to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

/// Reads `2026-01-31T09:30:00.123456`, up to six digits behind the point or none of it: what nearly every
/// event says, and every append reads one. `None` for every other form.
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
    fn one_uuid_has_one_conversation_id_however_it_is_written() {
        let dashed = ConversationId::new("dc3e2801-a35e-5001-94a7-d105aced297a").unwrap();
        assert_eq!(ConversationId::new("DC3E2801A35E500194A7D105ACED297A").unwrap(), dashed);
        assert_eq!(dashed.folder_name(), "dc3e2801a35e500194a7d105aced297a");
        assert_eq!(ConversationId::new("my-task-123").unwrap().folder_name(), "my-task-123");
    }

    #[test]
    fn a_bad_id_is_refused_with_the_reason() {
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
        for none in [
            "yesterday",
            "2025-02-29T00:00:00",
            "2025-09-25T24:00:00",
            "2025-09-2５T10:14:56",
            "2025-09-25T10:14:56.",
        ] {
            assert_eq!(Timestamp::parse(none), None, "{none}");
        }
        assert_eq!(Timestamp::parse_typed("2026-01-31"), Timestamp::parse("2026-01-31T00:00:00Z"));
        assert_eq!(Timestamp::parse_typed("2026-01-31 12:30"), Timestamp::parse("2026-01-31T12:30:00Z"));
    }
}
