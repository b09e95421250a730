//! File names: the reference's names of event files, and the names that older programs gave them.
//!
//! Source: `docs/reference/files.md` and `docs/reference/seeds.md#names-of-files`.

use crate::ids::Timestamp;
use crate::json::Raw;

/// The folder of event files within a conversation's folder.
pub const EVENTS: &str = "events/";

/// The folder that held all files of a conversation in September 2025.
pub const EVENT_SERVICE: &str = "event_service/";

/// The file of the base state.
pub const BASE_STATE: &str = "base_state.json";

/// The folder of sub-agents' conversations.
pub const SUBAGENTS: &str = "subagents/";

/// The folder for what would keep today's SDK from opening a conversation. Only our own upgraded exports have it.
pub const SET_ASIDE: &str = "set-aside/";

/// A file name takes about this many bytes of an event's id, because file systems allow 255 bytes for a name.
const ID_BYTES_MAX: usize = 200;

/// The name the reference gives the file of the event `id` at `index`.
#[must_use]
pub fn event_file(index: u64, id: &str) -> String {
    format!("event-{index:05}-{}.json", file_safe(id))
}

/// Returns `id` as a part of a file name. Other characters than letters, digits, `-`, `_` and `.` become `%XX`.
fn file_safe(id: &str) -> String {
    let mut safe = String::with_capacity(id.len());
    for character in id.chars() {
        if safe.len() > ID_BYTES_MAX {
            break;
        }
        if character.is_alphanumeric() || matches!(character, '-' | '_' | '.') {
            safe.push(character);
        } else {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                safe.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    safe
}

/// The parts of an event file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventName {
    /// The number of the event. The seed's names count from 1.
    pub index: u64,
    /// The event's id, if the name has one.
    pub id: Option<String>,
}

/// Reads the name of an event's file: `event-00000-<id>.json`, the seed's `0001_user_message.json`, or
/// V0's `17.json`. `None` for every other name.
#[must_use]
pub fn read_event_name(name: &str) -> Option<EventName> {
    let stem = name.strip_suffix(".json")?;
    if let Some(rest) = stem.strip_prefix("event-") {
        let (digits, id) = rest.split_once('-')?;
        let index = number(digits, 5)?;
        return (!id.is_empty()).then(|| EventName { index, id: Some(id.to_owned()) });
    }
    if let Some((digits, kind)) = stem.split_once('_') {
        let seed = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        return seed.then(|| number(digits, 4)).flatten().map(|index| EventName { index, id: None });
    }
    number(stem, 1).map(|index| EventName { index, id: None })
}

fn number(digits: &str, least: usize) -> Option<u64> {
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (all_digits && digits.len() >= least).then(|| digits.parse().ok()).flatten()
}

/// Returns whether the reference's loader recognises this name: five digits or more, then at least eight hex
/// digits and dashes.
#[must_use]
pub fn is_recognised(name: &str) -> bool {
    read_event_name(name)
        .and_then(|read| read.id)
        .is_some_and(|id| id.len() >= 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'))
}

/// The file in which a server of the reference writes down that it has a conversation open.
pub const LEASE: &str = "owner_lease.json";

/// Returns when a lease ends, as text. `None` if it has ended by `now`, and if it cannot be read.
#[must_use]
pub fn lease_end(lease: &str, now: Timestamp) -> Option<String> {
    let seconds = Raw::parse(lease).ok()?.get("expires_at")?.as_f64()?;
    // Beyond the range of times, the nearest end of it.
    let end = Timestamp((seconds * 1e6) as i64);
    (end > now).then(|| end.to_rfc3339())
}

/// Returns whether a file belongs to the reference's own book-keeping and never held an event. Such files come and go at
/// every append.
#[must_use]
pub fn is_bookkeeping(name: &str) -> bool {
    matches!(name, ".eventlog.lock" | ".owner_lease.lock")
        || (name.starts_with(".eventlog-len-") && name.ends_with(".marker"))
        || temporary_of(name).is_some_and(is_bookkeeping)
}

/// Returns the name that a temporary file of the reference gets when it is whole: `.NAME.RANDOM.tmp`. `None` for every other
/// file.
#[must_use]
pub fn temporary_of(name: &str) -> Option<&str> {
    if name == "owner_lease.tmp" {
        return Some(LEASE);
    }
    let (whole, random) = name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.')?;
    (!whole.is_empty() && !random.is_empty()).then_some(whole)
}

/// Chooses file names for the events of a conversation, in order.
///
/// Import and export count in the same way, so only names that differ have to be stored.
#[derive(Debug, Default)]
pub struct Numbering {
    next: u64,
}

impl Numbering {
    /// Returns the name that an export chooses for the next event.
    #[must_use]
    pub fn choose(&self, id: &str) -> String {
        event_file(self.next, id)
    }

    /// Returns the index that the next event should have.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.next
    }

    /// Continues to count after the event in the file `name`.
    pub fn pass(&mut self, name: &str) {
        let index = read_event_name(name).filter(|read| read.id.is_some()).map(|read| read.index);
        self.next = index.unwrap_or(self.next).saturating_add(1);
    }
}

/// Returns whether the name is an event's, even outside a folder called `events`. V0's names such as `17.json` are too
/// common for that.
pub(super) fn is_bare_event_name(name: &str) -> bool {
    read_event_name(name).is_some_and(|read| read.id.is_some() || name.contains('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str) -> Option<(u64, Option<String>)> {
        read_event_name(name).map(|read| (read.index, read.id))
    }

    #[test]
    fn names_of_every_age_are_read() {
        assert_eq!(read("event-00007-0a16-7f9b.json"), Some((7, Some("0a16-7f9b".into()))));
        assert_eq!(read("event-123456-abc.json"), Some((123_456, Some("abc".into()))));
        assert_eq!(read("0001_user_message.json"), Some((1, None)));
        assert_eq!(read("17.json"), Some((17, None)));
        for other in ["notes.txt", "event-7-abc.json", "event-00007.json", "events.json", "x_y.json", ".json"]
        {
            assert_eq!(read(other), None, "{other}");
        }
        assert!(is_recognised("event-00000-127634c5-9a45.json"));
        assert!(!is_recognised("event-00007-abc.json"));
        assert!(!is_recognised("event-00007-zzzzzzzz.json"));
    }

    #[test]
    fn what_comes_and_goes_is_recognised() {
        for name in [
            ".eventlog.lock",
            ".eventlog-len-7.marker",
            "..eventlog-len-58.marker.3n25e26f.tmp",
            ".owner_lease.lock",
        ] {
            assert!(is_bookkeeping(name), "{name}");
        }
        for name in
            ["base_state.json", ".base_state.json.x1.tmp", "owner_lease.json", ".tmp", "..tmp", "a.tmp"]
        {
            assert!(!is_bookkeeping(name), "{name}");
        }
        assert_eq!(temporary_of(".base_state.json.x1.tmp"), Some("base_state.json"));
        assert_eq!(temporary_of("owner_lease.tmp"), Some("owner_lease.json"));
        assert_eq!(
            (temporary_of(".x.tmp"), temporary_of("x.y.tmp"), temporary_of("..x.tmp")),
            (None, None, None)
        );
    }

    #[test]
    fn an_id_is_escaped_for_its_file_name() {
        assert_eq!(event_file(3, "a/../b c"), "event-00003-a%2F..%2Fb%20c.json");
        assert_eq!(event_file(100_000, "x"), "event-100000-x.json");
        assert!(event_file(0, &"%".repeat(256)).len() < 255);
    }

    #[test]
    fn numbering_continues_after_gaps_and_foreign_names() {
        let mut numbering = Numbering::default();
        assert_eq!(numbering.choose("a"), "event-00000-a.json");
        numbering.pass("event-00004-b.json");
        assert_eq!(numbering.choose("c"), "event-00005-c.json");
        numbering.pass("0001_action.json");
        assert_eq!(numbering.choose("d"), "event-00006-d.json");
    }
}
