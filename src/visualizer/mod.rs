//! Draws events for people: every kind of event becomes a [`Drawing`].
//!
//! Titles, colours and contents follow the reference's own visualizer (`docs/reference/visualizer.md`). The events that
//! it leaves out (errors of a run, interruptions, hooks, risk analyses, state updates, token counts) are drawn too, in
//! one line if that is enough. A drawing is a value: this module prints nothing, reads nothing, and does not know where
//! events are stored or how colours are made. Invariant: no text of an event, however it was written, brings a control
//! character into a drawing.
//!
//! ```
//! use annals::event::{Given, upcast};
//! use annals::state::Ledger;
//! use annals::visualizer::{Options, draw};
//!
//! let payload = r#"{"id":"e1","source":"user","kind":"MessageEvent",
//!     "llm_message":{"role":"user","content":[{"type":"text","text":"Run the tests"}]}}"#;
//! let event = upcast::read(payload, &Given::default())?.event;
//! let spent = Ledger::new().apply(&event);
//! let options = Options::default().width(40);
//! let drawing = draw(&event, &spent, &options).expect("user messages are not skipped");
//! let rows: Vec<String> = drawing.rows(options.width, "#0").iter().map(|row| row.plain()).collect();
//! assert_eq!(rows, ["── Message from User ───────────── #0 ──", "  Run the tests"]);
//! # Ok::<(), annals::event::DecodeError>(())
//! ```

mod action;
mod files;
mod harmless;
mod layout;
mod machinery;
mod observation;
mod page;
mod said;
mod style;
mod usage;

pub use harmless::{escaped, harmless, one_line};
pub use layout::{columns, cut};
pub use observation::task_line;
pub use style::{Colour, Line, Span, Style};
pub use usage::abbreviated;

use crate::event::{Event, Source, inert};
use crate::state::Spent;
use page::Page;

/// The columns of a title's rule if no width is given.
const RULE: usize = 80;
/// The number of columns by which lines are indented below titles.
const INDENT: usize = 2;

/// Options for drawings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The most columns of a row. `None` if lines are not to be wrapped.
    pub width: Option<usize>,
    /// The most lines of a text. The middle of a longer text is folded. 0 for no limit.
    pub lines_max: usize,
    /// Leave out the messages of the person, who knows them already.
    pub skip_user_messages: bool,
}

setters!(Options { width?: usize, lines_max: usize, skip_user_messages: bool });

impl Default for Options {
    /// 80 columns, 20 lines per text, all messages.
    fn default() -> Self {
        Self { width: Some(RULE), lines_max: 20, skip_user_messages: false }
    }
}

/// How much room a drawing takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A rule with the title, the lines below it, the metrics below them.
    Block,
    /// A remark: the title with the first line beside it, and the other lines below.
    Remark,
}

/// The drawing of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drawing {
    /// What the event is: `Agent Action`.
    pub title: String,
    /// What the event concerns: the tool, the hook's point, the field. It may be empty.
    pub subject: String,
    /// The title's colour.
    pub colour: Colour,
    /// How much room it takes.
    pub form: Form,
    /// The contents, folded and wrapped.
    pub lines: Vec<Line>,
    /// Tokens and cost, in one line if they fit. Empty if they are not known or the kind has none.
    pub metrics: Vec<Line>,
}

/// The parts of a drawing, besides its lines, that depend on the kind of event.
struct Face {
    title: String,
    subject: String,
    colour: Colour,
    form: Form,
    has_metrics: bool,
}

impl Face {
    fn block(title: impl Into<String>, colour: Colour) -> Self {
        Self { title: title.into(), subject: String::new(), colour, form: Form::Block, has_metrics: false }
    }

    fn remark(title: impl Into<String>, colour: Colour) -> Self {
        Self { form: Form::Remark, ..Self::block(title, colour) }
    }

    fn of(mut self, subject: &str) -> Self {
        self.subject = page::title(subject);
        self
    }

    fn with_metrics(mut self) -> Self {
        self.has_metrics = true;
        self
    }
}

