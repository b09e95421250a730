//! Shows files and folders to the model.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::source::{self, Source};
use super::{Done, Refusal};
use crate::event::ImageContent;
use crate::event::message::Content;
use crate::message::clip;

/// The maximum number of characters of a file or a list that are shown.
const CHARACTERS_MAX: usize = 16_000;

/// The maximum number of entries that are read for one list, of a folder and its subfolders together.
const ENTRIES_MAX: usize = 100_000;

const FILE_CLIPPED: &str = "<response clipped><NOTE>Due to the max output limit, only part of this file has been \
                            shown to you. You should retry this tool after you have searched inside the file with \
                            `grep -n` in order to find the line numbers of what you are looking for.</NOTE>";

const FOLDER_CLIPPED: &str = "<response clipped><NOTE>Due to the max output limit, only part of this directory has \
                              been shown to you. You should use `ls -la` instead to view large directories \
                              incrementally.</NOTE>";

/// Returns the media type of a picture, by the extension of its name. `None` if it is no picture.
fn picture_type(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        "bmp" => Some("image/bmp"),
        _ => None,
    }
}

/// Shows a file, the requested lines of a file, or the entries of a folder.
pub(super) fn view(path: &Path, range: Option<&[i64]>) -> Result<Done, Refusal> {
    let range = range.filter(|range| !range.is_empty());
    if path.is_dir() {
        return match range {
            Some(range) => Err(Refusal::parameter(
                "view_range",
                &format!("{range:?}"),
                "The `view_range` parameter is not allowed when `path` points to a directory.",
            )),
            None => Ok(folder(path)),
        };
    }
    if let Some(media_type) = picture_type(path) {
        return picture(path, media_type);
    }
    let source = Source::read(path)?;
    let text = match range {
        Some(range) => ranged(path, &source.text, range)?,
        None => numbered(&source.text, &path.to_string_lossy(), 1),
    };
    Ok(Done::plain(text))
}

/// Returns the lines of a range, with a note if the range goes beyond the end.
fn ranged(path: &Path, text: &str, range: &[i64]) -> Result<String, Refusal> {
    let lines = line_count(text) as i64;
    let refused = |hint: &str| Refusal::parameter("view_range", &format!("{range:?}"), hint);
    let &[first, last] = range else {
        return Err(refused("It should be a list of two integers."));
    };
    if first < 1 || first > lines {
        return Err(refused(&format!(
            "Its first element `{first}` should be within the range of lines of the file: [1, {lines}]."
        )));
    }
    let end = if last == -1 || last > lines { lines } else { last };
    if end < first {
        return Err(refused(&format!(
            "Its second element `{end}` should be greater than or equal to the first element `{first}`."
        )));
    }
    let shown =
        numbered(&lines_between(text, first as usize, end as usize), &path.to_string_lossy(), first as usize);
    if last > lines {
        return Ok(format!(
            "NOTE: We only show up to {lines} since there're only {lines} lines in this file.\n{shown}"
        ));
    }
    Ok(shown)
}

/// Returns the number of lines of a text. The last line needs no line end.
pub(super) fn line_count(text: &str) -> usize {
    text.split_inclusive('\n').count()
}

/// Returns the lines from `first` to `last`, 1-based, both included.
pub(super) fn lines_between(text: &str, first: usize, last: usize) -> String {
    text.split_inclusive('\n').take(last).skip(first.saturating_sub(1)).collect()
}

/// Returns a text as `cat -n` shows it. `first` is the number of its first line.
pub(super) fn numbered(text: &str, of: &str, first: usize) -> String {
    let text = clip(text, CHARACTERS_MAX, FILE_CLIPPED);
    let mut out = format!("Here's the result of running `cat -n` on {of}:\n");
    for (number, line) in (first..).zip(text.split_inclusive('\n')) {
        out.push_str(&format!("{number:6}\t{}\n", line.strip_suffix('\n').unwrap_or(line)));
    }
    out
}

fn picture(path: &Path, media_type: &str) -> Result<Done, Refusal> {
    let bytes = source::read(path, Refusal::picture)?;
    let url = format!("data:{media_type};base64,{}", STANDARD.encode(bytes));
    let text = format!("Image file {} read successfully. Displaying image content.", path.display());
    let content = vec![Content::text(text), Content::Image(ImageContent::new(vec![url.into()]))];
    Ok(Done { content, is_error: false, edit: None })
}

fn folder(path: &Path) -> Done {
    match listed(path, ENTRIES_MAX) {
        Ok(list) => Done::plain(text(path, &list)),
        Err(error) => {
            let text = super::python_error(path, &error);
            Done { content: vec![Content::text(text)], is_error: true, edit: None }
        }
    }
}

