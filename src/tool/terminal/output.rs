//! Keeps the output that a command printed since the model last saw it: both ends in memory, the whole in a file.
//!
//! Secrets are masked as the text arrives, so that neither the file nor a clipped text shows any part of a secret.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::message::{clip, clip_saved};
use crate::secret::{Mask, StreamMask};

/// The number of characters that are kept from the beginning. A shorter text is kept whole.
pub(super) const HEAD_CHARACTERS: usize = 30_000;

/// The number of characters that are kept from the end of a longer text.
const TAIL_CHARACTERS: usize = 16_000;

/// The output since the last [`Output::take`].
pub(super) struct Output {
    /// The number of bytes that are accepted until the output is taken. A program that prints more has to wait.
    bytes_max: u64,
    mask: Option<Mask>,
    stream: Option<StreamMask>,
    folder: Option<PathBuf>,
    head: String,
    head_characters: usize,
    tail: VecDeque<String>,
    tail_characters: usize,
    characters: u64,
    bytes: u64,
    spill: Option<Spill>,
}

impl Output {
    /// Makes an empty output that accepts `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            mask: None,
            stream: None,
            folder: None,
            head: String::new(),
            head_characters: 0,
            tail: VecDeque::new(),
            tail_characters: 0,
            characters: 0,
            bytes: 0,
            spill: None,
        }
    }

    /// Sets the mask, and the folder in which a long output is kept whole. Without a mask, no file is written.
    pub fn direct(&mut self, mask: Option<Mask>, folder: Option<PathBuf>) {
        self.folder = folder.filter(|_| mask.is_some());
        self.stream = mask.as_ref().map(Mask::stream);
        self.mask = mask;
    }

    /// Returns whether no more should be added until the output is taken.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    pub fn push(&mut self, text: &str) {
        match &mut self.stream {
            Some(stream) => {
                let shown = stream.feed(text);
                self.keep(&shown);
            }
            None => self.keep(text),
        }
    }

    fn keep(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let count = text.chars().count();
        self.bytes += text.len() as u64;
        self.characters += count as u64;
        let room = HEAD_CHARACTERS - self.head_characters;
        let cut = if count <= room { text.len() } else { at_character(text, room) };
        let (head, rest) = text.split_at(cut);
        self.head.push_str(head);
        self.head_characters += count.min(room);
        if rest.is_empty() {
            return;
        }
        if self.spill.is_none()
            && let Some(folder) = &self.folder
        {
            // If no file can be made, the middle of the output is lost and the model gets no file name.
            self.spill = Spill::begin(folder, &self.head).ok();
        }
        if self.spill.as_mut().is_some_and(|spill| spill.write(rest).is_err()) {
            self.spill = None;
            self.folder = None;
        }
        self.keep_tail(rest, count - count.min(room));
    }

    fn keep_tail(&mut self, text: &str, count: usize) {
        let skipped = count.saturating_sub(TAIL_CHARACTERS);
        self.tail.push_back(text[at_character(text, skipped)..].to_owned());
        self.tail_characters += count - skipped;
        while let Some(first) = self.tail.front() {
            let first_count = first.chars().count();
            if self.tail_characters - first_count < TAIL_CHARACTERS {
                break;
            }
            self.tail_characters -= first_count;
            self.tail.pop_front();
        }
    }

    /// Forgets the output.
    pub fn discard(&mut self) {
        let (mask, folder) = (self.mask.take(), self.folder.take());
        if let Some(spill) = self.spill.take() {
            spill.remove();
        }
        *self = Self::new(self.bytes_max);
        self.direct(mask, folder);
    }

    /// Returns the output and clears it. If it is longer than `characters_max` characters, its middle is left out.
    pub fn take(&mut self, characters_max: usize) -> String {
        if let Some(stream) = self.stream.take() {
            let rest = stream.finish();
            self.keep(&rest);
        }
        let whole = self.characters == self.head_characters as u64;
        let mut text = std::mem::take(&mut self.head);
        if !whole {
            // Text between head and tail may be missing. This does no harm: the text is longer than what is shown, and
            // the clipping removes its middle.
            text.extend(self.tail.drain(..));
        }
        let mut length = text.trim_end_matches(super::is_space).len();
        if !whole && text[length..].chars().count() > TAIL_CHARACTERS / 64 {
            // This much white space counts as output. Without it, the shown end would not be the real end.
            length = text.len();
        }
        let spill = self.spill.take();
        let file = if whole && text[..length].chars().count() > characters_max {
            self.folder.as_ref().and_then(|folder| Spill::begin(folder, &text).ok()).and_then(Spill::end)
        } else {
            spill.and_then(Spill::end)
        };
        text.truncate(length);
        let file = file.as_deref().and_then(Path::to_str);
        let shown = match file {
            Some(file) => clip_saved(&text, characters_max, file),
            None => clip(&text, characters_max, crate::message::CLIPPED),
        };
        let shown = shown.into_owned();
        self.discard();
        shown
    }
}

