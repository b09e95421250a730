//! Finds the tool that a call means, if the model used an older name, added rubbish to the name, or called a shell
//! command as if it were a tool. Every agent that runs here needs it: prompts and older conversations have these names.
//!
//! If a tool of the called name exists, it is always used. Source: `docs/reference/calls.md#names`.

use crate::event::Json;

use super::arguments::Arguments;
use super::python::repr_text;

/// Older names, and the tool's present name.
const ALIASES: &[(&str, &str)] = &[
    ("bash", "terminal"),
    ("command", "terminal"),
    ("execute", "terminal"),
    ("execute_bash", "terminal"),
    ("git", "terminal"),
    ("reset", "terminal"),
    ("str_replace", "file_editor"),
    ("str_replace_editor", "file_editor"),
];

/// Aliases that are themselves the first word of the shell command.
const COMMANDS: [&str; 2] = ["git", "reset"];

/// Commands that are harmless without arguments.
const BARE: [&str; 4] = ["find", "git", "ls", "pwd"];

/// Arguments that a call of any tool may have.
const COMMON: [&str; 2] = ["security_risk", "summary"];

/// Returns the tool and the arguments that the model meant.
///
/// # Errors
/// The error message for the model if the editor is called without arguments that show what to do.
pub(super) fn normalize(
    name: &str,
    mut arguments: Arguments,
    available: &[&str],
) -> Result<(String, Arguments), String> {
    let exists = |name: &str| available.contains(&name);
    let mut meant = name.to_owned();
    if !exists(name) {
        let base = leading_identifier(name);
        let alias = ALIASES.iter().find(|(alias, target)| *alias == base && exists(target));
        if base != name && exists(base) {
            base.clone_into(&mut meant);
        } else if let Some((_, target)) = alias {
            (*target).clone_into(&mut meant);
            if COMMANDS.contains(&base) {
                prefix_command(base, &mut arguments);
            }
        } else if exists("terminal")
            && let Some(command) = shell_command(name, &arguments)
        {
            "terminal".clone_into(&mut meant);
            replace_command(&mut arguments, &command);
        }
    }
    if meant == "file_editor" {
        infer_command(&mut arguments)?;
    }
    Ok((meant, arguments))
}

/// Returns the identifier at the beginning of a name, or the name itself if there is none.
fn leading_identifier(name: &str) -> &str {
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins { &name[..end] } else { name }
}

fn replace_command(arguments: &mut Arguments, command: &str) {
    arguments.keep(&COMMON);
    arguments.set("command", text(command));
}

/// Makes `git(command="status")` the command `git status`. `git(command="git status")` stays `git status`.
fn prefix_command(base: &str, arguments: &mut Arguments) {
    let given = arguments.text("command").filter(|command| !command.is_empty());
    let command = match given {
        None => base.to_owned(),
        Some(command) if command.split_whitespace().next() == Some(base) => command,
        Some(command) => format!("{base} {command}"),
    };
    replace_command(arguments, &command);
}

/// Returns the shell command for a tool of this name: a search with `grep`, or a command without arguments.
fn shell_command(name: &str, arguments: &Arguments) -> Option<String> {
    if name == "grep" {
        let given = |name: &str| arguments.text(name).filter(|text| !text.trim().is_empty());
        let mut command = ["grep", "-R", "-I", "-n", "-i"].map(str::to_owned).to_vec();
        command.push(given("pattern")?);
        command.push(given("path").unwrap_or_else(|| ".".to_owned()));
        command.extend(given("include").map(|include| format!("--include={include}")));
        return Some(command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
    }
    (arguments.is_empty() && BARE.contains(&name)).then(|| name.to_owned())
}

/// Returns the word, quoted for a shell if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

/// Adds the editor's missing `command`, which follows from its other arguments.
fn infer_command(arguments: &mut Arguments) -> Result<(), String> {
    if arguments.has("command") {
        return Ok(());
    }
    let commands =
        [("old_str", "str_replace"), ("insert_line", "insert"), ("file_text", "create"), ("path", "view")];
    if let Some((_, command)) = commands.iter().find(|(name, _)| arguments.has(name)) {
        arguments.put_first("command", text(command));
        return Ok(());
    }
    if arguments.has("new_str") || arguments.has("view_range") {
        return Ok(());
    }
    Err(format!(
        "Cannot infer 'command' for tool {} from empty arguments {}. Expected one of: str_replace, insert, create, \
         view with appropriate arguments (e.g., old_str for str_replace, path for view).",
        repr_text("file_editor"),
        arguments.repr()
    ))
}

fn text(text: &str) -> Json {
    Json::from(&serde_json::Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: &[&str] = &["terminal", "file_editor", "finish"];

    #[track_caller]
    fn check(name: &str, arguments: &str, expected_name: &str, expected_arguments: &str) {
        let (name, arguments) = normalize(name, Arguments::read(arguments).unwrap(), TOOLS).unwrap();
        assert_eq!((name.as_str(), arguments.dumps().as_str()), (expected_name, expected_arguments));
    }

    #[test]
    fn a_tool_is_found_by_the_names_that_models_use_for_it() {
        check("execute_bash", r#"{"command":"ls"}"#, "terminal", r#"{"command": "ls"}"#);
        check(
            "git",
            r#"{"command":"status","summary":"s","x":1}"#,
            "terminal",
            r#"{"summary": "s", "command": "git status"}"#,
        );
        check("git", r#"{"command":"git  log"}"#, "terminal", r#"{"command": "git  log"}"#);
        check("git", r#"{"command":"github status"}"#, "terminal", r#"{"command": "git github status"}"#);
        check("reset", "{}", "terminal", r#"{"command": "reset"}"#);
        check("pwd", "{}", "terminal", r#"{"command": "pwd"}"#);
        check("pwd", r#"{"x":1}"#, "pwd", r#"{"x": 1}"#);
        check("rm", "{}", "rm", "{}");
        check("finish</tool>", r#"{"message":"m"}"#, "finish", r#"{"message": "m"}"#);
        check(
            "str_replace </parameter",
            r#"{"path":"/a","old_str":"b"}"#,
            "file_editor",
            r#"{"command": "str_replace", "path": "/a", "old_str": "b"}"#,
        );
        check(
            "grep",
            r#"{"pattern":"it's","include":"*.rs"}"#,
            "terminal",
            r#"{"command": "grep -R -I -n -i 'it'\"'\"'s' . '--include=*.rs'"}"#,
        );
        check("grep", r#"{"pattern":" "}"#, "grep", r#"{"pattern": " "}"#);
        let (name, _) = normalize("bash", Arguments::default(), &["bash", "terminal"]).unwrap();
        assert_eq!(name, "bash", "the name of an existing tool is not replaced");
    }

    #[test]
    fn an_editor_call_without_a_command_is_refused() {
        let refused = |text: &str| {
            normalize("str_replace_editor", Arguments::read(text).unwrap(), TOOLS).map(|(_, a)| a.dumps())
        };
        assert_eq!(
            refused(r#"{"x":"it"}"#).unwrap_err(),
            "Cannot infer 'command' for tool 'file_editor' from empty arguments {'x': 'it'}. Expected one of: \
             str_replace, insert, create, view with appropriate arguments (e.g., old_str for str_replace, path \
             for view)."
        );
        assert_eq!(refused(r#"{"new_str":"a"}"#).unwrap(), r#"{"new_str": "a"}"#);
        assert_eq!(refused(r#"{"path":"/a"}"#).unwrap(), r#"{"command": "view", "path": "/a"}"#);
    }
}
