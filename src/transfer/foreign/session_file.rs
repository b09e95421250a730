//! Reads the new lines of a session file, and the folder beside it.

use std::collections::HashSet;
use std::path::Path;

use super::importer::{ForeignImporter, Lines};
use super::kept::{self, KeptRecord};
use super::lines::{self, Content, Line};
use super::translation::{self, About, Arriving, Translation, Translator};
use super::{Read, recognise, records};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::event::foreign::Record;
use crate::ids::Sequence;
use crate::json::Raw;
use crate::store::{ArrivingFile, Container, Glue, Problem};
use crate::transfer::container::TornTail;
use crate::transfer::folder::{self, Listing};
use crate::transfer::import::{CONFLICT, Intake};
use crate::transfer::layout;

/// The number of lines that are read to find a conversation's id.
const PEEK_LINES: usize = 8;

/// A session file.
pub(super) struct SessionFile<'a> {
    pub path: &'a Path,
    /// Its name, without its folder.
    pub name: &'a str,
    pub importer: &'static ForeignImporter,
    pub lines: &'static Lines,
}

impl SessionFile<'_> {
    fn stem(&self) -> &str {
        self.name.rsplit_once('.').map_or(self.name, |(stem, _)| stem)
    }

    /// Returns what its first lines say about the conversation, and the first line's digest.
    pub(super) fn peek(&self) -> Result<(About, Option<Digest>)> {
        let mut translator = (self.importer.translator)();
        let (mut first, mut seen) = (None, 0);
        lines::read(self.path, &mut |line| {
            let digest = digest(&line.content);
            first.get_or_insert(digest);
            self.translate(translator.as_mut(), &line, digest, None);
            seen += 1;
            Ok(seen < PEEK_LINES)
        })?;
        Ok((translator.about(self.stem()), first))
    }

    /// Compares the lines of the file with the stored records and passes on the new ones. Returns the first difference if
    /// there is one.
    pub(super) fn read(
        &self,
        intake: &mut Intake<'_>,
        on_record: &mut dyn FnMut(u64),
    ) -> Result<std::result::Result<Read, Problem>> {
        let mut translator = (self.importer.translator)();
        let mut files = Vec::new();
        let mut tail: Option<(String, Option<ArrivingFile>)> = None;
        let mut conflict: Option<Problem> = None;
        let rest = lines::read(self.path, &mut |line| {
            on_record(line.bytes());
            let digest = digest(&line.content);
            let known = kept::next(&mut intake.stored)?;
            if !line.is_ended && !is_object(&line.content) {
                conflict = known.map(|known| self.differs(&line, &known));
                let keeps = intake.tail == TornTail::Keep;
                let kept = keeps.then(|| self.slice(&line, digest, "tail", TORN)).transpose()?;
                tail = Some((line.before.clone(), kept));
                return Ok(false);
            }
            let stored = known.as_ref().map(KeptRecord::stored);
            let translation = self.translate(translator.as_mut(), &line, digest, stored);
            let arriving = self.arriving(&line, digest, stored);
            if let Some(known) = known {
                match known.place.as_ref() {
                    Some(place) if place.digest != digest => {
                        conflict = Some(self.differs(&line, &known));
                        return Ok(false);
                    }
                    Some(place) if matches!(place.record, Some(Record::Attached(_))) => {
                        files.push(self.slice(&line, digest, &format!("line-{}", line.number), LONG)?);
                    }
                    // A redaction leaves the attachment. The event does not name it any more.
                    None if matches!(line.content, Content::Long { .. }) => {
                        files.push(self.slice(&line, digest, &format!("line-{}", line.number), LONG)?);
                    }
                    _ => {}
                }
                records::count(intake, &arriving, &translation.when_stored(known.is_unread));
                intake.count_matched(known.events);
                intake.problems.extend(known.problems);
                return Ok(true);
            }
            let encoded = match &line.content {
                Content::Bytes(_) => translation::encode(&arriving, &translation),
                Content::Long { .. } => translation::attached(&arriving, &translation),
            };
            if encoded.attachment.is_some() {
                files.push(self.slice(&line, digest, &format!("line-{}", line.number), LONG)?);
            }
            records::count(intake, &arriving, &translation.when_stored(encoded.is_unread));
            records::take(intake, encoded).map(|()| true)
        })?;
        if let Some(conflict) = conflict {
            return Ok(Err(conflict));
        }
        if let Some(more) = kept::next(&mut intake.stored)? {
            let problem = format!(
                "it has {} records, but record {} and the following ones were imported from it before",
                intake.counts.records,
                intake.counts.records + 1
            );
            return Ok(Err(conflict_at(self.name.to_owned(), &problem, more.sequence)));
        }
        let suffix = match tail {
            Some((before, None)) => before,
            Some((before, Some(tail))) => {
                let action = "kept as an attachment until its line is whole";
                intake.tell(tail.path.clone(), TORN.into(), action);
                files.push(tail);
                before
            }
            None => rest,
        };
        Ok(Ok(Read {
            files,
            about: translator.about(self.stem()),
            container: Some(Container {
                file: self.name.to_owned(),
                glue: Some(Glue { prefix: String::new(), separator: "\n".into(), suffix }),
            }),
        }))
    }

    fn translate(
        &self,
        translator: &mut dyn Translator,
        line: &Line,
        digest: Digest,
        stored: Option<u64>,
    ) -> Translation {
        let Content::Bytes(bytes) = &line.content else {
            return Translation::damaged("long", "the line is longer than an event may be");
        };
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Translation::damaged("line", "the line is not UTF-8");
        };
        match Raw::parse(text) {
            Ok(raw) if raw.is_object() => translator.translate(&self.arriving(line, digest, stored), raw),
            Ok(_) => Translation::damaged("line", "the line is no JSON object"),
            Err(fault) => Translation::damaged("line", format!("the line is not JSON: {fault}")),
        }
    }

    fn arriving<'l>(&'l self, line: &'l Line, digest: Digest, stored: Option<u64>) -> Arriving<'l> {
        let usual = if line.number == 1 { "" } else { "\n" };
        Arriving {
            format: self.importer.format,
            file: self.name,
            table: None,
            place: line.number.cast_signed(),
            before: Some(line.before.as_str()).filter(|before| *before != usual),
            bytes: match &line.content {
                Content::Bytes(bytes) => bytes,
                Content::Long { .. } => &[],
            },
            digest,
            stored,
        }
    }

    /// Returns a line's content as an attachment.
    ///
    /// # Errors
    /// [`Error::Io`] if the file is compressed: the content is nowhere in it.
    fn slice(&self, line: &Line, digest: Digest, name: &str, reason: &str) -> Result<ArrivingFile> {
        if line.is_packed {
            let source =
                std::io::Error::other(format!("line {}: {reason}; unpack the file first", line.number));
            return Err(Error::Io { doing: "reading", path: self.path.to_owned(), source });
        }
        Ok(ArrivingFile {
            path: format!("{}.{name}", self.name),
            from: self.path.to_owned(),
            offset: Some(line.offset),
            bytes: line.bytes(),
            digest,
            reason: Some(reason.to_owned()),
        })
    }

    fn differs(&self, line: &Line, known: &KeptRecord) -> Problem {
        let problem = format!("it is not what was imported as event {}", known.id);
        conflict_at(format!("{} line {}", self.name, line.number), &problem, known.sequence)
    }

    /// Returns the content of the folder beside a session. Claude Code keeps long results of tools there.
    pub(super) fn beside(&self) -> Result<Beside> {
        let beside = self.path.with_extension("");
        if !self.lines.has_folder || beside == self.path {
            return Ok(Beside::default());
        }
        if beside.is_symlink() {
            let problem = folder::linked(self.stem().to_owned());
            return Ok(Beside { problems: vec![problem], ..Beside::default() });
        }
        if !folder::is_own_folder(&beside) {
            return Ok(Beside::default());
        }
        let Listing { others, empty_folders, mut problems, .. } =
            folder::list(&beside, None, &HashSet::new())?;
        let (mut files, mut logs) = (Vec::new(), HashSet::new());
        for path in others {
            // A sub-agent's log is a conversation of its own.
            let is_log = path.starts_with(layout::SUBAGENTS)
                && recognise::look(&beside.join(&path)) == recognise::Looks::Lines(self.importer.format);
            if is_log {
                logs.insert(format!("{}/{path}", self.stem()));
            } else {
                files.extend(folder::measure_or_leave_out(&beside, &path, None, &mut problems)?);
            }
        }
        for path in &empty_folders {
            files.push(folder::measure(&beside, path, None)?);
        }
        for file in &mut files {
            file.path = format!("{}/{}", self.stem(), file.path);
        }
        for problem in &mut problems {
            problem.path = format!("{}/{}", self.stem(), problem.path);
        }
        Ok(Beside { files, logs, problems })
    }
}

/// The content of the folder beside a session.
#[derive(Default)]
pub(super) struct Beside {
    pub files: Vec<ArrivingFile>,
    /// The paths of the files that are conversations of their own.
    pub logs: HashSet<String>,
    /// What is wrong with the folder.
    pub problems: Vec<Problem>,
}

const TORN: &str = "the last line is not whole: its writer may not be done";
const LONG: &str = "the line is longer than an event may be";

/// Returns the problem that a stored record differs from the file.
fn conflict_at(path: String, problem: &str, sequence: Sequence) -> Problem {
    Problem { path, problem: format!("{problem} (sequence {sequence})"), action: CONFLICT.into() }
}

fn digest(content: &Content) -> Digest {
    match content {
        Content::Bytes(bytes) => Digest::of(bytes),
        Content::Long { digest, .. } => *digest,
    }
}

/// Returns whether the content is a complete JSON object.
fn is_object(content: &Content) -> bool {
    match content {
        Content::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes).ok();
            text.is_some_and(|text| Raw::parse(text).is_ok_and(Raw::is_object))
        }
        Content::Long { .. } => false,
    }
}
