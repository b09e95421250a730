//! Percent-encoding of texts for headers.

/// Returns a text with `%XX` for everything except letters, digits and `-._~`, like Python's `quote(text, safe="")`.
pub(in crate::server) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn other_characters_are_written_as_their_bytes() {
        assert_eq!(encoded("/a b/ü~"), "%2Fa%20b%2F%C3%BC~");
    }
}
