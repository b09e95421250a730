//! `annals replay`: shows a conversation as it happened, on a terminal with keys, otherwise all at once. The player
//! serves people who review what an agent did (`docs/cli.md#replay`).

mod player;
mod screen;
mod show;
mod speed;
#[cfg(test)]
mod tests;

use clap::Args;

use super::print::{Output, width};
use super::select::At;
use super::{DONE, Place};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::replay::{Point, Recording};
use crate::store::Store;
use crate::visualizer::{Line, Options};
use player::{Player, Settings};
use show::Filter;
use speed::Speed;

/// Step through a conversation as it happened
///
/// On a terminal, the events appear with their original timing, and keys pause, step, jump and filter; ? shows the
/// keys. Otherwise all events are printed at once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals replay 5610a7                       from its beginning, at most 3 s between events
  annals replay 5610a7 --from 20 --step      from event 20 on, one per key
  annals replay 5610a7 --only action error   what was done, and what went wrong
  annals replay 5610a7 | less -R             all of it at once
  annals --json replay 5610a7                the same, for programs

Keys: space pause and continue; n or right next; p or left previous; g jump; / filter; + - speed; e unfold; q quit")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub moment: At,
    /// Begin with this event: a sequence, an event's id, or a time
    #[arg(long, value_name = "POINT")]
    pub from: Option<String>,
    /// The speed: 1x is the original speed, 10x ten times that, max does not wait
    #[arg(long, value_name = "SPEED", default_value_t)]
    pub speed: Speed,
    /// Begin paused: each key shows one more event
    #[arg(long)]
    pub step: bool,
    /// Only events whose kind contains one of these words (message, action, observation, error, hook, state, ...)
    #[arg(long, value_name = "KIND", num_args = 1.., value_delimiter = ',')]
    pub only: Vec<String>,
    /// End after the last event instead of waiting for a key
    #[arg(long)]
    pub no_pause: bool,
    /// Leave out the user's messages
    #[arg(long)]
    pub skip_user_messages: bool,
    /// Fold each text to this many lines; 0 for all of them
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub lines: usize,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = store.resolve(&command.moment.id)?;
    let recording = Recording::new(&store, &id, command.moment.point(&store, &id)?)?;
    let from = first(&store, &id, command)?;
    if output.json || !output.is_terminal {
        print(recording, from, command, output)?;
    } else {
        watch(&store, recording, from, command, output)?;
    }
    Ok(DONE)
}

/// The event to begin with.
fn first(store: &Store, id: &ConversationId, command: &Arguments) -> Result<usize> {
    let Some(from) = &command.from else { return Ok(0) };
    let events = store.conversation(id)?.event_count;
    Ok(Point::parse(store, id, from)?.length(events).saturating_sub(1) as usize)
}

fn watch(
    store: &Store,
    recording: Recording<'_>,
    from: usize,
    command: &Arguments,
    output: &Output,
) -> Result<()> {
    let settings = Settings {
        options: options(command, output),
        speed: command.speed,
        only: command.only.clone(),
        is_paused: command.step,
        ends: command.no_pause,
    };
    let mut player = Player::new(store, recording, from, settings)?;
    if player.at().is_none() {
        output.remark("no event matches");
        return Ok(());
    }
    screen::play(&mut player, output)?;
    if let Some(at) = player.at().filter(|at| at + 1 < player.len()) {
        output.remark(format!("at event {at} of {}; continue with --from {at}", player.len() - 1));
    }
    Ok(())
}

/// Prints every event that is shown, one after another.
fn print(mut recording: Recording<'_>, from: usize, command: &Arguments, output: &Output) -> Result<()> {
    let options = options(command, output);
    let filter = Filter { kinds: command.only.clone(), text: String::new() };
    let mut is_first = true;
    for place in from..recording.len() {
        let Some(step) = recording.step(place)? else { break };
        if !filter.lets(&step, &options) {
            continue;
        }
        if output.json {
            output.value(&show::value(&step, &options))?;
            continue;
        }
        let rows = show::rows(&step, &options);
        // The first printed event needs no blank row before it.
        let is_blank = |row: &Line| row.spans.is_empty();
        let blank = usize::from(is_first && rows.first().is_some_and(is_blank));
        is_first &= rows.is_empty();
        for row in &rows[blank..] {
            output.line(output.paint(row))?;
        }
    }
    Ok(())
}

fn options(command: &Arguments, output: &Output) -> Options {
    Options {
        width: output.is_terminal.then(|| usize::from(width())),
        lines_max: command.lines,
        skip_user_messages: command.skip_user_messages,
    }
}
