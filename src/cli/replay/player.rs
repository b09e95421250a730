//! The state of the screen, and what keys change in it. It uses no terminal: it takes keys and returns rows.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::show::{self, Filter};
use super::speed::Speed;
use crate::cli::print::count;
use crate::error::Result;
use crate::replay::{Point, Recording, Step};
use crate::store::Store;
use crate::visualizer::{Colour, Line, Options, Style, abbreviated, columns, cut};

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Left,
    Right,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C and Ctrl-D.
    Interrupt,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Go,
    Quit,
}

/// How a conversation is played.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub options: Options,
    pub speed: Speed,
    pub only: Vec<String>,
    pub is_paused: bool,
    /// Whether to end after the last event.
    pub ends: bool,
}

/// What the user types into the last row.
#[derive(Debug, Clone, PartialEq)]
enum Prompt {
    Jump(String),
    Filter(String),
}

/// The contents of the screen.
pub(super) struct Frame {
    /// All rows except the last.
    pub rows: Vec<Line>,
    /// The last row.
    pub status: Line,
}

pub(super) struct Player<'s> {
    store: &'s Store,
    recording: Recording<'s>,
    settings: Settings,
    filter: Filter,
    /// Whether the filter shows an event, by place. Only for events that were already checked.
    known_matches: HashMap<usize, bool>,
    /// The last event that is shown. `None` if the filter shows no event.
    at: Option<usize>,
    is_playing: bool,
    is_unfolded: bool,
    shows_help: bool,
    prompt: Option<Prompt>,
    /// Why the last key had no effect, if it had none.
    message: Option<String>,
    /// The number of rows below the screen. `None` for the number that shows the last event from its title on.
    scroll: Option<usize>,
    /// The number of rows below the screen in the last frame.
    scrolled: usize,
    /// The number of rows in a page.
    page: usize,
}

impl<'s> Player<'s> {
    /// Makes a player at the first shown event from `from` on, or else at the last shown event before it.
    pub(super) fn new(
        store: &'s Store,
        recording: Recording<'s>,
        from: usize,
        settings: Settings,
    ) -> Result<Self> {
        let filter = Filter { kinds: settings.only.clone(), text: String::new() };
        let mut player = Self {
            store,
            recording,
            filter,
            known_matches: HashMap::new(),
            at: None,
            is_playing: !settings.is_paused,
            is_unfolded: false,
            shows_help: false,
            prompt: None,
            message: None,
            scroll: None,
            scrolled: 0,
            page: 1,
            settings,
        };
        player.settle(from)?;
        Ok(player)
    }

