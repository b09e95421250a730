//! `annals replay`: a conversation as it happened, on a terminal with keys, elsewhere all at once.

pub(super) mod arguments;
mod player;
mod screen;
mod show;
mod speed;
#[cfg(test)]
mod tests;

pub(super) use arguments::Replay;

use super::print::{Output, width};
use super::{DONE, Place};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::replay::{Point, Recording};
use crate::store::Store;
use crate::visualizer::{Line, Options};
use player::{Player, Settings};
use show::Filter;

pub(super) fn run(place: &Place<'_>, command: &Replay, output: &Output) -> Result<u8> {
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
fn first(store: &Store, id: &ConversationId, command: &Replay) -> Result<usize> {
    let Some(from) = &command.from else { return Ok(0) };
    let events = store.conversation(id)?.event_count;
    Ok(Point::parse(store, id, from)?.length(events).saturating_sub(1) as usize)
}

fn watch(
    store: &Store,
    recording: Recording<'_>,
    from: usize,
    command: &Replay,
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
        output.remark("no event is let through");
        return Ok(());
    }
    screen::play(&mut player, output)?;
    if let Some(at) = player.at().filter(|at| at + 1 < player.len()) {
        output.remark(format!("at event {at} of {}; go on with --from {at}", player.len() - 1));
    }
    Ok(())
}

/// Prints every event that is shown, one after another.
fn print(mut recording: Recording<'_>, from: usize, command: &Replay, output: &Output) -> Result<()> {
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
        // Nothing is to be kept apart from what was not printed.
        let is_blank = |row: &Line| row.spans.is_empty();
        let blank = usize::from(is_first && rows.first().is_some_and(is_blank));
        is_first &= rows.is_empty();
        for row in &rows[blank..] {
            output.line(output.paint(row))?;
        }
    }
    Ok(())
}

fn options(command: &Replay, output: &Output) -> Options {
    Options {
        width: output.is_terminal.then(|| usize::from(width())),
        lines_max: command.lines,
        skip_user_messages: command.skip_user_messages,
    }
}
