//! One who does what was decided: asks the store, asks the model, and compares the answers.

use std::time::Duration;

use annals::store::Follower;
use annals::{Error, Position, Store};

use super::call::{Call, perform, told};
use super::check::{Checked, compare_payload, failed, look, same, search};
use super::model::{Event, File};

/// How a call went that the model agrees with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    /// It is done, or was refused as it should be.
    Through,
    /// Another process kept the file; nothing was done.
    Busy,
}

/// Does a call that concerns this file alone. The model is moved on where it is done.
pub fn carry_out(store: &Store, file: &mut File, call: &Call) -> Result<Went, String> {
    match call {
        Call::Look { talk } => look(store, file, talk)?,
        Call::Search { word, talk } => search(store, file, word, talk.as_ref())?,
        _ => {
            let mut after = file.clone();
            let expected = after.apply(call);
            let answer = match perform(store, call, file.is_alone) {
                Err(Error::Busy { .. }) if !file.is_alone => return Ok(Went::Busy),
                answer => answer.map_err(|error| told(&error)),
            };
            same("the answer", answer, expected)?;
            *file = after;
        }
    }
    Ok(Went::Through)
}

/// Reads the feed from a place on, and holds it to tell each event once and in order.
pub struct Reader {
    follower: Follower,
    /// The last place in the model's own log that was read.
    read: u64,
}

impl Reader {
    /// Reads on from where `before` was, or from the beginning.
    pub fn new(store: &Store, before: Option<&Self>) -> Self {
        let from = before.map_or(0, |before| before.follower.place());
        Self { follower: store.follow(Position(from)), read: before.map_or(0, |before| before.read) }
    }

    /// Begins in the middle of what is there.
    pub fn at(store: &Store, position: u64) -> Self {
        Self { follower: store.follow(Position(position)), read: position }
    }

    /// Takes everything that is there now as read.
    pub fn skip_to_end(&mut self, file: &File) {
        self.read = file.head;
    }

    /// Whether there is something that it has not read.
    pub fn is_behind(&self, file: &File) -> bool {
        !file.after(self.read).is_empty()
    }

    /// Reads one page, where the model knows all of the log.
    pub fn page(&mut self, file: &File, limit: usize) -> Checked {
        let before = self.read;
        let page = self.follower.next_page(limit, Duration::ZERO).map_err(failed("following"))?;
        let expected: Vec<(&str, &Event)> = file.after(before).into_iter().take(limit).collect();
        let place =
            |(name, event): &(&str, &Event)| (event.position, (*name).to_owned(), event.id().to_owned());
        let told = page.iter().map(|one| {
            (one.event.position.0, one.conversation.to_string(), one.event.id.as_str().to_owned())
        });
        same("the feed", told.collect::<Vec<_>>(), expected.iter().map(place).collect())?;
        for (one, (_, event)) in page.iter().zip(&expected) {
            compare_payload(&one.event, event)?;
            self.read = event.position;
        }
        Ok(())
    }

    /// Reads to the end, and looks at what is told of the conversations whose names begin with `prefix`.
    pub fn all(&mut self, file: &File, limit: usize, prefix: &str) -> Checked {
        let mut told = Vec::new();
        let mut last = self.follower.place();
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
                    told.push((one.conversation.to_string(), one.event));
                }
            }
        }
        let expected = file.after(self.read);
        let places = |name: &str, id: &str| (name.to_owned(), id.to_owned());
        same(
            "the feed",
            told.iter().map(|(name, event)| places(name, event.id.as_str())).collect::<Vec<_>>(),
            expected.iter().map(|(name, event)| places(name, event.id())).collect(),
        )?;
        for ((_, stored), (_, event)) in told.iter().zip(&expected) {
            compare_payload(stored, event)?;
        }
        self.read = file.head;
        Ok(())
    }
}
