//! What columns of the catalogue and of projections show of a text from an event or a base state.
//!
//! The event and the base state keep the whole text. Lists and queries read these columns, so they have a bound.

use std::borrow::Cow;

use crate::chain::Digest;
use crate::json::Raw;
use crate::state::ExecutionStatus;
use crate::store::options::{COPY_BYTES_MAX, STATUS_BYTES_MAX};

/// What stands between the beginning of a long text and its digest, which has 64 characters.
const MARK: &str = "… sha256:";

/// The number of bytes of a long text that are shown.
const BEGINNING_BYTES_MAX: usize = COPY_BYTES_MAX - MARK.len() - 64;

/// Returns `text`, or its beginning and its SHA-256 if it is longer than [`COPY_BYTES_MAX`] or looks like such a
/// result.
///
/// Different texts stay different, so that a column that is a key or a group never merges two of them.
pub(in crate::store) fn text(text: &str) -> Cow<'_, str> {
    if text.len() <= COPY_BYTES_MAX && !looks_cut(text) {
        return Cow::Borrowed(text);
    }
    let beginning = &text[..text.floor_char_boundary(BEGINNING_BYTES_MAX)];
    Cow::Owned(format!("{beginning}{MARK}{}", Digest::of(text.as_bytes()).to_hex()))
}

/// Returns whether a text ends as the result for a long text does. A foreign file may contain such a text.
fn looks_cut(text: &str) -> bool {
    text.rsplit_once(MARK).is_some_and(|(_, digest)| {
        digest.len() == 64 && digest.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Returns the status that the catalogue shows for the field `execution_status` of a base state.
///
/// It is `idle` if the value is not a text, or is longer than [`STATUS_BYTES_MAX`].
pub(in crate::store) fn status(value: Option<Raw<'_>>) -> Cow<'_, str> {
    let status = value.and_then(Raw::as_text).filter(|status| status.len() <= STATUS_BYTES_MAX);
    status.unwrap_or(Cow::Borrowed(ExecutionStatus::Idle.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_shown_as_its_beginning_and_its_digest() {
        for character in ["x", "\u{e9}", "\u{20ac}", "\u{1f600}"] {
            for bytes in [0, 1, COPY_BYTES_MAX, COPY_BYTES_MAX + 1, COPY_BYTES_MAX + 2, 100_000] {
                let whole = character.repeat(bytes.div_ceil(character.len()));
                let shown = text(&whole);
                assert!(shown.len() <= COPY_BYTES_MAX, "{character} {bytes}: {}", shown.len());
                assert_eq!(shown == whole, whole.len() <= COPY_BYTES_MAX, "{character} {bytes}");
                let other = format!("{whole}y");
                assert_ne!(shown, text(&other), "{character} {bytes}");
                // What is shown of a long text can be a text itself. Then it is shown as another one.
                if shown != whole {
                    let (again, thrice) = (text(&shown).into_owned(), text(&text(&shown)).into_owned());
                    assert!(again.len() <= COPY_BYTES_MAX && thrice.len() <= COPY_BYTES_MAX);
                    assert!(again != shown && thrice != again && thrice != shown, "{character} {bytes}");
                }
            }
        }
    }

    #[test]
    fn a_short_text_that_looks_like_a_cut_one_is_shown_as_another_text() {
        let digest = Digest::of(b"a text").to_hex();
        for beginning in ["", "x", "two words"] {
            let looks_cut = format!("{beginning}{MARK}{digest}");
            assert_ne!(text(&looks_cut), looks_cut);
            assert_ne!(text(&looks_cut), text(&format!("{looks_cut}0")));
        }
        for harmless in [MARK.to_owned(), digest.clone(), format!("{MARK}{digest} "), format!("x{digest}")] {
            assert_eq!(text(&harmless), harmless);
        }
    }

    #[test]
    fn a_status_is_shown_if_it_is_a_short_text() {
        let longest = format!("\"{}\"", "x".repeat(STATUS_BYTES_MAX));
        let longer = format!("\"{}\"", "x".repeat(STATUS_BYTES_MAX + 1));
        for (value, shown) in [
            ("\"running\"", "running"),
            ("\"asleep\"", "asleep"),
            (&*longest, longest.trim_matches('"')),
            (&*longer, "idle"),
            ("\"\"", "idle"),
            ("7", "idle"),
        ] {
            assert_eq!(status(Raw::parse(value).ok()), shown, "{value}");
        }
        assert_eq!(status(None), "idle");
    }
}
