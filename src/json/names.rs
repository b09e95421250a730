//! Notices a member that is named twice in one object.
//!
//! Readers of JSON differ in which of the two they take: SQLite's `json_extract` takes the first, Python and this crate the
//! last. What a person audits would not be what ran.

use std::borrow::Cow;

/// Objects with more members than this are sorted by name. The others are compared name by name.
const PAIRS_MAX: usize = 16;

/// The names of the members of an object, and of the objects around it. 16 bytes for each.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Name>);

/// One name: a number that equal names have in common, and the name's first byte in the text.
#[derive(Debug, Clone, Copy)]
struct Name {
    mark: u64,
    at: u32,
}

impl Names {
    /// The number of names. An object begins there.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a name that begins at a byte. A name behind the first 4 GiB of a text is left out.
    pub(super) fn add(&mut self, at: usize, name: &str) {
        if let Ok(at) = u32::try_from(at) {
            self.0.push(Name { mark: mark(name.as_bytes()), at });
        }
    }

    /// Takes the names of an object away, which are those from `base` on. Returns where one stands that was there before.
    /// `read` returns the name that begins at a byte.
    pub(super) fn end<'a>(&mut self, base: usize, read: impl Fn(usize) -> Cow<'a, str>) -> Option<usize> {
        let names = self.0.get_mut(base..).unwrap_or_default();
        let read = |name: &Name| read(name.at as usize);
        let found = if names.len() <= PAIRS_MAX {
            let same = |one: &Name, other: &Name| one.mark == other.mark && read(one) == read(other);
            let is_again = |index: &usize| names[..*index].iter().any(|before| same(before, &names[*index]));
            (1..names.len()).find(is_again).map(|index| names[index].at)
        } else {
            names.sort_unstable_by(|one, other| {
                one.mark.cmp(&other.mark).then_with(|| match one.at == other.at {
                    true => std::cmp::Ordering::Equal,
                    false => read(one).cmp(&read(other)).then(one.at.cmp(&other.at)),
                })
            });
            let pairs = names.windows(2);
            let again = pairs.filter(|pair| pair[0].mark == pair[1].mark && read(&pair[0]) == read(&pair[1]));
            again.map(|pair| pair[1].at).min()
        };
        self.0.truncate(base);
        found.map(|at| at as usize)
    }
}

/// Returns a number of the beginning, the end and the length of a name.
fn mark(name: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        let count = bytes.len().min(8);
        word[..count].copy_from_slice(&bytes[..count]);
        u64::from_le_bytes(word)
    };
    let end = &name[name.len().saturating_sub(8)..];
    (word(name) ^ (name.len() as u64).rotate_left(56)).wrapping_mul(ODD) ^ word(end)
}

#[cfg(test)]
mod tests {
    use crate::json::scan_names;

    fn again(text: &str) -> Option<usize> {
        scan_names(text, |_, _| ()).unwrap().repeated
    }

    #[test]
    fn a_member_that_is_named_twice_is_found_at_every_depth() {
        assert_eq!(again(r#"{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}"#), None);
        assert_eq!(again(r#"{"a":1,"a":1}"#), Some(7));
        assert_eq!(again(r#"{"x":[{"action":{"command":1,"is":2,"comm\u0061nd":3}}]}"#), Some(36));
        assert_eq!(again(r#"{"":1,"":2}"#), Some(6));
        // Names that have their beginning, end and length in common.
        assert_eq!(again(r#"{"12345678_a_12345678":1,"12345678_b_12345678":1}"#), None);
    }

    #[test]
    fn many_members_are_found_as_few_are() {
        for count in 1..60 {
            let names: Vec<String> =
                (0..count).map(|n| format!("\"12345678_{n:03}_12345678\":{n}")).collect();
            assert_eq!(again(&format!("{{{}}}", names.join(","))), None);
            for again_of in 0..count {
                let text = format!("{{{},\"12345678_{again_of:03}_12345678\":0}}", names.join(","));
                let at = text.rfind("\"12345678").unwrap();
                assert_eq!(again(&text), Some(at), "{text}");
            }
        }
    }
}
