//! Converts the names of keys into the bytes that they send.

/// Returns the bytes of a named key or of `C-x`. `None` for any other text.
///
/// Names are not case-sensitive. Source: the reference's terminal tool.
pub(super) fn key(text: &str) -> Option<Vec<u8>> {
    let name = text.trim().to_ascii_uppercase();
    let bytes: &[u8] = match name.as_str() {
        "ENTER" => b"\n",
        "TAB" => b"\t",
        "BS" => b"\x7f",
        "ESC" => b"\x1b",
        "UP" => b"\x1b[A",
        "DOWN" => b"\x1b[B",
        "RIGHT" => b"\x1b[C",
        "LEFT" => b"\x1b[D",
        "HOME" => b"\x1b[H",
        "END" => b"\x1b[F",
        "PGUP" => b"\x1b[5~",
        "PGDN" => b"\x1b[6~",
        _ => {
            let letter = ["C-", "CTRL-", "CTRL+"].iter().find_map(|mark| name.strip_prefix(mark))?;
            return match letter.as_bytes() {
                [letter @ b'A'..=b'Z'] => Some(vec![letter & 0x1f]),
                _ => None,
            };
        }
    };
    Some(bytes.to_vec())
}

/// Returns the letter of a text like `C-c`. `None` for any other text.
pub(super) fn control_letter(text: &str) -> Option<char> {
    let mut letters = text.trim().strip_prefix("C-")?.chars();
    letters.next().filter(|_| letters.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names() {
        assert_eq!(key("C-c"), Some(vec![3]));
        assert_eq!(key(" ctrl+D "), Some(vec![4]));
        assert_eq!(key("up"), Some(b"\x1b[A".to_vec()));
        assert_eq!((key("C-1"), key("C-cc"), key("ls")), (None, None, None));
        assert_eq!(
            (control_letter("C-c"), control_letter("C-cc"), control_letter("c")),
            (Some('c'), None, None)
        );
    }
}
