//! Hides known secret values in a text, which comes whole or in pieces.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};

/// The text that replaces a value in the output of tools and the messages of agents.
pub const HIDDEN: &str = "<secret-hidden>";

/// Replaces every known value by [`HIDDEN`]. If two values begin at the same place, the longer one is replaced.
#[derive(Clone, Default)]
pub struct Mask {
    values: Values,
    /// The length of the longest value, in bytes.
    longest: usize,
}

#[derive(Clone, Default)]
enum Values {
    #[default]
    None,
    Known(AhoCorasick),
    /// There are values that cannot be searched for, so every text is hidden whole.
    Unsearchable,
}

impl Mask {
    /// Makes a mask of these values. Empty values are ignored.
    #[must_use]
    pub fn new<'v>(values: impl IntoIterator<Item = &'v str>) -> Self {
        let values: Vec<&str> = values.into_iter().filter(|value| !value.is_empty()).collect();
        let longest = values.iter().map(|value| value.len()).max().unwrap_or_default();
        if values.is_empty() {
            return Self::default();
        }
        // This fails only if the values together take gigabytes.
        let matcher = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&values);
        Self { values: matcher.map_or(Values::Unsearchable, Values::Known), longest }
    }

    /// Returns the text with the values hidden.
    #[must_use]
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.values {
            Values::Known(values) if values.is_match(text) => {
                let mut out = String::with_capacity(text.len());
                values.replace_all_with(text, &mut out, |_, _, out| {
                    out.push_str(HIDDEN);
                    true
                });
                Cow::Owned(out)
            }
            Values::Unsearchable if !text.is_empty() => Cow::Borrowed(HIDDEN),
            Values::None | Values::Known(_) | Values::Unsearchable => Cow::Borrowed(text),
        }
    }

    /// Returns the length of the longest value, in bytes; 0 if there are no values.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.longest
    }

    /// Makes a mask for one text that comes in pieces.
    #[must_use]
    pub fn stream(&self) -> StreamMask {
        StreamMask { mask: self.clone(), held: String::new(), is_hidden: false }
    }
}

/// Masks a text that comes in pieces. Text at the end that could be the beginning of a value is held back.
pub struct StreamMask {
    mask: Mask,
    held: String,
    /// Whether the whole text is hidden and [`HIDDEN`] was shown for it.
    is_hidden: bool,
}

impl StreamMask {
    /// Adds a piece. Returns the masked text that can be shown now.
    pub fn feed(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let keep = self.mask.longest.saturating_sub(1);
        let mut cut = self.held.len().saturating_sub(keep);
        while !self.held.is_char_boundary(cut) {
            cut -= 1;
        }
        self.release(cut)
    }

    /// Ends the text. Returns the masked text that was held back.
    pub fn finish(mut self) -> String {
        self.release(self.held.len())
    }

    /// Returns the masked text before `cut`, including the whole of a value that begins before `cut`.
    fn release(&mut self, cut: usize) -> String {
        let values = match &self.mask.values {
            Values::None => return std::mem::take(&mut self.held),
            Values::Known(values) => values,
            Values::Unsearchable => {
                let is_first = !self.held.is_empty() && !self.is_hidden;
                self.is_hidden |= is_first;
                self.held.clear();
                return if is_first { HIDDEN.to_owned() } else { String::new() };
            }
        };
        let (mut out, mut done, mut end) = (String::new(), 0, cut);
        for found in values.find_iter(&self.held).take_while(|found| found.start() < cut) {
            out.push_str(&self.held[done..found.start()]);
            out.push_str(HIDDEN);
            done = found.end();
            end = end.max(done);
        }
        out.push_str(&self.held[done..end]);
        self.held.drain(..end);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_longer_of_two_values_is_taken() {
        let mask = Mask::new(["abc", "abcdef", ""]);
        assert_eq!(mask.apply("xabcdefx abc"), "x<secret-hidden>x <secret-hidden>");
        assert_eq!(Mask::default().apply("abc"), "abc");
        let mut stream = Mask::new(["é"]).stream();
        assert_eq!((stream.feed("aé"), stream.finish()), ("a".to_owned(), HIDDEN.to_owned()));
    }

    #[test]
    fn a_mask_whose_values_cannot_be_searched_for_hides_everything() {
        let mask = Mask { values: Values::Unsearchable, longest: 3 };
        assert_eq!([mask.apply("any text"), mask.apply("x"), mask.apply("")], [HIDDEN, HIDDEN, ""]);
        let mut stream = mask.stream();
        let shown = ["", "any ", "text", " and more"].map(|piece| stream.feed(piece));
        assert_eq!((shown.concat(), stream.finish()), (HIDDEN.to_owned(), String::new()));
        assert_eq!(mask.stream().finish(), "");
    }

    proptest! {
        #[test]
        fn pieces_are_masked_as_the_whole(text in "[abé]{0,40}", cuts in prop::collection::vec(0..40usize, 0..6)) {
            let mask = Mask::new(["ab", "aba", "éé", "bbbb"]);
            let mut stream = mask.stream();
            let mut places: Vec<usize> =
                cuts.into_iter().map(|cut| cut.min(text.len())).filter(|cut| text.is_char_boundary(*cut)).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let mut out = String::new();
            for pair in places.windows(2) {
                let shown = stream.feed(&text[pair[0]..pair[1]]);
                out.push_str(&shown);
            }
            out.push_str(&stream.finish());
            prop_assert_eq!(out, mask.apply(&text));
        }
    }
}
