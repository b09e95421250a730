//! Decides which steps are shown, and draws their rows.

use serde_json::{Value, json};

use crate::cli::print::span;
use crate::event::Source;
use crate::replay::{Follows, Step};
use crate::state::{Spent, Usage};
use crate::visualizer::{Drawing, Form, Line, Options, Style, draw};

/// Which events are shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Filter {
    /// The kind must contain one of these words. If the list is empty, every kind is shown.
    pub kinds: Vec<String>,
    /// The kind or the drawing must contain this text. Empty to show everything.
    pub text: String,
}

impl Filter {
    /// Returns whether everything is shown.
    pub(super) fn is_open(&self) -> bool {
        self.kinds.is_empty() && self.text.is_empty()
    }

    /// Returns whether `step` is shown. Case does not matter.
    pub(super) fn lets(&self, step: &Step, options: &Options) -> bool {
        if options.skip_user_messages
            && step.event.kind() == "MessageEvent"
            && step.event.common().source == Source::User
        {
            return false;
        }
        let kind = step.event.kind().to_lowercase();
        let has = |word: &String| kind.contains(&word.to_lowercase());
        if !self.kinds.is_empty() && !self.kinds.iter().any(has) {
            return false;
        }
        let text = self.text.to_lowercase();
        if text.is_empty() || kind.contains(&text) {
            return true;
        }
        let whole = Options { width: None, lines_max: 0, skip_user_messages: false };
        drawing(step, &whole).is_some_and(|drawing| {
            let mut lines = drawing.lines.iter().map(|line| line.plain().to_lowercase());
            drawing.title.to_lowercase().contains(&text)
                || drawing.subject.to_lowercase().contains(&text)
                || lines.any(|line| line.contains(&text))
        })
    }
}

/// Draws a step. Tokens and cost are included if they changed. `None` if the step is not drawn.
pub(super) fn drawing(step: &Step, options: &Options) -> Option<Drawing> {
    let spent = if step.is_spent_news { step.spent } else { Spent::default() };
    draw(&step.event, &spent, options)
}

/// Returns the rows of a step, with a blank row before a block. Empty if the step is skipped.
pub(super) fn rows(step: &Step, options: &Options) -> Vec<Line> {
    let Some(drawing) = drawing(step, options) else { return Vec::new() };
    let mut rows = match drawing.form {
        Form::Block => vec![Line::default()],
        Form::Remark => Vec::new(),
    };
    rows.extend(drawing.rows(options.width, &note(step)));
    rows
}

/// Describes a step: the event it follows or answers, its sequence, the time since the event before, the time of day.
fn note(step: &Step) -> String {
    let branch = match step.follows {
        Follows::Last => String::new(),
        Follows::Earlier(event) => format!("after #{event} "),
        Follows::Nothing => "after nothing ".into(),
    };
    // An answer to the last action does not name the action.
    let answers = step.answers.filter(|_| step.answers != step.last_action);
    let answers = answers.map_or_else(String::new, |action| format!("to #{action} "));
    let after = step.after.filter(|after| *after >= 1_000_000);
    let after = after.map_or_else(String::new, |after| format!(" +{}", span(after)));
    let clock = clock(step).map_or_else(String::new, |clock| format!(" {clock}"));
    format!("{branch}{answers}#{}{after}{clock}", step.sequence)
}

/// Returns the time of day in the event's timestamp.
pub(super) fn clock(step: &Step) -> Option<&str> {
    step.event.common().timestamp.get(11..19)
}

/// Returns a step as JSON.
pub(super) fn value(step: &Step, options: &Options) -> Value {
    let drawing = drawing(step, options);
    let figures = |usage: Usage| {
        json!({
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "cost": usage.bill.cost,
            "estimated_cost": usage.bill.estimated_cost,
            "tokens_without_cost": usage.bill.tokens_without_cost,
        })
    };
    json!({
        "sequence": step.sequence.0,
        "id": step.event.id().as_str(),
        "kind": step.event.kind(),
        "source": step.event.common().source.as_str(),
        "timestamp": &*step.event.common().timestamp,
        "after_ms": step.after.map(|after| after / 1000),
        "branches_from": match step.follows {
            Follows::Last => Value::Null,
            Follows::Earlier(event) => event.0.into(),
            Follows::Nothing => "root".into(),
        },
        "answers": step.answers.map(|action| action.0),
        "title": drawing.as_ref().map(|drawing| drawing.title.as_str()),
        "subject": drawing.as_ref().map(|drawing| drawing.subject.as_str()),
        "colour": drawing.as_ref().map(|drawing| drawing.colour.as_str()),
        "lines": drawing.iter().flat_map(|drawing| &drawing.lines).map(Line::plain).collect::<Vec<_>>(),
        "status": step.status.as_str(),
        "iteration": step.iteration,
        "total": step.spent.total.map(figures),
        "request": step.spent.request.map(figures),
    })
}

/// Returns the rows that explain the keys.
pub(super) fn help() -> Vec<Line> {
    const KEYS: [(&str, &str); 11] = [
        ("space", "pause, and continue"),
        ("n  →  Enter", "next event"),
        ("p  ←", "previous event"),
        ("↑ ↓  PgUp PgDn", "scroll"),
        ("Home  End", "first and last event"),
        ("g", "jump to a sequence, an id or a time"),
        ("/", "only a kind or a text; empty shows all"),
        ("+  -", "faster, slower"),
        ("e", "unfold long texts, and fold them"),
        ("?", "these keys"),
        ("q  Esc  Ctrl-C", "quit"),
    ];
    let key =
        |(key, what): (&str, &str)| Line::new(format!("  {key:<16}"), Style::BOLD).with(what, Style::PLAIN);
    KEYS.into_iter().map(key).collect()
}
