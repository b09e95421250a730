//! Finds files by their content.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ignore::overrides::Override;
use regex::bytes::{Regex, RegexBuilder};

use super::arguments::{Need, Of, Parameter};
use super::manual::{Effect, Manual};
use super::search::{Failure, Found, Search, TRUNCATED, folder, pattern};
use super::{Context, Making, Resources, Tool, ToolError, worker};
use crate::event::message::Content;
use crate::event::tool::{GrepAction, GrepObservation};
use crate::event::{Action, Extra, Observation, Text, ToolDefinition};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};
use crate::untrusted;

/// The number of bytes at the start of a file that are searched.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The number of bytes at the start of a file that decide whether it is text.
const SAMPLE_BYTES: usize = 8192;

const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "pattern",
        Of::Text,
        Need::Required,
        "The regular expression. Upper and lower case are the same.",
    ),
    Parameter::new(
        "path",
        Of::Text,
        Need::Nullable,
        "The directory to look in: an absolute path. Without it, the current working directory.",
    ),
    Parameter::new(
        "include",
        Of::Text,
        Need::Nullable,
        "Which files to look into, by their names, such as \"*.js\" or \"*.{ts,tsx}\".",
    ),
];

/// Finds files by their content.
pub struct Grep {
    manual: Manual,
    working_dir: PathBuf,
}

impl Grep {
    /// Makes a search in the workspace.
    #[must_use]
    pub fn new(making: &Making) -> Self {
        let description = format!(
            "Finds files by what they hold, fast.\n\
             * Takes regular expressions such as \"log.*Error\" or \"function\\s+\\w+\" (without look-around), upper \
             and lower case the same\n\
             * Looks only into files that `include` names, such as \"*.js\" or \"*.{{ts,tsx}}\"\n\
             * Answers paths, the most recently changed first\n\
             * Passes over hidden files, binary files and what .gitignore names\n\
             * Shows 100 files at most; take a narrower pattern or a `path` where that is not enough\n\n\
             Your current working directory is: {}\n\
             It is searched where you give no `path`.",
            making.working_dir.display()
        );
        Self {
            manual: Manual::new("GrepTool", Effect::Reads, description, PARAMETERS),
            working_dir: making.working_dir.clone(),
        }
    }
}

impl Tool for Grep {
    fn name(&self) -> &str {
        self.manual.name()
    }

    fn definition(&self) -> &ToolDefinition {
        self.manual.definition()
    }

    fn schema(&self) -> ToolSchema {
        self.manual.schema()
    }

    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError> {
        self.manual.action(arguments)
    }

    fn resources(&self, _: &Action) -> Resources {
        Resources::Keys(Vec::new())
    }

    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(async move {
            let Action::Grep(action) = action else { return Err(ToolError::foreign(self, action)) };
            let (action, working_dir) = (action.clone(), self.working_dir.clone());
            worker::blocking(&context.cancel, move |cancel| grep(&action, &working_dir, &Search::new(cancel)))
                .await
        })
    }
}

fn grep(action: &GrepAction, working_dir: &Path, search: &Search<'_>) -> Result<Observation, ToolError> {
    let base = folder(working_dir, action.path.as_deref());
    let (text, found, is_error) = match found(action, &base, search) {
        Ok(found) => (report(action, &base, &found), found, false),
        Err(Failure::Reported(text)) => (text, Found::default(), true),
        Err(Failure::Cancelled) => return Err(ToolError::Cancelled),
    };
    Ok(Observation::Grep(GrepObservation {
        content: vec![Content::text(text)],
        is_error,
        matches: found.files.into_iter().map(Text::from).collect(),
        pattern: action.pattern.clone(),
        search_path: base.to_string_lossy().into(),
        include_pattern: action.include.clone(),
        truncated: found.truncated,
        extra: Extra::NONE,
    }))
}

fn found(action: &GrepAction, base: &Path, search: &Search<'_>) -> Result<Found, Failure> {
    if !base.is_dir() {
        let path = action.path.as_deref().unwrap_or_default();
        return Err(Failure::Reported(format!("Search path '{path}' is not a valid directory")));
    }
    let regex = RegexBuilder::new(&action.pattern).case_insensitive(true).multi_line(true).crlf(true).build();
    let regex = regex.map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        Failure::Reported(format!("Invalid regex pattern: {}", last.trim_start_matches("error: ")))
    })?;
    let patterns = match action.include.as_deref().filter(|include| !include.is_empty()) {
        Some(include) => pattern(base, include)?,
        None => Override::empty(),
    };
    let (mut bytes, mut held) = (Vec::new(), 0);
    let found = search.files(base, patterns, |path| contains(path, &regex, &mut bytes, &mut held))?;
    Ok(Found { held, ..found })
}

/// Returns whether a text file contains the pattern. False if the file cannot be read. Counts the ones of open databases.
fn contains(path: &Path, regex: &Regex, bytes: &mut Vec<u8>, held: &mut usize) -> bool {
    bytes.clear();
    // Only the beginning of a long file is searched.
    let read = untrusted::open(path).and_then(|(file, _)| file.take(FILE_BYTES_MAX).read_to_end(bytes));
    *held += usize::from(read.as_ref().is_err_and(|error| error.kind() == ErrorKind::ResourceBusy));
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    read.is_ok() && !sample.contains(&0) && regex.is_match(bytes)
}

fn report(action: &GrepAction, base: &Path, found: &Found) -> String {
    let (pattern, base) = (&action.pattern, base.display());
    let include = match action.include.as_deref().filter(|include| !include.is_empty()) {
        Some(include) => format!(" (filtered by '{include}')"),
        None => String::new(),
    };
    let held = match found.held {
        0 => String::new(),
        count => format!("\n[{count} file(s) of a database in use were not searched.]"),
    };
    if found.files.is_empty() {
        return format!("No files found containing pattern '{pattern}' in directory '{base}'{include}{held}");
    }
    let truncated = if found.truncated { TRUNCATED } else { "" };
    format!(
        "Found {} file(s) containing pattern '{pattern}' in '{base}'{include}:\n{}{truncated}{held}",
        found.files.len(),
        found.files.join("\n")
    )
}
