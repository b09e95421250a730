//! Shows files and folders to the model.

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
    let (entries, hidden) = match listed(path) {
        Ok(listed) => listed,
        Err(error) => {
            let text = super::python_error(path, &error);
            return Done { content: vec![Content::text(text)], is_error: true, edit: None };
        }
    };
    let mut text = format!(
        "Here's the files and directories up to 2 levels deep in {}, excluding hidden items:\n{}",
        path.display(),
        entries.join("\n")
    );
    if hidden > 0 {
        text.push_str(&format!(
            "\n\n{hidden} hidden files/directories in this directory are excluded. You can use 'ls -la {}' to see \
             them.",
            path.display()
        ));
    }
    Done::plain(clip(&text, CHARACTERS_MAX, FOLDER_CLIPPED).into_owned())
}

/// Returns the entries of a folder and of its subfolders, sorted, and the number of hidden entries of the folder.
fn listed(path: &Path) -> io::Result<(Vec<String>, usize)> {
    let (names, hidden) = names(path)?;
    let mut entries = vec![shown(path)];
    for name in names {
        let entry = path.join(name);
        entries.push(shown(&entry));
        // A folder that cannot be read is listed without its entries.
        if let Some((inner, _)) = entry.is_dir().then(|| self::names(&entry).ok()).flatten() {
            entries.extend(inner.iter().map(|name| shown(&entry.join(name))));
        }
    }
    Ok((entries, hidden))
}

fn names(folder: &Path) -> io::Result<(Vec<std::ffi::OsString>, usize)> {
    let all = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    let mut all: Vec<_> = all.collect::<io::Result<_>>()?;
    let before = all.len();
    all.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    all.sort();
    let hidden = before - all.len();
    Ok((all, hidden))
}

fn shown(path: &Path) -> String {
    let slash = if path.is_dir() { "/" } else { "" };
    format!("{}{slash}", path.display())
}
