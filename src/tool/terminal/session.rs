//! A shell session: commands that run to their end, wait for input or take their time.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::answer::{self, End};
use super::commands::split;
use super::keys::{control_letter, key};
use super::shell::{Setting, Shell};
use crate::event::tool::{TerminalAction, TerminalObservation};
use crate::tool::{Context, ToolError};

/// The longest that a call can ask to wait.
const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long after a prompt the shell may take until it reads.
const READS: Duration = Duration::from_millis(600);

/// How long the shell may take to take over a secret.
const EXPORT: Duration = Duration::from_secs(10);

/// A shell, begun with the first command.
pub(super) struct Session {
    setting: Setting,
    /// How long a command may be silent before the model is asked.
    quiet_after: Duration,
    shell: Option<Shell>,
    running: Option<Running>,
}

/// A command that was sent and is not known to be done.
#[derive(Debug, Clone, Copy)]
struct Running {
    /// How many commands were done before it.
    prompts: u64,
    /// Whether the model has seen output of it.
    told: bool,
}

impl Session {
    pub fn new(setting: Setting, quiet_after: Duration) -> Self {
        Self { setting, quiet_after, shell: None, running: None }
    }

    /// Carries the action out.
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
        let told =
            answer::said(&format!("[RESET] {}", action.command), format!("{}\n\n{text}", answer::RESET));
        Ok(TerminalObservation { content: told.content, command: told.command, ..ran })
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

    /// Whether a command runs. One that has ended since it was last looked at does not.
    fn is_busy(&self) -> bool {
        let (Some(running), Some(shell)) = (self.running, &self.shell) else { return false };
        let screen = shell.screen();
        screen.exit.is_none() && !(screen.prompts > running.prompts && screen.reads())
    }

    /// Says what is masked, and where a long output is kept.
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
            let running = *self.running.get_or_insert(Running { prompts, told: false });
            if !command.is_empty() {
                let sent = match key(command).filter(|_| is_input || control_letter(command).is_some()) {
                    Some(bytes) => shell.type_in(&bytes).await,
                    None if is_input => shell.type_in(typed(command).as_bytes()).await,
                    None => shell.command(command).await,
                };
                // A shell that is gone takes nothing; that it is gone is found out below.
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
        let back = shell.stop_program().await;
        if back {
            // What the broken-off command printed belongs to no other.
            shell.discard_output();
            self.running = None;
        } else {
            self.close().await;
        }
        Err(ToolError::Cancelled)
    }

    /// The answer to the command that has come to this end.
    fn answer(&mut self, command: &str, is_input: bool, end: &End) -> TerminalObservation {
        let told_before = self.running.is_some_and(|running| running.told);
        let metadata = answer::metadata(command, end, told_before, self.setting.output_bytes_max);
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
                    running.told = true;
                }
            }
        }
        answer::ran(command, text, end, metadata)
    }
}

/// Gives the shell the secrets that the command names.
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
    let told = |what: &str| ToolError::Failed(format!("the shell did not take over the secrets: {what}"));
    shell.command(&exports.join(" && ")).await.map_err(|error| told(&error.to_string()))?;
    let done = shell.until(|screen| screen.exit.is_some() || (screen.prompts > prompts && screen.reads()));
    tokio::time::timeout(EXPORT, done).await.map_err(|_| told("it took too long"))
}

/// Waits for the command to come to an end, of whatever kind.
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
                _ if done => now + READS,
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

/// A line as it is typed.
fn typed(text: &str) -> String {
    let end = if control_letter(text).is_some() { "" } else { "\n" };
    format!("{}{end}", text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// The output without the echo of what was typed.
fn without_echo(text: String, typed: &str) -> String {
    if typed.is_empty() {
        return text;
    }
    match text.trim_start_matches(super::is_space).strip_prefix(typed) {
        // The echo of a line is a line of its own.
        Some(rest) if rest.is_empty() || rest.starts_with('\n') => rest.trim_start_matches('\n').to_owned(),
        _ => text,
    }
}

/// Whether a variable can have that name.
fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The value in `$'..'`.
fn quoted(value: &str) -> String {
    let mut out = "$'".to_owned();
    for character in value.chars() {
        match character {
            '\\' | '\'' => {
                out.push('\\');
                out.push(character);
            }
            // A NUL ends a variable.
            '\0' => {}
            _ if character.is_ascii_control() => out.push_str(&format!("\\{:03o}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('\'');
    out
}
