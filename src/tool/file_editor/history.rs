//! Keeps the content of files from before they were edited.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// The number of texts that are kept of one file.
const OF_ONE_FILE_MAX: usize = 10;

/// The limit of all kept texts together, in bytes. The oldest text is removed first.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The texts of files before their edits, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    texts: VecDeque<(PathBuf, String)>,
    bytes: usize,
}

impl History {
    /// Keeps the content of a file.
    pub fn push(&mut self, path: &Path, text: String) {
        let of_file = |(known, _): &(PathBuf, String)| known == path;
        if self.texts.iter().filter(|text| of_file(text)).count() == OF_ONE_FILE_MAX
            && let Some(oldest) = self.texts.iter().position(of_file)
        {
            self.remove(oldest);
        }
        self.bytes += text.len();
        self.texts.push_back((path.to_owned(), text));
        while self.bytes > BYTES_MAX && self.texts.len() > 1 {
            self.remove(0);
        }
    }

    /// Removes and returns the content of the file before its last edit. `None` if no edit is kept.
    pub fn pop(&mut self, path: &Path) -> Option<String> {
        let last = self.texts.iter().rposition(|(known, _)| known == path)?;
        self.remove(last)
    }

    fn remove(&mut self, at: usize) -> Option<String> {
        let (_, text) = self.texts.remove(at)?;
        self.bytes -= text.len();
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_texts_of_a_file_are_kept() {
        let mut history = History::default();
        for number in 0..12 {
            history.push(Path::new("/a"), number.to_string());
        }
        history.push(Path::new("/b"), "b".to_owned());
        let kept: Vec<String> = std::iter::from_fn(|| history.pop(Path::new("/a"))).collect();
        assert_eq!(kept, ["11", "10", "9", "8", "7", "6", "5", "4", "3", "2"]);
        assert_eq!((history.pop(Path::new("/b")), history.bytes), (Some("b".to_owned()), 0));
    }

    #[test]
    fn all_texts_together_are_bounded() {
        let mut history = History::default();
        for number in 0..5 {
            history.push(&PathBuf::from(format!("/{number}")), "x".repeat(BYTES_MAX / 3));
        }
        assert_eq!(history.texts.len(), 3);
        assert_eq!((history.pop(Path::new("/1")), history.pop(Path::new("/2")).is_some()), (None, true));
    }
}
