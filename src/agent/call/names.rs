//! Which tool is meant: older names, names with rubbish behind them, shell commands taken for tools.
//!
//! A tool that is there by the name it was called is never taken for another. Source: `runtime.md` section 3.6.

use crate::event::Json;

use super::arguments::Arguments;
use super::python::repr_text;

/// Older names, and what the tool is called now.
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

/// Aliases that are commands themselves, which their arguments follow.
const COMMANDS: [&str; 2] = ["git", "reset"];

/// Commands that do no harm without arguments.
const BARE: [&str; 4] = ["find", "git", "ls", "pwd"];

/// What goes along with a call of any tool.
const COMMON: [&str; 2] = ["security_risk", "summary"];

/// The tool's name and arguments, as they are meant.
///
/// # Errors
/// What the model is told where the editor is called and nothing says what for.
pub(super) fn normalize(
    name: &str,
    mut arguments: Arguments,
    available: &[&str],
) -> Result<(String, Arguments), String> {
    let is_there = |name: &str| available.contains(&name);
    let mut meant = name.to_owned();
    if !is_there(name) {
        let base = leading_identifier(name);
        let alias = ALIASES.iter().find(|(alias, target)| *alias == base && is_there(target));
        if base != name && is_there(base) {
            base.clone_into(&mut meant);
        } else if let Some((_, target)) = alias {
            (*target).clone_into(&mut meant);
            if COMMANDS.contains(&base) {
                prefix_command(base, &mut arguments);
            }
        } else if is_there("terminal")
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

/// The identifier that a name begins with; the name itself where it begins with none.
fn leading_identifier(name: &str) -> &str {
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins { &name[..end] } else { name }
}

fn replace_command(arguments: &mut Arguments, command: &str) {
    arguments.keep(&COMMON);
    arguments.set("command", text(command));
}

/// `git(command="status")` is `git status`; `git(command="git status")` is that already.
fn prefix_command(base: &str, arguments: &mut Arguments) {
    let given = arguments.text("command").filter(|command| !command.is_empty());
    let command = match given {
        None => base.to_owned(),
        Some(command) if command.split_whitespace().next() == Some(base) => command,
        Some(command) => format!("{base} {command}"),
    };
    replace_command(arguments, &command);
}

/// The command that does what a tool of this name would: a search, or a bare command that only looks.
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

/// The word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\"'\"'"))
}

/// What the editor is to do follows from what it is given.
fn infer_command(arguments: &mut Arguments) -> Result<(), String> {
    if arguments.has("command") {
        return Ok(());
    }
    let told =
        [("old_str", "str_replace"), ("insert_line", "insert"), ("file_text", "create"), ("path", "view")];
    if let Some((_, command)) = told.iter().find(|(name, _)| arguments.has(name)) {
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
    fn check(name: &str, arguments: &str, meant: &str, as_meant: &str) {
        let (name, arguments) = normalize(name, Arguments::read(arguments).unwrap(), TOOLS).unwrap();
        assert_eq!((name.as_str(), arguments.dumps().as_str()), (meant, as_meant));
    }

    #[test]
    fn a_tool_is_found_by_the_names_that_models_have_for_it() {
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
        assert_eq!(name, "bash", "a tool that is there is not taken for another");
    }

    #[test]
    fn an_editor_without_anything_to_do_is_refused() {
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
