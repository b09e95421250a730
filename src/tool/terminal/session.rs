//! A shell session. Its commands may end, wait for input or keep running.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::answer::{self, End};
use super::keys::{control_letter, key};
use super::shell::{Setting, Shell};
use crate::event::tool::{TerminalAction, TerminalObservation};
use crate::shell::split;
use crate::tool::{Context, ToolError};

/// The longest timeout that a call can ask for.
const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The time after which a shell at its prompt is checked again. By then it counts as ready.
const READY_CHECK: Duration = Duration::from_millis(600);

/// The time that the shell has to export the secrets.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// A shell that starts with the first command.
pub(super) struct Session {
    setting: Setting,
    /// The time that a command may be silent before the model is asked.
    quiet_after: Duration,
    shell: Option<Shell>,
    running: Option<Running>,
}

/// A command that was sent and whose end is not reported to the model yet.
#[derive(Debug, Clone, Copy)]
struct Running {
    /// The number of commands that had ended before this one.
    prompts: u64,
    /// Whether the model has already got an answer about this command.
    was_shown: bool,
}

impl Session {
    pub fn new(setting: Setting, quiet_after: Duration) -> Self {
        Self { setting, quiet_after, shell: None, running: None }
    }

    /// Carries out the action.
    pub async fn execute(
        &mut self,
        action: &TerminalAction,
        context: &Context,
    ) -> Result<TerminalObservation, ToolError> {
        let command = action.command.trim_matches(super::is_space);
        if !action.reset {
            return self.run(command, action.is_input, action.timeout, context).await;
        }
        self.close().await;
        self.start().await?;
        if command.is_empty() {
            return Ok(TerminalObservation { exit_code: Some(0), ..answer::said("[RESET]", answer::RESET) });
        }
        let ran = self.run(command, false, action.timeout, context).await?;
        let text: String = ran.content.iter().filter_map(crate::event::message::Content::as_text).collect();
        let reset =
            answer::said(&format!("[RESET] {}", action.command), format!("{}\n\n{text}", answer::RESET));
        Ok(TerminalObservation { content: reset.content, command: reset.command, ..ran })
    }

    /// Ends the shell and what runs in it.
    pub async fn close(&mut self) {
        self.running = None;
        if let Some(shell) = self.shell.take() {
            shell.close().await;
        }
    }

    async fn start(&mut self) -> Result<(), ToolError> {
        if !self.setting.working_dir.is_dir() {
            let folder = self.setting.working_dir.display();
            return Err(ToolError::Failed(format!("working_dir '{folder}' is not a valid directory")));
        }
        self.shell = Some(Shell::start(&self.setting).await.map_err(ToolError::Failed)?);
        Ok(())
    }

    async fn run(
        &mut self,
        command: &str,
        is_input: bool,
        timeout: Option<f64>,
        context: &Context,
    ) -> Result<TerminalObservation, ToolError> {
        if self.running.is_none() && command.is_empty() {
            return Ok(answer::refused(command, "No previous running command to retrieve logs from."));
        }
        if self.running.is_none() && is_input {
            return Ok(answer::refused(command, "No previous running command to interact with."));
        }
        let commands = if is_input { vec![command] } else { split(command) };
        if commands.len() > 1 {
            let list: Vec<String> =
                (1..).zip(commands).map(|(number, command)| format!("({number}) {command}")).collect();
            let text = format!(
                "Cannot execute multiple commands at once.\nPlease run each command separately OR chain them into a \
                 single command via && or ;\nProvided commands:\n{}",
                list.join("\n")
            );
            return Ok(answer::refused(command, text));
        }
        if self.shell.is_none() {
            self.start().await?;
        }
        if !is_input && !command.is_empty() {
            if self.is_busy() {
                return Ok(self.answer(command, is_input, &End::NotExecuted));
            }
            self.running = None;
        }
        self.direct_output(context);
        let end = self.carry_out(command, is_input, timeout, context).await?;
        Ok(self.answer(command, is_input, &end))
    }

    /// Returns whether a command still runs. False if it has ended since the last answer.
    fn is_busy(&self) -> bool {
        let (Some(running), Some(shell)) = (self.running, &self.shell) else { return false };
        let screen = shell.screen();
        screen.exit.is_none() && !(screen.prompts > running.prompts && screen.reads())
    }

    /// Sets the mask of the output and the folder for long outputs.
    fn direct_output(&self, context: &Context) {
        if let Some(shell) = &self.shell {
            let folder: Option<PathBuf> = context.keep_dir.as_ref().map(|folder| folder.join(super::FOLDER));
            shell.screen().output.direct(context.secrets.known(), folder);
        }
    }