/// Draws an event of any kind, with the usage that was known right after it.
///
/// `None` only for a person's message, if `options` skip them.
#[must_use]
pub fn draw(event: &Event, spent: &Spent, options: &Options) -> Option<Drawing> {
    let mut page = Page::new(options);
    let face = match event {
        Event::Message(message) => {
            if options.skip_user_messages && message.common.source == Source::User {
                return None;
            }
            said::message(message, &mut page)
        }
        Event::SystemPrompt(prompt) => said::system_prompt(prompt, &mut page),
        Event::Action(action) => action::action(action, &mut page),
        Event::Observation(result) => observation::observation(result, &mut page),
        Event::UserReject(rejection) => observation::rejection(rejection, &mut page),
        Event::AgentError(error) => observation::agent_error(error, &mut page),
        Event::Condensation(condensation) => said::condensation(condensation, &mut page),
        Event::CondensationSummary(summary) => said::summary(&summary.summary, &mut page),
        Event::CondensationRequest(_) => Face::block("Condensation Request", Colour::Magenta),
        Event::Pause(_) => Face::block("User Paused", Colour::BrightYellow),
        Event::Interrupt(_) => Face::block("User Interrupted", Colour::Red),
        Event::ConversationError(error) => {
            let classification = error.classification.as_ref();
            machinery::failure("Conversation Error", &error.code, &error.detail, classification, &mut page)
        }
        Event::StateUpdate(update) => machinery::state_update(update, &mut page),
        inert!() => machinery::record(event, &mut page),
        Event::Unknown(unknown) => machinery::unknown(unknown, &mut page),
    };
    let room = options.width.map(|width| width.saturating_sub(INDENT));
    let metrics = if face.has_metrics { usage::lines(spent, room) } else { Vec::new() };
    Some(Drawing {
        title: face.title,
        subject: face.subject,
        colour: face.colour,
        form: face.form,
        lines: page.into_lines(),
        metrics,
    })
}

impl Drawing {
    /// Returns the drawing in rows, with `note` (a place, a time) at the right of the first row. A rule is `width`
    /// columns long, or 80.
    #[must_use]
    pub fn rows(&self, width: Option<usize>, note: &str) -> Vec<Line> {
        let (width, note) = (width.unwrap_or(RULE), one_line(note, RULE));
        match self.form {
            Form::Block => self.block(width, &note),
            Form::Remark => self.remark(width, &note),
        }
    }

    fn block(&self, width: usize, note: &str) -> Vec<Line> {
        let tail = if note.is_empty() { String::new() } else { format!(" {note} ──") };
        let head = self.head("── ", width.saturating_sub(columns(&tail) + 3));
        let dashes = width.saturating_sub(head.width() + 1 + columns(&tail)).max(2);
        let rule = Style::from(self.colour);
        let mut rows = vec![head.with(format!(" {}", "─".repeat(dashes)), rule).with(tail, Style::DIM)];
        rows.extend(self.lines.iter().chain(&self.metrics).map(indented));
        rows
    }

    fn remark(&self, width: usize, note: &str) -> Vec<Line> {
        let room = width.saturating_sub(columns(note) + 2);
        let mut head = self.head("· ", room);
        let mut below = self.lines.iter().chain(&self.metrics);
        if let Some(first) = self.lines.first().filter(|first| head.width() + 2 + first.width() <= room) {
            head = head.with("  ", Style::PLAIN);
            head.spans.extend(first.spans.iter().cloned());
            below.next();
        }
        let gap = width.saturating_sub(head.width() + columns(note));
        if !note.is_empty() {
            head = head.with(" ".repeat(gap.max(1)), Style::PLAIN).with(note, Style::DIM);
        }
        let mut rows = vec![head];
        rows.extend(below.map(indented));
        rows
    }

    /// Returns title and subject after a mark. They take at most `width` columns, unless the title is longer.
    fn head(&self, mark: &str, width: usize) -> Line {
        let head = Line::new(mark, self.colour).with(&*self.title, Style::BOLD.in_colour(self.colour));
        let room = width.saturating_sub(head.width() + 3);
        let subject = cut(&self.subject, room);
        if subject.is_empty() { head } else { head.with(format!(" · {subject}"), self.colour) }
    }
}

/// Indents a line. Text of an event never begins where a title begins, so that an event cannot fake a title.
fn indented(line: &Line) -> Line {
    let mut row = Line::new(" ".repeat(INDENT), Style::PLAIN);
    row.spans.extend(line.spans.iter().cloned());
    row
}
