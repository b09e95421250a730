//! Finds files by their names.

use std::path::{Path, PathBuf};

use super::arguments::{Need, Of, Parameter};
use super::manual::{Effect, Manual};
use super::search::{Failure, Found, Search, TRUNCATED, folder, pattern};
use super::{Context, Making, Resources, Tool, ToolError, worker};
use crate::event::message::Content;
use crate::event::tool::{GlobAction, GlobObservation};
use crate::event::{Action, Extra, Observation, Text, ToolDefinition};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};

const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "pattern",
        Of::Text,
        Need::Required,
        "What the files are called, such as \"**/*.js\" or \"src/**/*.{ts,tsx}\".",
    ),
    Parameter::new(
        "path",
        Of::Text,
        Need::Nullable,
        "The directory to look in: an absolute path. Without it, the current working directory.",
    ),
];

/// Finds files by their names.
pub struct Glob {
    manual: Manual,
    working_dir: PathBuf,
}

impl Glob {
    /// Makes a search in the workspace.
    #[must_use]
    pub fn new(making: &Making) -> Self {
        let description = format!(
            "Finds files by their names, fast.\n\
             * Takes glob patterns such as \"**/*.js\" or \"src/**/*.ts\"; a pattern without a slash matches at any \
             depth\n\
             * Answers paths, the most recently changed first\n\
             * Passes over hidden files and what .gitignore names\n\
             * Shows 100 files at most; take a narrower pattern or a `path` where that is not enough\n\n\
             For example: \"**/test_*.py\" for tests, \"**/*.{{json,yaml,toml}}\" for configuration.\n\n\
             Your current working directory is: {}\n\
             Patterns are relative to it.",
            making.working_dir.display()
        );
        Self {
            manual: Manual::new("GlobTool", Effect::Reads, description, PARAMETERS),
            working_dir: making.working_dir.clone(),
        }
    }
}

impl Tool for Glob {
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
            let Action::Glob(action) = action else { return Err(ToolError::foreign(self, action)) };
            let (action, working_dir) = (action.clone(), self.working_dir.clone());
            worker::blocking(&context.cancel, move |cancel| glob(&action, &working_dir, &Search::new(cancel)))
                .await
        })
    }
}

fn glob(action: &GlobAction, working_dir: &Path, search: &Search<'_>) -> Result<Observation, ToolError> {
    let (base, relative) = match action.path.as_deref() {
        Some(path) => (folder(working_dir, Some(path)), action.pattern.to_string()),
        None => {
            let (base, relative) = split(&action.pattern);
            (folder(working_dir, base.as_deref()), relative)
        }
    };
    let shown = base.display();
    let found = if base.is_dir() {
        pattern(&base, &relative).and_then(|patterns| search.files(&base, patterns, |_| true))
    } else {
        Err(Failure::Reported(format!("Search path '{shown}' is not a valid directory")))
    };
    let (text, found, is_error) = match found {
        Ok(found) => (report(&action.pattern, &base, &found), found, false),
        Err(Failure::Reported(text)) => (text, Found::default(), true),
        Err(Failure::Cancelled) => return Err(ToolError::Cancelled),
    };
    Ok(Observation::Glob(GlobObservation {
        content: vec![Content::text(text)],
        is_error,
        files: found.files.into_iter().map(Text::from).collect(),
        pattern: action.pattern.clone(),
        search_path: base.to_string_lossy().into(),
        truncated: found.truncated,
        extra: Extra::NONE,
    }))
}

fn report(pattern: &str, base: &Path, found: &Found) -> String {
    let base = base.display();
    if found.files.is_empty() {
        return format!("No files found matching pattern '{pattern}' in directory '{base}'");
    }
    let truncated = if found.truncated { TRUNCATED } else { "" };
    format!(
        "Found {} file(s) matching pattern '{pattern}' in '{base}':\n{}{truncated}",
        found.files.len(),
        found.files.join("\n")
    )
}

/// Splits an absolute pattern into the folder that it begins with and the pattern within that folder.
fn split(pattern: &str) -> (Option<String>, String) {
    if pattern.is_empty() {
        return (None, "**/*".to_owned());
    }
    if !pattern.starts_with('/') {
        return (None, pattern.to_owned());
    }
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let plain = parts.iter().take_while(|part| !part.contains(['*', '?', '[', '{'])).count();
    let (base, rest) = parts.split_at(plain);
    let rest = if rest.is_empty() { "**/*".to_owned() } else { rest.join("/") };
    (Some(format!("/{}", base.join("/"))), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_pattern_is_a_folder_and_a_pattern() {
        let split = |pattern| {
            let (base, rest) = split(pattern);
            format!("{}|{rest}", base.as_deref().unwrap_or("-"))
        };
        assert_eq!(split(""), "-|**/*");
        assert_eq!(split("**/*.py"), "-|**/*.py");
        assert_eq!(split("/a/b/**/*.py"), "/a/b|**/*.py");
        assert_eq!(split("/*/x"), "/|*/x");
        assert_eq!(split("/a/b"), "/a/b|**/*");
    }
}
