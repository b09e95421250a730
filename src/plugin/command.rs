//! Commands of a plugin: Markdown files whose text is an instruction. `/<plugin>:<command>` triggers a command.

use std::path::Path;

use serde_json::Value;

use super::PluginProblem;
use super::file;
use crate::skill::front::{Front, words};
use crate::skill::{Skill, Trigger};

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Command {
    /// The name: that of its file without the extension.
    pub name: String,
    /// The description.
    pub description: String,
    /// A hint on the arguments of the command.
    pub argument_hint: Option<String>,
    /// The tools listed in `allowed-tools`.
    pub allowed_tools: Vec<String>,
    /// The instruction.
    pub content: String,
    /// The path of the file.
    pub source: String,
}

impl Command {
    /// Returns the command as a skill of a conversation.
    #[must_use]
    pub fn skill(&self, plugin: &str) -> Skill {
        let mut parts = Vec::new();
        if !self.description.is_empty() {
            parts.push(format!("## {}\n\n{}\n", self.name, self.description));
        }
        if let Some(hint) = self.argument_hint.as_deref().filter(|hint| !hint.is_empty()) {
            parts.push(format!("**Arguments**: `$ARGUMENTS` - {hint}\n"));
        }
        if !self.content.is_empty() {
            parts.push(format!("\n{}", self.content));
        }
        let description = match self.description.as_str() {
            "" => format!("Command {} from {plugin}", self.name),
            description => description.to_owned(),
        };
        Skill {
            trigger: Some(Trigger::Keyword(vec![format!("/{plugin}:{}", self.name)])),
            source: Some(self.source.clone()),
            description: Some(description),
            ..Skill::new(format!("{plugin}:{}", self.name), parts.join("\n").trim())
        }
        .checked()
    }
}

/// Reads the commands of `folder`, which must lie in `root`, the plugin's folder, or be it.
pub(super) fn read_all(folder: &Path, root: &Path) -> (Vec<Command>, Vec<PluginProblem>) {
    let (mut commands, mut problems) = (Vec::new(), Vec::new());
    if !folder.is_dir() || !file::lies_within(folder, root) {
        return (commands, problems);
    }
    let is_command = |path: &Path| {
        let is_markdown = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md"));
        let is_read_me = path.file_name().is_some_and(|name| name == "README.md" || name == "readme.md");
        is_markdown && !is_read_me && !path.is_dir() && file::lies_within(path, root)
    };
    for path in file::sorted_or_reported(folder, is_command, &mut problems) {
        match read(&path) {
            Ok(command) => commands.push(command),
            Err(reason) => problems.push(PluginProblem { path: file::slashed(&path), reason }),
        }
    }
    (commands, problems)
}

fn read(path: &Path) -> Result<Command, String> {
    // Python converts all line ends to `\n` when it reads a text.
    let text = file::text(path)?.replace("\r\n", "\n").replace('\r', "\n");
    let front = Front::read(&text).map_err(|error| error.to_string())?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    if name.chars().any(char::is_control) {
        return Err("its name has control characters".to_owned());
    }
    let either = |one: &str, other: &str| front.get(one).or_else(|| front.get(other)).cloned();
    Ok(Command {
        name,
        description: front.text_of("description").unwrap_or_default(),
        argument_hint: match either("argument-hint", "argumentHint") {
            Some(Value::Array(hints)) => Some(hints.iter().filter_map(words).collect::<Vec<_>>().join(" ")),
            Some(hint) => words(&hint),
            None => None,
        },
        allowed_tools: match either("allowed-tools", "allowedTools") {
            Some(Value::String(tool)) => vec![tool],
            Some(Value::Array(tools)) => tools.iter().filter_map(words).collect(),
            Some(_) | None => Vec::new(),
        },
        content: front.text,
        source: file::slashed(path),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::ENTRIES_MAX;
    use super::*;

    #[test]
    fn other_entries_of_a_folder_do_not_displace_commands() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..2 * ENTRIES_MAX {
            fs::write(folder.path().join(format!("{number}.txt")), "").unwrap();
        }
        fs::write(folder.path().join("z.md"), "Go.").unwrap();
        let (commands, problems) = read_all(folder.path(), folder.path());
        let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
        assert_eq!((names, problems), (vec!["z"], Vec::new()));
    }

    #[test]
    fn commands_that_are_left_out_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=ENTRIES_MAX {
            fs::write(folder.path().join(format!("{number:04}.md")), "Go.").unwrap();
        }
        let (commands, problems) = read_all(folder.path(), folder.path());
        assert_eq!(commands.len(), ENTRIES_MAX);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.path, file::slashed(folder.path()));
        assert!(problem.reason.contains("more than 1000"), "{problem}");
    }
}