/// Returns the text for the model, in the reference's words. The reference reads a folder to its end.
fn text(path: &Path, list: &Listed) -> String {
    let mut text = format!(
        "Here's the files and directories up to 2 levels deep in {}, excluding hidden items:\n{}",
        path.display(),
        list.entries.join("\n")
    );
    if list.hidden > 0 {
        text.push_str(&format!(
            "\n\n{} hidden files/directories in this directory are excluded. You can use 'ls -la {}' to see \
             them.",
            list.hidden,
            path.display()
        ));
    }
    if list.is_cut {
        text.push_str(&format!(
            "\n\nThis directory has too many entries: only {ENTRIES_MAX} were read, and the list and the number of \
             hidden items are not complete."
        ));
    }
    clip(&text, CHARACTERS_MAX, FOLDER_CLIPPED).into_owned()
}

/// The list of a folder.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    /// The folder, its entries and those of its subfolders, sorted, without hidden ones.
    entries: Vec<String>,
    /// The number of hidden entries of the folder.
    hidden: usize,
    /// Whether there are more entries than may be read.
    is_cut: bool,
}

/// Lists a folder and its subfolders. At most `entries_max` entries are read; the system decides which ones come first.
fn listed(path: &Path, entries_max: usize) -> io::Result<Listed> {
    let mut entries_left = entries_max;
    let own = names(path, &mut entries_left)?;
    let mut list = Listed { entries: vec![shown(path)], hidden: own.hidden, is_cut: own.is_cut };
    for name in own.names {
        let entry = path.join(name);
        list.entries.push(shown(&entry));
        // A folder that cannot be read is listed without its entries.
        if entry.is_dir()
            && let Ok(inner) = names(&entry, &mut entries_left)
        {
            list.entries.extend(inner.names.iter().map(|name| shown(&entry.join(name))));
            list.is_cut |= inner.is_cut;
        }
    }
    Ok(list)
}

/// The names of the entries of one folder.
struct Names {
    /// The names that are not hidden, sorted.
    names: Vec<OsString>,
    /// The number of hidden ones.
    hidden: usize,
    /// Whether there are more entries than may be read.
    is_cut: bool,
}

/// Reads the names of a folder's entries. Their number is subtracted from `entries_left`.
fn names(folder: &Path, entries_left: &mut usize) -> io::Result<Names> {
    let mut read = Names { names: Vec::new(), hidden: 0, is_cut: false };
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if *entries_left == 0 {
            read.is_cut = true;
            break;
        }
        *entries_left -= 1;
        if name.as_encoded_bytes().starts_with(b".") {
            read.hidden += 1;
        } else {
            read.names.push(name);
        }
    }
    read.names.sort();
    Ok(read)
}

fn shown(path: &Path) -> String {
    let slash = if path.is_dir() { "/" } else { "" };
    format!("{}{slash}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_to_its_bound_and_says_that_it_was_cut() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for name in ["a", "b"] {
            fs::create_dir(at(name)).unwrap();
        }
        for name in ["a/1", "a/.2", "b/3", ".hidden", "c"] {
            fs::write(at(name), "").unwrap();
        }
        let whole = listed(scratch.path(), 7).unwrap();
        let expected = ["", "a/", "a/1", "b/", "b/3", "c"];
        let folder = scratch.path().display();
        let expected: Vec<String> = expected
            .iter()
            .map(|name| if name.is_empty() { format!("{folder}/") } else { format!("{folder}/{name}") })
            .collect();
        assert_eq!(whole, Listed { entries: expected.clone(), hidden: 1, is_cut: false });
        for entries_max in 0..7 {
            let cut = listed(scratch.path(), entries_max).unwrap();
            assert!(cut.is_cut && cut.entries.len() <= entries_max + 1, "{entries_max}: {cut:?}");
            assert!(cut.entries.iter().all(|entry| expected.contains(entry)), "{cut:?}");
        }
        // The entries of the folder come before those of its subfolders.
        let own = listed(scratch.path(), 4).unwrap();
        assert_eq!((own.entries.len(), own.hidden), (4, 1));
    }

    #[test]
    fn only_a_list_that_was_cut_says_so() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("a"), "").unwrap();
        let path = scratch.path().to_owned();
        let list = |is_cut| text(&path, &Listed { entries: vec!["x".to_owned()], hidden: 0, is_cut });
        let plain = format!(
            "Here's the files and directories up to 2 levels deep in {}, excluding hidden items:\nx",
            path.display()
        );
        assert_eq!(list(false), plain);
        let added = "\n\nThis directory has too many entries: only 100000 were read, and the list and the number of \
                     hidden items are not complete.";
        assert_eq!(list(true), format!("{plain}{added}"));
        // The notice stays even if the list is too long to be shown.
        let long = Listed { entries: vec!["long".repeat(10); 1000], hidden: 0, is_cut: true };
        let shown = text(&path, &long);
        assert!(shown.contains(FOLDER_CLIPPED) && shown.ends_with(added), "{shown}");
    }
}