    /// Returns the last event that is shown.
    pub(super) fn at(&self) -> Option<usize> {
        self.at
    }

    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        self.recording.len()
    }

    /// Returns the time between the last shown event and the next one. `None` if the player waits for a key.
    pub(super) fn wait(&mut self) -> Result<Option<Duration>> {
        let Some(at) = self.at.filter(|_| self.is_playing && self.prompt.is_none() && !self.shows_help)
        else {
            return Ok(None);
        };
        let Some(next) = self.following()? else { return Ok(None) };
        Ok(Some(self.settings.speed.wait(self.recording.elapsed(at, next)?)))
    }

    /// Shows the next event, which is due. Stops playing at the last event.
    pub(super) fn advance(&mut self) -> Result<()> {
        match self.following()? {
            Some(next) => self.go(next),
            None => self.is_playing = false,
        }
        self.is_playing &= self.following()?.is_some();
        Ok(())
    }

    /// Returns whether the last event is shown and the player does not wait for a key.
    pub(super) fn is_over(&mut self) -> Result<bool> {
        Ok(self.settings.ends && self.following()?.is_none())
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: Key) -> Result<Flow> {
        self.message = None;
        if key == Key::Interrupt {
            return Ok(Flow::Quit);
        }
        if let Some(prompt) = self.prompt.take() {
            self.type_into(prompt, key)?;
            return Ok(Flow::Go);
        }
        if std::mem::take(&mut self.shows_help) {
            return Ok(Flow::Go);
        }
        match key {
            Key::Char('q') | Key::Escape => return Ok(Flow::Quit),
            Key::Char(' ') => self.play_or_pause()?,
            Key::Char('n') | Key::Right | Key::Enter => {
                self.is_playing = false;
                match self.following()? {
                    Some(next) => self.go(next),
                    None => self.message = Some("that was the last event".into()),
                }
            }
            Key::Char('p') | Key::Left => {
                self.is_playing = false;
                match self.at.map_or(Ok(None), |at| self.last_before(at))? {
                    Some(before) => self.go(before),
                    None => self.message = Some("that was the first event".into()),
                }
            }
            Key::Home => self.settle(0)?,
            Key::End => self.settle(usize::MAX)?,
            Key::Up => self.scroll_by(1),
            Key::Down => self.scroll_by(-1),
            Key::PageUp => self.scroll_by(self.page as isize),
            Key::PageDown => self.scroll_by(-(self.page as isize)),
            Key::Char('g') => self.prompt = Some(Prompt::Jump(String::new())),
            Key::Char('/') => self.prompt = Some(Prompt::Filter(String::new())),
            Key::Char('+' | '=') => self.settings.speed = self.settings.speed.faster(),
            Key::Char('-' | '_') => self.settings.speed = self.settings.speed.slower(),
            Key::Char('e') => {
                self.is_unfolded = !self.is_unfolded;
                self.scroll = None;
            }
            Key::Char('?' | 'h') => self.shows_help = true,
            Key::Char(_) | Key::Backspace | Key::Interrupt => {}
        }
        Ok(Flow::Go)
    }

    /// Starts or pauses playing. At the end, it starts again from the beginning.
    fn play_or_pause(&mut self) -> Result<()> {
        self.is_playing = !self.is_playing;
        if self.is_playing && self.following()?.is_none() {
            self.settle(0)?;
            self.is_playing = true;
        }
        Ok(())
    }

    fn type_into(&mut self, prompt: Prompt, key: Key) -> Result<()> {
        let (mut text, is_jump) = match prompt {
            Prompt::Jump(text) => (text, true),
            Prompt::Filter(text) => (text, false),
        };
        match key {
            Key::Char(character) => text.push(character),
            // Backspace in an empty prompt closes it.
            Key::Backspace if text.pop().is_none() => return Ok(()),
            Key::Escape => return Ok(()),
            Key::Enter if is_jump => return self.jump(&text),
            Key::Enter => return self.filter_by(text),
            _ => {}
        }
        self.prompt = Some(if is_jump { Prompt::Jump(text) } else { Prompt::Filter(text) });
        Ok(())
    }

    fn jump(&mut self, text: &str) -> Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        match Point::parse(self.store, self.recording.id(), text) {
            Ok(point) => {
                let length = point.length(self.recording.len() as u64);
                self.is_playing = false;
                self.go((length as usize).saturating_sub(1));
            }
            Err(error) => self.message = Some(error.to_string()),
        }
        Ok(())
    }

    fn filter_by(&mut self, text: String) -> Result<()> {
        self.filter.text = text.trim().to_owned();
        self.known_matches.clear();
        self.settle(self.at.unwrap_or(0))
    }

    fn go(&mut self, place: usize) {
        self.at = Some(place);
        self.scroll = None;
    }

    /// Goes to the first shown event from `place` on, or else to the last shown event before it.
    fn settle(&mut self, place: usize) -> Result<()> {
        self.scroll = None;
        self.at = match self.next_from(place.min(self.recording.len()))? {
            Some(next) => Some(next),
            None => self.last_before(place.min(self.recording.len()))?,
        };
        Ok(())
    }

    fn scroll_by(&mut self, rows: isize) {
        self.scroll = Some(self.scroll.unwrap_or(self.scrolled).saturating_add_signed(rows));
    }

    /// Returns the next event after the last shown one.
    fn following(&mut self) -> Result<Option<usize>> {
        self.next_from(self.at.map_or(0, |at| at + 1))
    }

    fn next_from(&mut self, place: usize) -> Result<Option<usize>> {
        for place in place..self.recording.len() {
            if self.is_match(place)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn last_before(&mut self, place: usize) -> Result<Option<usize>> {
        for place in (0..place).rev() {
            if self.is_match(place)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn is_match(&mut self, place: usize) -> Result<bool> {
        if self.filter.is_open() && !self.settings.options.skip_user_messages {
            return Ok(true);
        }
        if let Some(known) = self.known_matches.get(&place) {
            return Ok(*known);
        }
        let step = self.recording.step(place)?;
        let is_match = step.is_some_and(|step| self.filter.lets(&step, &self.settings.options));
        self.known_matches.insert(place, is_match);
        Ok(is_match)
    }

    /// Returns the contents of a screen of `width` columns and `height` rows.
    pub(super) fn frame(&mut self, width: usize, height: usize) -> Result<Frame> {
        let room = height.saturating_sub(1);
        self.page = room.saturating_sub(2).max(1);
        let step = match self.at {
            Some(at) => self.recording.step(at)?,
            None => None,
        };
        let status = self.status(step.as_ref(), width);
        if self.shows_help {
            return Ok(Frame { rows: padded(show::help(), room), status });
        }
        let Some((at, step)) = self.at.zip(step) else {
            let nothing = if self.recording.is_empty() { "no events" } else { "no event matches" };
            return Ok(Frame { rows: padded(vec![Line::new(nothing, Style::DIM)], room), status });
        };
        let lines_max = if self.is_unfolded { 0 } else { self.settings.options.lines_max };
        let options = Options { width: Some(width), lines_max, skip_user_messages: false };
        let last = show::rows(&step, &options);
        let wanted = self.scroll.unwrap_or_else(|| last.len().saturating_sub(room));
        let mut rows = VecDeque::from(last);
        let mut first = at;
        while rows.len() < room + wanted {
            let Some(before) = self.last_before(first)? else { break };
            let Some(step) = self.recording.step(before)? else { break };
            for row in show::rows(&step, &options).into_iter().rev() {
                rows.push_front(row);
            }
            first = before;
        }
        self.scrolled = wanted.min(rows.len().saturating_sub(room));
        self.scroll = self.scroll.map(|_| self.scrolled);
        let end = rows.len() - self.scrolled;
        let rows: Vec<Line> = rows.into_iter().take(end).skip(end.saturating_sub(room)).collect();
        Ok(Frame { rows: padded(rows, room), status })
    }

    fn status(&self, step: Option<&Step>, width: usize) -> Line {
        match &self.prompt {
            Some(Prompt::Jump(text)) => {
                return Line::new(format!("jump to (sequence, id, time): {text}_"), Style::BOLD);
            }
            Some(Prompt::Filter(text)) => {
                return Line::new(format!("only (kind or text): {text}_"), Style::BOLD);
            }
            None => {}
        }
        if let Some(message) = &self.message {
            return Line::new(cut(message, width), Style::BOLD.in_colour(Colour::Red));
        }
        let is_end = self.at.is_none_or(|at| at + 1 == self.recording.len());
        let mark = match (self.is_playing, is_end) {
            (true, _) => "▶",
            (false, true) => "■",
            (false, false) => "‖",
        };
        let mut line = Line::new(format!(" {mark} "), Style::BOLD);
        if let Some(step) = step {
            let last = self.recording.len().saturating_sub(1);
            line = line.with(format!("{}/{last}", step.sequence), Style::BOLD);
            let mut facts = vec![
                show::clock(step).unwrap_or_default().to_owned(),
                step.status.as_str().to_owned(),
                format!("step {}", count(step.iteration)),
            ];
            if let Some(total) = &step.spent.total {
                let (input, output) =
                    (abbreviated(total.prompt_tokens), abbreviated(total.completion_tokens));
                facts.push(format!("↑{input} ↓{output}"));
                facts.push(total.bill.in_words());
            }
            facts.push(self.settings.speed.to_string());
            if !self.filter.text.is_empty() {
                facts.push(format!("/{}", self.filter.text));
            }
            for fact in facts.iter().filter(|fact| !fact.is_empty()) {
                line = line.with(format!("  {fact}"), Style::PLAIN);
            }
        }
        let hint = ["space pause  ←→ step  ? keys  q quit", "? keys  q quit", ""];
        let room = width.saturating_sub(line.width() + 3);
        let hint = hint.into_iter().find(|hint| columns(hint) <= room).unwrap_or_default();
        let gap = width.saturating_sub(line.width() + columns(hint) + 1);
        line.with(" ".repeat(gap), Style::PLAIN).with(hint, Style::DIM)
    }
}

/// Returns `rows`, filled up with empty rows to `height`.
fn padded(mut rows: Vec<Line>, height: usize) -> Vec<Line> {
    rows.resize(height, Line::default());
    rows
}
