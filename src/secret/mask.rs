//! Taking known values out of a text, whole or as it comes in pieces.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};

/// What stands where a value was, in what a tool printed or an agent said.
pub const HIDDEN: &str = "<secret-hidden>";

/// Replaces every known value by [`HIDDEN`]. Where two overlap the longer one is taken.
#[derive(Clone, Default)]
pub struct Mask {
    values: Option<AhoCorasick>,
    /// Of the longest value, in bytes.
    longest: usize,
}

impl Mask {
    /// A mask of these values; empty ones count for nothing.
    #[must_use]
    pub fn new<'v>(values: impl IntoIterator<Item = &'v str>) -> Self {
        let values: Vec<&str> = values.into_iter().filter(|value| !value.is_empty()).collect();
        let longest = values.iter().map(|value| value.len()).max().unwrap_or_default();
        let matcher = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&values);
        // It fails only where the values together are of gigabytes; then nothing is shown at all.
        let values = (!values.is_empty()).then(|| {
            matcher.unwrap_or_else(|_| AhoCorasick::new([""]).expect("one empty pattern always builds"))
        });
        Self { values, longest }
    }

    /// The text without the values.
    #[must_use]
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.values {
            Some(values) if values.is_match(text) => {
                let mut out = String::with_capacity(text.len());
                values.replace_all_with(text, &mut out, |_, _, out| {
                    out.push_str(HIDDEN);
                    true
                });
                Cow::Owned(out)
            }
            Some(_) | None => Cow::Borrowed(text),
        }
    }

    /// The length of the longest value, in bytes; 0 where there is none.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.longest
    }

    /// A mask for one text that comes in pieces.
    #[must_use]
    pub fn stream(&self) -> StreamMask {
        StreamMask { mask: self.clone(), held: String::new() }
    }
}

/// Masks a text that comes in pieces: what could still become a value is held back.
pub struct StreamMask {
    mask: Mask,
    held: String,
}

impl StreamMask {
    /// What may be shown now that this piece has come.
    pub fn feed(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let keep = self.mask.longest.saturating_sub(1);
        let mut cut = self.held.len().saturating_sub(keep);
        while !self.held.is_char_boundary(cut) {
            cut -= 1;
        }
        self.release(cut)
    }

    /// What was held back; nothing more comes.
    pub fn finish(mut self) -> String {
        self.release(self.held.len())
    }

    /// Shows everything before `cut`, and a value that begins before it to its end.
    fn release(&mut self, cut: usize) -> String {
        let Some(values) = &self.mask.values else { return std::mem::take(&mut self.held) };
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
