//! Shows a run to the user: events when they are committed, replies while they stream, and a status line below them.
//!
//! On a terminal, a reply is shown word by word and its event is not drawn again. Elsewhere only events are drawn. With
//! `--json`, each event is one line of JSON. If the output fails, the run continues.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::flow::Flow;
use crate::cli::print::{Output, span, width};
use crate::event::{ActionEvent, Event, Source};
use crate::ids::EventId;
use crate::llm::{Delta, Retry};
use crate::state::Spent;
use crate::visualizer::{Colour, Form, Line, Options, Style, cut, draw};

/// The maximum number of lines of a text. The middle of a longer text is folded.
const LINES_MAX: usize = 20;

/// The frames of the status line's spinner.
const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];

/// The output on which a run is shown.
pub(super) struct Screen {
    json: bool,
    is_terminal: bool,
    output: Output,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The reply that is being streamed.
    reply: Option<Reply>,
    /// What the run waits for, and since when.
    waiting: Option<(String, Instant)>,
    /// Whether the status line is drawn.
    is_status_drawn: bool,
    frame: usize,
    /// Whether a failed call waits for its next try.
    is_retrying: bool,
    /// Replaces the hint in the status line until the run rests. It says that the run is about to stop.
    note: Option<&'static str>,
}

/// A reply that is being streamed.
struct Reply {
    item: EventId,
    flow: Flow,
    is_reasoning: bool,
    /// Whether its text has begun. Reasoning may come before it.
    has_text: bool,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        let output = Output::new(json, false);
        Self { json, is_terminal: output.is_terminal && !json, output, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows an event.
    pub(super) fn event(&self, event: &Event) {
        if !self.json && matches!(event, Event::SecurityAnalysis(_) | Event::StateUpdate(_)) {
            // The action already shows its risk, and state updates of a server are not for the user.
            return;
        }
        if self.json {
            return self.print(&format!("{{\"event\":{}}}\n", event.dump()));
        }
        let mut state = self.lock();
        self.clear_status(&mut state);
        let reply = state.reply.take();
        if let Some(reply) = &reply {
            self.print(&reply.flow.end());
        }
        let shown = reply.filter(|reply| reply.item == *event.id());
        state.waiting = Some((next_wait(event), Instant::now()));
        state.is_retrying = false;
        match (event, shown) {
            // The system prompt is not shown.
            (Event::SystemPrompt(_), _) => {}
            (Event::Message(message), Some(reply))
                if reply.has_text && message.common.source == Source::Agent => {}
            (Event::Action(action), Some(_)) => self.draw(&Event::from(without_thought(action))),
            (event, _) => self.draw(event),
        }
    }

    fn draw(&self, event: &Event) {
        let columns = self.is_terminal.then(|| usize::from(width()));
        let options = Options { width: columns, lines_max: LINES_MAX, skip_user_messages: false };
        let Some(drawing) = draw(event, &Spent::default(), &options) else { return };
        let mut text = String::new();
        if drawing.form == Form::Block {
            text.push('\n');
        }
        for row in drawing.rows(columns, "") {
            text.push_str(&self.output.paint(&row));
            text.push('\n');
        }
        self.print(&text);
    }

    /// Shows a piece of a reply.
    pub(super) fn delta(&self, item: &EventId, delta: &Delta) {
        if !self.is_terminal {
            return;
        }
        let mut state = self.lock();
        self.clear_status(&mut state);
        let (text, is_reasoning) = match delta {
            Delta::Text(text) => (text, false),
            Delta::Reasoning(text) => (text, true),
            Delta::Restart => {
                if let Some(reply) = state.reply.take() {
                    let end = reply.flow.end();
                    self.print(&format!("{end}{}\n", self.output.dim("  (the reply begins again)")));
                }
                return;
            }
        };
        if text.is_empty() {
            return;
        }
        let is_next = state
            .reply
            .as_ref()
            .is_some_and(|reply| reply.item == *item && reply.is_reasoning == is_reasoning);
        if !is_next {
            let before = state.reply.take();
            let had_text = before.as_ref().is_some_and(|reply| reply.has_text && reply.item == *item);
            if let Some(before) = before {
                self.print(&before.flow.end());
            }
            let title = if is_reasoning { "Reasoning" } else { "Message from Agent" };
            self.title(title, if is_reasoning { Colour::Grey } else { Colour::Blue });
            let flow = Flow::new(usize::from(width()));
            state.reply = Some(Reply { item: item.clone(), flow, is_reasoning, has_text: had_text });
        }
        if let Some(reply) = &mut state.reply {
            reply.has_text |= !is_reasoning;
            let flowed = reply.flow.feed(text);
            self.print(&if is_reasoning { self.output.styled(&flowed, "90") } else { flowed });
        }
    }

    fn title(&self, title: &str, colour: Colour) {
        let head = Line::new("── ", colour).with(title, Style::BOLD.in_colour(colour));
        let dashes = usize::from(width()).saturating_sub(head.width() + 1).max(2);
        let head = head.with(format!(" {}", "─".repeat(dashes)), colour);
        self.print(&format!("\n{}\n", self.output.paint(&head)));
    }

    /// Shows that a call failed, why, and when it is tried again.
    pub(super) fn retry(&self, retry: &Retry<'_>) {
        let Retry { error, attempt, attempts_max, wait, .. } = retry;
        let next = format!("try {attempt} of {attempts_max} in {}", seconds(*wait));
        // Before the line: its reader may stop the run at once.
        let mut state = self.lock();
        state.waiting = Some((format!("{next}:"), Instant::now()));
        state.is_retrying = true;
        drop(state);
        if self.json {
            let retry = json!({"error": error.to_string(), "attempt": attempt, "of": attempts_max,
                "wait_seconds": wait.as_secs_f64()});
            self.print(&format!("{}\n", json!({ "retry": retry })));
        } else if self.is_terminal {
            self.line(&self.dim(&self.output.safe(&format!("{error}; {next}"))));
        } else {
            self.output.remark(format!("{error}; {next}"));
        }
    }

    /// Returns whether a failed call waits for its next try. A step may take minutes then.
    pub(super) fn is_retrying(&self) -> bool {
        let state = self.lock();
        state.is_retrying && state.reply.is_none()
    }

    /// Redraws the status line with the next frame of its spinner.
    pub(super) fn tick(&self) {
        if !self.is_terminal {
            return;
        }
        let mut state = self.lock();
        if state.reply.is_some() {
            return;
        }
        let Some((what, since)) = &state.waiting else { return };
        let elapsed = Duration::from_secs(since.elapsed().as_secs());
        let hint = state.note.unwrap_or("Ctrl-C pauses");
        let time = if elapsed.is_zero() { String::new() } else { format!(" {}", seconds(elapsed)) };
        let text = format!("{} {what}{time} · {hint}", SPINNER[state.frame % SPINNER.len()]);
        let text = cut(&text, usize::from(width()).saturating_sub(1)).into_owned();
        state.frame += 1;
        state.is_status_drawn = true;
        self.print(&format!("\r\u{1b}[2K{}", self.output.dim(&text)));
    }

    /// Shows in the status line that the run is about to stop.
    pub(super) fn note(&self, note: &'static str) {
        self.lock().note = Some(note);
        if !self.is_terminal {
            self.output.remark(note);
        }
    }

    /// Ends the streamed reply and removes the status line: the run waits for nothing now.
    pub(super) fn rest(&self) {
        let mut state = self.lock();
        self.clear_status(&mut state);
        if let Some(reply) = state.reply.take() {
            self.print(&reply.flow.end());
        }
        (state.waiting, state.note, state.is_retrying) = (None, None, false);
    }

    /// Shows in the status line what the run waits for from now on.
    pub(super) fn wait_for(&self, what: &str) {
        self.lock().waiting = Some((what.to_owned(), Instant::now()));
    }

    /// Prints a remark in a line of its own.
    pub(super) fn line(&self, text: &str) {
        let mut state = self.lock();
        self.clear_status(&mut state);
        self.print(&format!("{}\n", self.output.safe(text)));
    }

    /// Returns `text` styled as unimportant.
    pub(super) fn dim(&self, text: &str) -> String {
        self.output.dim(text)
    }

    /// Returns `text` styled as important.
    pub(super) fn bold(&self, text: &str) -> String {
        self.output.bold(text)
    }

    fn clear_status(&self, state: &mut State) {
        if std::mem::take(&mut state.is_status_drawn) {
            self.print("\r\u{1b}[2K");
        }
    }

    fn print(&self, text: &str) {
        // The reader of the output may be gone. The run continues for its other clients.
        let _ignored = self.output.raw(text.as_bytes());
        let _ignored = std::io::stdout().flush();
    }
}

/// Returns a time in seconds, without a fraction of zero.
fn seconds(time: Duration) -> String {
    let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    span(time).replace(".0 s", " s")
}

/// Returns what the run waits for after an event.
fn next_wait(event: &Event) -> String {
    if let Event::Action(action) = event {
        format!("{} is at work", action.tool_name)
    } else {
        "the model is asked".to_owned()
    }
}

/// Returns an action without its thought, which was already shown while it was streamed.
fn without_thought(action: &ActionEvent) -> ActionEvent {
    let mut action = action.clone();
    action.thought.clear();
    action.reasoning_content = None;
    action.thinking_blocks.clear();
    action
}
