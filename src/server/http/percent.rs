//! Percent-encoding of texts for headers.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that are encoded: all but letters, digits and `-._~` (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns a text with `%XX` for everything except letters, digits and `-._~`, like Python's `quote(text, safe="")`.
pub(in crate::server) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn other_characters_are_written_as_their_bytes() {
        assert_eq!(encoded("/a b/ü~"), "%2Fa%20b%2F%C3%BC~");
    }
}
