//! Exit codes of commands, as programs write them into the text of a result.
//!
//! A code counts only where its program writes it, never within the output of the command. Source: codex-rs
//! (`core/src/tools`), session files of Claude Code 1.0 to 2.1, deepagents 0.7.

use crate::json::Raw;

/// The number of lines before `Output:` in which Codex writes the code.
const HEADER_LINES_MAX: usize = 12;

/// Returns the exit code in a result of Codex: text with `Process exited with code 2` (since 2026) or `Exit code: 2`
/// before a line `Output:`, or `{"output": "..", "metadata": {"exit_code": 2}}` (2025).
pub(super) fn of_codex(text: &str) -> Option<i64> {
    if text.starts_with('{') {
        return Raw::parse(text).ok()?.get("metadata")?.get("exit_code")?.as_i64();
    }
    let mut code = None;
    for line in text.lines().take(HEADER_LINES_MAX) {
        if line == "Output:" {
            return code;
        }
        let named =
            line.strip_prefix("Process exited with code ").or_else(|| line.strip_prefix("Exit code: "));
        code = code.or_else(|| named?.trim().parse().ok());
    }
    None
}

/// Returns the exit code in a failed result of a shell of Claude Code: `Exit code 2` is its first line.
pub(super) fn of_claude_code(text: &str) -> Option<i64> {
    text.lines().next()?.strip_prefix("Exit code ")?.trim().parse().ok()
}

/// Returns the exit code in a result of deepagents: `[Command failed with exit code 2]` is its last line but for a notice.
pub(super) fn of_deepagents(text: &str) -> Option<i64> {
    let line = text.lines().rev().take(2).find(|line| line.starts_with("[Command "))?;
    let (_, code) = line.strip_suffix(']')?.split_once(" with exit code ")?;
    code.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_counts_where_its_program_writes_it() {
        for (text, code) in [
            ("Chunk ID: a\nWall time: 0.05 seconds\nProcess exited with code 2\nOutput:\n2 failed", Some(2)),
            ("Exit code: 0\nWall time: 0 seconds\nOutput:\nProcess exited with code 7", Some(0)),
            ("Wall time: 1 seconds\nProcess running with session ID 4\nOutput:\nExit code: 3", None),
            (r#"{"output":"Exit code: 3","metadata":{"exit_code":-1,"duration_seconds":1}}"#, Some(-1)),
            ("Exit code: 3", None),
            ("{", None),
            ("", None),
        ] {
            assert_eq!(of_codex(text), code, "{text}");
        }
        assert_eq!(of_claude_code("Exit code 127\nbash: mill: not found"), Some(127));
        assert_eq!(of_claude_code("make: Exit code 2\nExit code 3"), None);
        assert_eq!(of_deepagents("mill\n[Command failed with exit code 2]"), Some(2));
        assert_eq!(of_deepagents("[Command succeeded with exit code 0]\n[Output was truncated]"), Some(0));
        assert_eq!(of_deepagents("[Command failed with exit code 2]\nmill\nwheel"), None);
    }
}
