//! The characters of a JSON string.

use std::borrow::Cow;

/// Resolves the escapes of the inner characters of a string. Text that was not checked keeps what it has of an escape.
pub(super) fn decode(inner: &str) -> Cow<'_, str> {
    if !inner.as_bytes().contains(&b'\\') {
        return Cow::Borrowed(inner);
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(backslash) = rest.find('\\') {
        out.push_str(&rest[..backslash]);
        let mut after = rest[backslash + 1..].chars();
        let escape = after.next();
        rest = after.as_str();
        match escape.unwrap_or('\\') {
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => {
                let (character, used) = unicode(rest.as_bytes());
                out.push(character);
                rest = rest.get(used..).unwrap_or_default();
            }
            other => out.push(other),
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The character of a checked `\u` escape, and the number of bytes that it used. `digits` begins with its digits.
fn unicode(digits: &[u8]) -> (char, usize) {
    let high = hex4(digits).unwrap_or(0xfffd);
    if (0xd800..0xdc00).contains(&high) {
        let low = digits.get(6..).and_then(hex4).unwrap_or(0xdc00);
        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff);
        return (char::from_u32(code).unwrap_or('\u{fffd}'), 10);
    }
    (char::from_u32(high).unwrap_or('\u{fffd}'), 4)
}

/// Returns the number of the four hexadecimal digits at the beginning. `None` without them.
pub(super) fn hex4(digits: &[u8]) -> Option<u32> {
    let mut code = 0;
    for digit in digits.get(..4)? {
        code = code * 16 + char::from(*digit).to_digit(16)?;
    }
    Some(code)
}