/// Returns the byte offset of the character with this number.
fn at_character(text: &str, number: usize) -> usize {
    text.char_indices().nth(number).map_or(text.len(), |(at, _)| at)
}

/// A file with the whole output.
struct Spill {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    digest: Sha256,
}

impl Spill {
    fn begin(folder: &Path, text: &str) -> std::io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!(".terminal_output_{}.tmp", uuid::Uuid::new_v4().simple()));
        let file = File::create_new(&path)?;
        let mut spill = Self { folder: folder.to_owned(), path, file, digest: Sha256::new() };
        spill.write(text)?;
        Ok(spill)
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.digest.update(text.as_bytes());
        self.file.write_all(text.as_bytes())
    }

    fn remove(self) {
        // If the file cannot be removed, it stays. No text refers to it.
        drop(fs::remove_file(&self.path));
    }

    /// Gives the file its final name, which contains a digest of its content. `None` if that fails.
    fn end(self) -> Option<PathBuf> {
        let digest: String =
            self.digest.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let path = self.folder.join(format!("terminal_output_{digest}.txt"));
        fs::rename(&self.path, &path).ok().map(|()| path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_output_is_whole_and_without_white_space_at_its_end() {
        let mut output = Output::new(1 << 20);
        output.push("  a\n");
        output.push("b \n\n");
        assert_eq!(output.take(HEAD_CHARACTERS), "  a\nb");
        assert_eq!(output.take(HEAD_CHARACTERS), "");
    }

    #[test]
    fn a_long_output_keeps_both_ends_and_is_whole_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::new(1 << 20);
        output.direct(Some(Mask::new(["hunter2"])), Some(folder.path().join("observations")));
        let mut whole = String::new();
        for number in 0..20_000 {
            let line = format!("line {number} ü hunter2\n");
            // The secret is split between two pieces.
            output.push(&line[..line.len() - 4]);
            output.push(&line[line.len() - 4..]);
            whole.push_str(&line.replace("hunter2", "<secret-hidden>"));
        }
        let shown = output.take(29_000);
        assert_eq!(shown.chars().count(), 29_000);
        assert!(shown.starts_with("line 0 ü <secret-hidden>\nline 1 "));
        assert!(shown.ends_with("line 19999 ü <secret-hidden>"), "{}", &shown[shown.len() - 50..]);
        let file = shown.split("saved to ").nth(1).unwrap().split(" - you").next().unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), whole);
        let name = Path::new(file).file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("terminal_output_") && name.len() == "terminal_output_12345678.txt".len());
        assert_eq!(fs::read_dir(folder.path().join("observations")).unwrap().count(), 1);
        output.push("next");
        assert_eq!(output.take(29_000), "next");
    }

    #[test]
    fn an_output_that_is_only_too_long_to_be_shown_is_kept_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::new(1 << 20);
        output.direct(Some(Mask::default()), Some(folder.path().to_owned()));
        output.push(&"x".repeat(29_500));
        let shown = output.take(29_000);
        assert!(shown.contains("<response clipped>") && shown.contains("saved to "), "{}", &shown[..200]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn memory_is_bounded_even_if_the_folder_cannot_be_made() {
        let mut output = Output::new(1 << 20);
        output.direct(Some(Mask::default()), Some(PathBuf::from("/dev/null/no")));
        for _ in 0..3000 {
            output.push(&"é".repeat(50));
        }
        assert!(output.head.len() + output.tail.iter().map(String::len).sum::<usize>() < 100_000);
        assert!(!output.is_full());
        let shown = output.take(HEAD_CHARACTERS);
        assert!(shown.contains("part of the full response has been shown to you.</NOTE>"));
        assert_eq!(shown.chars().count(), HEAD_CHARACTERS);
    }
}
