//! Executes calls on the store and on the model, and compares the answers.

use std::time::Duration;

use annals::store::Follower;
use annals::{Error, Position, Store};

use super::call::{Call, described, perform};
use super::check::{Checked, compare_payload, failed, look, same, search};
use super::model::{Event, File};

/// The outcome of a call that agrees with the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The call was done, or was refused as expected.
    Through,
    /// Another process had locked the file. Nothing was done.
    Busy,
}

/// Executes a call that uses only this file. Updates the model if the call was done.
pub fn carry_out(store: &Store, file: &mut File, call: &Call) -> Result<Outcome, String> {
    match call {
        Call::Look { talk } => look(store, file, talk)?,
        Call::Search { word, talk } => search(store, file, word, talk.as_ref())?,
        _ => {
            let mut after = file.clone();
            let expected = after.apply(call);
            let answer = match perform(store, call, file.is_alone) {
                Err(Error::Busy { .. }) if !file.is_alone => return Ok(Outcome::Busy),
                answer => answer.map_err(|error| described(&error)),
            };
            same("the answer", answer, expected)?;
            *file = after;
        }
    }
    Ok(Outcome::Through)
}

/// Reads the feed from a position, and checks that it returns each event once and in order.
pub struct Reader {
    follower: Follower,
    /// The last position of the model's log that was read.
    read: u64,
}

impl Reader {
    /// Continues after `before`, or starts at the beginning if there is no `before`.
    pub fn new(store: &Store, before: Option<&Self>) -> Self {
        let from = before.map_or(Position::START, Self::place);
        Self { follower: store.follow(from), read: before.map_or(0, |before| before.read) }
    }

    fn place(&self) -> Position {
        match self.follower.place() {
            annals::store::FeedPlace::Log(position) => position,
            other => panic!("the reader follows the log: {other:?}"),
        }
    }

    /// Starts after `position`.
    pub fn at(store: &Store, position: u64) -> Self {
        Self { follower: store.follow(Position(position)), read: position }
    }

    /// Marks all present events as read.
    pub fn skip_to_end(&mut self, file: &File) {
        self.read = file.head;
    }

    /// Returns whether the file has unread events.
    pub fn is_behind(&self, file: &File) -> bool {
        !file.after(self.read).is_empty()
    }

    /// Reads one page and compares it. The model must know the whole log.
    pub fn page(&mut self, file: &File, limit: usize) -> Checked {
        let before = self.read;
        let page = self.follower.next_page(limit, Duration::ZERO).map_err(failed("following"))?;
        let expected: Vec<(&str, &Event)> = file.after(before).into_iter().take(limit).collect();
        let place =
            |(name, event): &(&str, &Event)| (event.position, (*name).to_owned(), event.id().to_owned());
        let actual = page.iter().map(|one| {
            (one.event.position.0, one.conversation.to_string(), one.event.id.as_str().to_owned())
        });
        same("the feed", actual.collect::<Vec<_>>(), expected.iter().map(place).collect())?;
        for (one, (_, event)) in page.iter().zip(&expected) {
            compare_payload(&one.event, event)?;
            self.read = event.position;
        }
        Ok(())
    }

    /// Reads to the end, and compares the events of the conversations whose names begin with `prefix`.
    pub fn all(&mut self, file: &File, limit: usize, prefix: &str) -> Checked {
        let mut stored = Vec::new();
        let mut last = self.place().0;
        loop {
            let page = self.follower.next_page(limit, Duration::ZERO).map_err(failed("following"))?;
            if page.is_empty() {
                break;
            }
            for one in page {
                if one.event.position.0 <= last {
                    return Err(format!("the feed goes back from {last} to {}", one.event.position));
                }
                last = one.event.position.0;
                if one.conversation.as_str().starts_with(prefix) {
                    stored.push((one.conversation.to_string(), one.event));
                }
            }
        }
        let expected = file.after(self.read);
        let places = |name: &str, id: &str| (name.to_owned(), id.to_owned());
        same(
            "the feed",
            stored.iter().map(|(name, event)| places(name, event.id.as_str())).collect::<Vec<_>>(),
            expected.iter().map(|(name, event)| places(name, event.id())).collect(),
        )?;
        for ((_, actual), (_, event)) in stored.iter().zip(&expected) {
            compare_payload(actual, event)?;
        }
        self.read = file.head;
        Ok(())
    }
}