    async fn carry_out(
        &mut self,
        command: &str,
        is_input: bool,
        timeout: Option<f64>,
        context: &Context,
    ) -> Result<End, ToolError> {
        let quiet_after = self.quiet_after;
        let Some(shell) = &mut self.shell else {
            return Err(ToolError::Internal("there is no shell".to_owned()));
        };
        let start = Instant::now();
        let outcome = async {
            if self.running.is_none() {
                export(shell, command, context).await?;
            }
            let prompts = shell.screen().prompts;
            let running = *self.running.get_or_insert(Running { prompts, was_shown: false });
            if !command.is_empty() {
                let sent = match key(command).filter(|_| is_input || control_letter(command).is_some()) {
                    Some(bytes) => shell.type_in(&bytes).await,
                    None if is_input => shell.type_in(typed(command).as_bytes()).await,
                    None => shell.command(command).await,
                };
                // An error means that the shell has ended. `until_end` detects that.
                drop(sent);
            }
            Ok(until_end(shell, running, start, timeout, quiet_after).await)
        };
        let outcome = tokio::select! {
            biased;
            () = context.cancel.cancelled() => None,
            outcome = outcome => Some(outcome),
        };
        if let Some(outcome) = outcome {
            return outcome;
        }
        let is_at_prompt = shell.stop_program().await;
        if is_at_prompt {
            // The output of the stopped command must not be shown as output of the next one.
            shell.discard_output();
            self.running = None;
        } else {
            self.close().await;
        }
        Err(ToolError::Cancelled)
    }

    /// Returns the answer to the command after the call ended in this way.
    fn answer(&mut self, command: &str, is_input: bool, end: &End) -> TerminalObservation {
        let was_shown = self.running.is_some_and(|running| running.was_shown);
        let metadata = answer::metadata(command, end, was_shown, self.setting.output_bytes_max);
        let text = self.shell.as_ref().map(|shell| shell.take_output(answer::room(&metadata)));
        let text = text.unwrap_or_default();
        let text = if is_input { without_echo(text, command) } else { text };
        match end {
            End::Done(_) => self.running = None,
            End::ShellEnded { .. } => {
                self.running = None;
                self.shell = None;
            }
            _ => {
                if let Some(running) = &mut self.running {
                    running.was_shown = true;
                }
            }
        }
        answer::ran(command, text, end, metadata)
    }
}

/// Exports the secrets that the command names to the shell.
async fn export(shell: &mut Shell, command: &str, context: &Context) -> Result<(), ToolError> {
    let values = context.secrets.for_command(command).await;
    let exports: Vec<String> = values
        .iter()
        .filter(|(name, _)| is_name(name))
        .map(|(name, value)| format!("export {name}={}", quoted(value)))
        .collect();
    if exports.is_empty() {
        return Ok(());
    }
    let prompts = shell.screen().prompts;
    let failed = |why: &str| ToolError::Failed(format!("the shell did not take over the secrets: {why}"));
    shell.command(&exports.join(" && ")).await.map_err(|error| failed(&error.to_string()))?;
    let done = shell.until(|screen| screen.exit.is_some() || (screen.prompts > prompts && screen.reads()));
    tokio::time::timeout(EXPORT_TIMEOUT, done).await.map_err(|_| failed("it took too long"))
}

/// Waits until the call has to end, and returns the reason.
async fn until_end(
    shell: &Shell,
    running: Running,
    start: Instant,
    timeout: Option<f64>,
    quiet_after: Duration,
) -> End {
    let limit =
        timeout.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(TIMEOUT_MAX).min(TIMEOUT_MAX));
    loop {
        let changed = shell.changed();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let next = {
            let screen = shell.screen();
            let done = screen.prompts > running.prompts;
            if done && screen.reads() {
                return End::Done(screen.outcome.clone());
            }
            if let Some(exit_code) = screen.exit {
                return End::ShellEnded { exit_code };
            }
            if screen.wants_more {
                return End::Unfinished;
            }
            if screen.output.is_full() {
                return End::Flooded;
            }
            let now = Instant::now();
            let last = screen.changed_at.max(start);
            match limit {
                _ if done => now + READY_CHECK,
                Some(limit) if now >= start + limit => {
                    let seconds = crate::tool::arguments::float(timeout.unwrap_or_default());
                    return End::TimedOut { seconds };
                }
                Some(limit) => start + limit,
                None if now >= last + quiet_after => return End::Quiet { seconds: quiet_after.as_secs() },
                None => last + quiet_after,
            }
        };
        tokio::select! {
            () = changed => {}
            () = sleep_until(next) => {}
        }
    }
}

/// Returns the text as it is typed: with a line end, unless it is a control key.
fn typed(text: &str) -> String {
    let end = if control_letter(text).is_some() { "" } else { "\n" };
    format!("{}{end}", text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// Returns the output without the echo of the typed text.
fn without_echo(text: String, typed: &str) -> String {
    if typed.is_empty() {
        return text;
    }
    match text.trim_start_matches(super::is_space).strip_prefix(typed) {
        // It is an echo only if it is a whole line.
        Some(rest) if rest.is_empty() || rest.starts_with('\n') => rest.trim_start_matches('\n').to_owned(),
        _ => text,
    }
}

/// Returns whether a variable can have this name.
fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the value quoted for the shell, as `$'..'`.
fn quoted(value: &str) -> String {
    let mut out = "$'".to_owned();
    for character in value.chars() {
        match character {
            '\\' | '\'' => {
                out.push('\\');
                out.push(character);
            }
            // A variable cannot contain NUL.
            '\0' => {}
            _ if character.is_ascii_control() => out.push_str(&format!("\\{:03o}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('\'');
    out
}
