//! Who saw a content: the events that have it, and what was answered after them.
//!
//! Reads the log itself and not a table, so that it finds what no index knows: a part of a word, a file's whole text, a
//! picture by its digest.

mod answers;
mod wanted;

use std::borrow::Cow;

use answers::Answers;
pub use wanted::{Likeness, Wanted};

use crate::error::Result;
use crate::ids::{ConversationId, Sequence};
use crate::json::{Object, Path, Raw, Sort, decoded, walk};
use crate::store::{ConversationFilter, Order, Store};

/// The largest number of sightings of one report. Further ones are only counted.
pub const SIGHTINGS_MAX: usize = 10_000;

/// An event that has the content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sighting {
    /// The event's sequence.
    pub sequence: Sequence,
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// Its time, as written. `None` if it has none.
    pub timestamp: Option<String>,
    /// The tool that the event is about. `None` if it is about none.
    pub tool: Option<String>,
    /// The first place in the event that has the content, such as `observation.content[0].text`: of the places that a model
    /// is sent, if one of these has it.
    pub place: String,
    /// Whether a model is sent the text of this place. Events also have texts for programs, such as the whole file before
    /// an edit.
    pub is_sent: bool,
    /// How that place has it.
    pub likeness: Likeness,
    /// The number of a model's replies after the event, on all branches, until it was condensed away. Each was made with
    /// the content before it. 0 if the place is not sent.
    pub replies: u64,
    /// The models that wrote these replies, as far as the log says it, in order of their names.
    pub models: Vec<String>,
    /// Whether the event is on the live branch and in what the model sees now.
    pub is_in_view: bool,
}

/// A conversation that has the content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenBy {
    /// The conversation.
    pub conversation: ConversationId,
    /// Its events with the content, in the order of the log.
    pub sightings: Vec<Sighting>,
    /// Its attachments with the content, by path: files beside the log that no model was sent. They are looked for by the
    /// digest alone.
    pub attachments: Vec<String>,
}

/// The answer to who saw a content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SeenReport {
    /// The conversations that have it, the oldest first.
    pub conversations: Vec<SeenBy>,
    /// The number of sightings beyond [`SIGHTINGS_MAX`].
    pub left_off: u64,
    /// The number of conversations that were searched.
    pub searched: u64,
    /// The number of events that were searched.
    pub events: u64,
}

/// Finds the events that have a content, in all conversations that `filter` admits.
///
/// `progress` gets the number of events so far. An event whose payload is archived is read as any other.
///
/// ```
/// use annals::audit::{Wanted, seen};
/// # use annals::{Options, Store};
/// # let store = Store::in_memory(&Options::default())?;
/// let wanted = Wanted::text("postgres://").expect("it is not empty");
/// for by in seen(&store, &wanted, &Default::default(), &mut |_| ())?.conversations {
///     println!("{}: {} events", by.conversation, by.sightings.len());
/// }
/// # Ok::<(), annals::Error>(())
/// ```
///
/// # Errors
/// Any error of reading.
pub fn seen(
    store: &Store,
    wanted: &Wanted,
    filter: &ConversationFilter,
    progress: &mut dyn FnMut(u64),
) -> Result<SeenReport> {
    let mut report = SeenReport::default();
    for conversation in store.iter(filter, Order::default()) {
        report.search(store, wanted, &conversation?.id, progress)?;
    }
    Ok(report)
}

/// Finds the events of one conversation that have a content; see [`seen`].
///
/// # Errors
/// [`Error::UnknownConversation`](crate::Error::UnknownConversation), and any error of reading.
pub fn seen_in(
    store: &Store,
    wanted: &Wanted,
    conversation: &ConversationId,
    progress: &mut dyn FnMut(u64),
) -> Result<SeenReport> {
    let mut report = SeenReport::default();
    report.search(store, wanted, conversation, progress)?;
    Ok(report)
}

impl SeenReport {
    /// Returns the number of sightings, without those that were left off.
    #[must_use]
    pub fn sightings(&self) -> usize {
        self.conversations.iter().map(|by| by.sightings.len()).sum()
    }

    /// Adds what one conversation has.
    fn search(
        &mut self,
        store: &Store,
        wanted: &Wanted,
        id: &ConversationId,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut room = SIGHTINGS_MAX.saturating_sub(self.sightings());
        let mut sightings = Vec::new();
        self.searched += 1;
        store.scan(id, Sequence(0), |stored| {
            self.events += 1;
            if self.events.is_multiple_of(1000) {
                progress(self.events);
            }
            let Some(found) = find(wanted, stored.payload) else { return Ok(true) };
            if room == 0 {
                self.left_off += 1;
                return Ok(true);
            }
            room -= 1;
            let payload = Object::of(stored.payload);
            sightings.push(Sighting {
                sequence: stored.sequence,
                id: stored.id.to_owned(),
                kind: stored.kind.to_owned(),
                timestamp: payload.text("timestamp").map(Cow::into_owned),
                tool: payload.text("tool_name").map(Cow::into_owned),
                place: found.place,
                is_sent: found.is_sent,
                likeness: found.likeness,
                replies: 0,
                models: Vec::new(),
                is_in_view: false,
            });
            Ok(true)
        })?;
        progress(self.events);
        let attachments = store.attachments(id)?.into_iter();
        let attachments: Vec<String> = attachments
            .filter(|file| wanted.is_digest(|digest| file.is_or_was(digest)))
            .map(|file| file.path)
            .collect();
        if !sightings.is_empty() {
            Answers::read(store, id)?.complete(store, id, &mut sightings)?;
        }
        if !sightings.is_empty() || !attachments.is_empty() {
            self.conversations.push(SeenBy { conversation: id.clone(), sightings, attachments });
        }
        Ok(())
    }
}

/// A place in an event that has the content.
struct Found {
    place: String,
    likeness: Likeness,
    is_sent: bool,
}

/// Returns the first place of an event that has the content; one that a model is sent, if there is one. The copy of another
/// program's record that an event carries is not looked at, because the event says the same.
fn find(wanted: &Wanted, payload: &str) -> Option<Found> {
    if !wanted.may_be_in(payload) {
        return None;
    }
    let mut found: Option<Found> = None;
    let Ok(event) = Raw::parse(payload) else {
        // A damaged payload has no members, and was never sent.
        return wanted.is_in(payload).map(|likeness| Found {
            place: String::new(),
            likeness,
            is_sent: false,
        });
    };
    walk(event, &mut |leaf, path| {
        if leaf.sort != Sort::Text || path.member(0) == Some("provenance") {
            return;
        }
        let is_sent = is_sent(path);
        if found.as_ref().is_some_and(|found| found.is_sent || !is_sent) {
            return;
        }
        if let Some(likeness) = wanted.is_in(&decoded(leaf.raw)) {
            found = Some(Found { place: path.to_string(), likeness, is_sent });
        }
    });
    found
}

/// Returns whether the texts at a place of an event are part of what a model is sent (`docs/reference/messages.md`). Events
/// of OpenHands V0 have other members; `args` and `content` were sent.
fn is_sent(path: &Path) -> bool {
    match path.member(0) {
        Some("observation") => path.member(1) == Some("content"),
        Some(
            "llm_message"
            | "extended_content"
            | "system_prompt"
            | "dynamic_context"
            | "tools"
            | "thought"
            | "reasoning_content"
            | "thinking_blocks"
            | "responses_reasoning_item"
            | "tool_call"
            | "action"
            | "error"
            | "rejection_reason"
            | "summary"
            | "args"
            | "content",
        ) => true,
        _ => false,
    }
}
