//! The calls that the simulation makes, and their answers.

use std::sync::mpsc::channel;

use annals::store::{Append, Appended, BaseStateChange, Leaf, PruneRules, Redaction};
use annals::{ConversationId, Error, EventId, Store};

/// One call with all its arguments.
#[derive(Debug, Clone)]
pub enum Call {
    Append {
        talk: String,
        append: Append,
        later: bool,
    },
    SaveState {
        talk: String,
        change: BaseStateChange,
    },
    SetLeaf {
        talk: String,
        leaf: Leaf,
    },
    SetTitle {
        talk: String,
        title: Option<String>,
    },
    Attach {
        talk: String,
        path: String,
        content: Vec<u8>,
    },
    SetFork {
        talk: String,
        from: String,
        at: Option<String>,
    },
    SetParent {
        talk: String,
        parent: String,
    },
    Delete {
        talk: String,
    },
    Erase {
        talk: String,
    },
    Redact {
        talk: String,
        event: String,
    },
    Prune {
        rules: PruneRules,
    },
    Archive {
        talks: Vec<String>,
    },
    Unarchive {
        talk: String,
    },
    Rebuild,
    Vacuum,
    EmptyLog,
    CatchUp,
    /// Compares a conversation, and everything that is derived from it, with the model.
    Look {
        talk: String,
    },
    /// Searches in one conversation, or everywhere.
    Search {
        word: String,
        talk: Option<String>,
    },
    /// Reads the next events of the feed.
    Follow {
        limit: usize,
    },
    /// Closes the handle and opens another one.
    Reopen,
    /// Brings both backups up to date.
    BackUp,
    /// Restores from a backup, and compares the whole file.
    Restore {
        from_folder: bool,
    },
    /// Copies conversations to another file. If `removes` is set, deletes them here after they were copied.
    Carry {
        talks: Vec<String>,
        removes: bool,
    },
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    Version(u64),
    Count(u64),
    /// For each event its sequence, its position (0 if other writers use the file too) and whether it was known.
    Places(Vec<(u64, u64, bool)>),
    /// The pruned conversations, sorted.
    Gone(Vec<String>),
}

/// An answer, or the `Debug` text of the error, which has all its numbers.
pub type Answered = Result<Answer, String>;

pub fn id(talk: &str) -> ConversationId {
    ConversationId::new(talk).unwrap()
}

pub fn described(error: &Error) -> String {
    format!("{error:?}")
}

pub fn places(places: &[Appended], positions: bool) -> Answer {
    let place = |one: &Appended| (one.sequence.0, if positions { one.position.0 } else { 0 }, one.known);
    Answer::Places(places.iter().map(place).collect())
}

/// Makes a call on the store. Panics for calls that compare or that concern other files.
pub fn perform(store: &Store, call: &Call, positions: bool) -> Result<Answer, Error> {
    match call {
        Call::Append { talk, append, later } => {
            let appended = match later {
                false => store.append_all(&id(talk), append.clone()),
                true => append_later(store, &id(talk), append.clone()),
            };
            appended.map(|appended| places(&appended, positions))
        }
        Call::SaveState { talk, change } => {
            store.save_base_state(&id(talk), change.clone()).map(|version| Answer::Version(version.0))
        }
        Call::SetLeaf { talk, leaf } => store.set_leaf(&id(talk), leaf.clone()).map(done),
        Call::SetTitle { talk, title } => store.set_title(&id(talk), title.as_deref()).map(done),
        Call::Attach { talk, path, content } => store.attach(&id(talk), path, content).map(done),
        Call::SetFork { talk, from, at } => {
            let at = at.as_ref().map(|at| EventId::new(at).unwrap());
            store.set_fork(&id(talk), &id(from), at.as_ref()).map(done)
        }
        Call::SetParent { talk, parent } => store.set_parent(&id(talk), &id(parent)).map(done),
        Call::Delete { talk } => store.retention().delete(&id(talk)).map(Answer::Count),
        Call::Erase { talk } => {
            store.retention().erase(&id(talk), "a test").map(|erasure| Answer::Count(erasure.events))
        }
        Call::Redact { talk, event } => {
            let event = EventId::new(event).unwrap();
            store
                .retention()
                .redact(&id(talk), Redaction::Event(&event), "a test")
                .map(|report| Answer::Count(report.events))
        }
        Call::Prune { rules } => store.retention().prune(rules, None, &mut |_| ()).map(|plan| {
            let mut gone: Vec<String> = plan.pruned.iter().map(|one| one.id.to_string()).collect();
            gone.sort();
            Answer::Gone(gone)
        }),
        Call::Archive { talks } => {
            let ids: Vec<ConversationId> = talks.iter().map(|talk| id(talk)).collect();
            store.retention().archive(&ids, None, &mut |_| ()).map(|report| Answer::Count(report.events))
        }
        Call::Unarchive { talk } => store.retention().unarchive(&id(talk), None).map(Answer::Count),
        Call::Rebuild => store.maintenance().rebuild(&[], &mut |_| ()).map(done),
        Call::Vacuum => store.maintenance().vacuum().map(done),
        Call::EmptyLog => store.maintenance().empty_log().map(done),
        Call::CatchUp => store.catch_up().map(done),
        other => panic!("{other:?} is not a call on a single store"),
    }
}

fn done<T>(_: T) -> Answer {
    Answer::Done
}

fn append_later(store: &Store, talk: &ConversationId, append: Append) -> Result<Vec<Appended>, Error> {
    let (sender, receiver) = channel();
    let done = move |answer| sender.send(answer).unwrap();
    store.append_later(talk, append, done, |lead| drop(std::thread::spawn(move || drop(lead))));
    receiver.recv().unwrap()
}
