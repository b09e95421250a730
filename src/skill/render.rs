//! Commands within a skill: ``!`command` `` is replaced by the command's output.
//!
//! Code blocks are not changed. A block that is not closed extends to the end. ``\!`command` `` stands for the literal
//! text ``!`command` ``. A skill is trusted as much as its author: a user who can write a skill can run commands here.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::program::{self, Group};
use crate::secret::environment;

/// How long a command may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of bytes of a command's output that are used.
const OUTPUT_BYTES_MAX: usize = 50 * 1024;

/// The maximum number of commands that one skill may run.
const COMMANDS_MAX: usize = 50;

/// Runs the commands of a text, one after the other, in `working_dir`. Returns the text with their output.
pub async fn rendered(text: &str, working_dir: &Path) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut commands = 0;
    while let Some(at) = rest.find(['`', '\\', '!']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let follows_mark = text[..text.len() - rest.len()].ends_with('!');
        // The length of the text before the next back quote. `None` if there is no text or no back quote.
        let inner = |from: &str| -> Option<usize> { from.find('`').filter(|end| *end > 0) };
        if let Some(after) = rest.strip_prefix("```") {
            let end = after.find("```").map_or(rest.len(), |end| 3 + end + 3);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        } else if let Some(end) = rest.strip_prefix("\\!`").and_then(inner) {
            out.push_str(&rest[1..end + 4]);
            rest = &rest[end + 4..];
        } else if let Some(end) = rest.strip_prefix("!`").and_then(inner) {
            let command = &rest[2..end + 2];
            commands += 1;
            if commands > COMMANDS_MAX {
                out.push_str(&format!("[Error: more than {COMMANDS_MAX} commands]"));
            } else {
                out.push_str(&run(command, working_dir).await);
            }
            rest = &rest[end + 3..];
        } else if let Some(end) = rest.strip_prefix('`').filter(|_| !follows_mark).and_then(inner) {
            out.push_str(&rest[..end + 2]);
            rest = &rest[end + 2..];
        } else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

/// Runs a command. Returns its output or an error message.
async fn run(command: &str, working_dir: &Path) -> String {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).current_dir(working_dir).kill_on_drop(true);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    environment::withhold(shell.as_std_mut());
    program::separate(&mut shell);
    let failed =
        |error: &dyn std::fmt::Display| format!("[Error: Failed to execute command `{command}`: {error}]");
    let mut child = match shell.spawn() {
        Ok(child) => child,
        Err(error) => return failed(&error),
    };
    let group = Group::of(&child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let whole = async {
        // White space around the output does not count, so more is read than is shown.
        let pipes =
            (program::read(stdout, 2 * OUTPUT_BYTES_MAX), program::read(stderr, 2 * OUTPUT_BYTES_MAX));
        let (stdout, stderr) = tokio::join!(pipes.0, pipes.1);
        (child.wait().await, stdout, stderr)
    };
    let ended = tokio::time::timeout(TIMEOUT, whole).await;
    if ended.is_ok() {
        group.release();
    }
    match ended {
        Err(_) => format!("[Error: Command `{command}` timed out after {:.1}s]", TIMEOUT.as_secs_f64()),
        Ok((Err(error), ..)) => failed(&error),
        Ok((Ok(status), stdout, _)) if status.success() => {
            let text = String::from_utf8_lossy(&stdout);
            let text = text.trim();
            if text.len() <= OUTPUT_BYTES_MAX {
                return text.to_owned();
            }
            let end = text.floor_char_boundary(OUTPUT_BYTES_MAX);
            format!("{}\n... [output truncated]", &text[..end])
        }
        Ok((Ok(status), _, stderr)) => {
            let code = status.code().unwrap_or(-1);
            format!(
                "[Error: Command `{command}` exited with code {code}: {}]",
                String::from_utf8_lossy(&stderr)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_run_and_code_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let render = |text: &'static str| {
            let folder = folder.path().to_owned();
            async move { rendered(text, &folder).await }
        };
        assert_eq!(render("a !`echo b` c").await, "a b c");
        assert_eq!(render("`x !`echo b` y").await, "`x !`echo b` y");
        assert_eq!(render("```\n!`echo b`\n``` !`echo c`").await, "```\n!`echo b`\n``` c");
        assert_eq!(render("``` !`echo b`").await, "``` !`echo b`");
        assert_eq!(render(r"\!`echo b` \x").await, r"!`echo b` \x");
        assert_eq!(render("!`` ! `a").await, "!`` ! `a");
        assert_eq!(render("!`exit 3`").await, "[Error: Command `exit 3` exited with code 3: ]");
        assert!(render("!`yes`").await.starts_with("[Error: Command `yes` timed out after 10.0s]"));
        let long = render("!`head -c 200000 /dev/zero | tr '\\0' z`").await;
        assert!(long.ends_with("z\n... [output truncated]") && long.len() < 51_500);
    }
}
