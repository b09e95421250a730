//! Texts as headers can bear them.

/// A text with everything but letters, digits and `-._~` as `%XX`, the way Python's `quote(text, safe="")` has it.
pub(super) fn encoded(text: &str) -> String {
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
    fn what_is_no_letter_is_written_as_its_bytes() {
        assert_eq!(encoded("/a b/ü~"), "%2Fa%20b%2F%C3%BC~");
    }
}
