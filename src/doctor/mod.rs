//! Finding out what is wrong with a file and its conversations, explaining it, and mending what can be
//! mended without taking anything away.
//!
//! [`Doctor::examine`] only looks. A [`Finding`] says what is wrong and where; its [`Trouble`] what that
//! means and what to do; its [`Remedy`], where there is one, what [`Doctor::repair`] would do. Invariant: a
//! repair never deletes and never rewrites. It appends events, moves HEAD, sets the status, makes derived
//! tables again or goes on with an import, and each leaves a receipt in the file.
//!
//! Whether bytes were changed is not its question but that of `annals verify`.

mod calls;
mod conversation;
mod repair;
mod skeleton;
mod trouble;
mod ways;
mod whole;

use std::collections::HashSet;

use crate::error::Result;
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::store::{ConversationFilter, Order, PAGE_MAX, Store};

pub use trouble::Trouble;

/// How thoroughly derived tables are compared with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The conversations that went on last, until so many events are reached.
    Sample(u64),
    /// Every conversation.
    Everything,
}

/// How to examine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorOptions {
    /// Only these troubles; empty for all. What is named here is also mended where it could be on purpose.
    pub only: Vec<Trouble>,
    /// Default: a sample of 100,000 events.
    pub comparison: Comparison,
    /// A conversation in which something happened less than this many microseconds ago may be running:
    /// nothing of it is mended. Default: ten minutes.
    pub quiet_for_us: i64,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        Self { only: Vec::new(), comparison: Comparison::Sample(100_000), quiet_for_us: 600_000_000 }
    }
}

/// What mends a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// HEAD goes to this event; to before everything where there is none.
    MoveHead {
        /// The event's id.
        to: Option<String>,
    },
    /// An event of the lost parent's id is appended, which says that the one that was there is lost.
    StandIn {
        /// The lost parent's id.
        id: String,
        /// The event it follows; a beginning where there is none.
        parent: Option<String>,
    },
    /// An error is appended that answers the call, as a server does after a crash.
    Answer {
        /// The action's id.
        action: String,
        /// The model's name for the call.
        call: String,
        /// The tool.
        tool: String,
    },
    /// The status in the base state becomes `error`.
    Stop,
    /// The conversation is imported again from where it came from, which adds what is not here yet.
    ImportAgain {
        /// The path.
        from: String,
    },
    /// The catalogue's row is made again from the log.
    Recatalogue,
    /// Every index is made again from its table.
    Reindex,
    /// The log's guards are made again.
    Reguard,
    /// The projection is made again from the log.
    Rebuild {
        /// Its name.
        projection: &'static str,
    },
}

impl Remedy {
    /// What it does, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::MoveHead { to: Some(to) } => format!("moves HEAD to {to}"),
            Self::MoveHead { to: None } => "moves HEAD before everything".into(),
            Self::StandIn { id, .. } => {
                format!("appends an event {id} that says the one that stood there is lost")
            }
            Self::Answer { action, .. } => format!("appends an error that answers action {action}"),
            Self::Stop => "sets the status to error".into(),
            Self::ImportAgain { from } => format!("goes on importing from {from}"),
            Self::Recatalogue => "makes its row in the catalogue again from the log".into(),
            Self::Reindex => "makes every index again from its table".into(),
            Self::Reguard => "makes the guards again as the migrations made them".into(),
            Self::Rebuild { projection } => format!("makes the projection {projection} again from the log"),
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub trouble: Trouble,
    /// The conversation; `None` where it is the file.
    pub conversation: Option<ConversationId>,
    /// The event's place in its conversation, where it concerns one.
    pub sequence: Option<Sequence>,
    /// The event's id.
    pub event: Option<String>,
    /// What exactly.
    pub what: String,
    /// Whether it is only worth knowing: nothing stumbles over it where it is.
    pub is_note: bool,
    /// What mends it; `None` where nothing does, or only a person can decide.
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// A finding about a conversation, or about the file.
    fn new(
        trouble: Trouble,
        conversation: Option<ConversationId>,
        what: String,
        remedy: Option<Remedy>,
    ) -> Self {
        Self { trouble, conversation, sequence: None, event: None, what, is_note: trouble.is_note(), remedy }
    }
}

/// What an examination saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Examination {
    /// How many conversations.
    pub conversations: u64,
    /// How many events.
    pub events: u64,
    /// In how many conversations derived tables were compared with the log.
    pub compared: u64,
    /// What is wrong, by trouble in the order of [`Trouble::ALL`], then conversation by conversation.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Whether there is nothing but notes.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.is_note)
    }
}

/// Told how many events were examined so far.
pub type OnProgress<'p> = &'p mut dyn FnMut(u64);

/// Examines and mends a store.
#[derive(Debug)]
pub struct Doctor<'s> {
    store: &'s Store,
    options: DoctorOptions,
}

impl<'s> Doctor<'s> {
    /// A doctor for `store`.
    #[must_use]
    pub fn new(store: &'s Store, options: DoctorOptions) -> Self {
        Self { store, options }
    }

    /// Examines the whole file, or one conversation of it. Changes nothing, except that projections catch up
    /// with the log where the file may be written.
    ///
    /// Memory holds one conversation's tree at a time: some hundred bytes an event.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`](crate::Error::UnknownConversation), and what reading can meet.
    pub fn examine(
        &self,
        conversation: Option<&ConversationId>,
        progress: OnProgress<'_>,
    ) -> Result<Examination> {
        let mut seen = Examination::default();
        if conversation.is_none() {
            self.examine_file(&mut seen)?;
        }
        let rest = match conversation {
            Some(id) => self.examine_one(id, &mut seen, progress),
            None => self.each_conversation(|id| self.examine_one(id, &mut seen, progress)),
        };
        let is_torn = seen.findings.iter().any(|finding| finding.trouble == Trouble::Structure);
        match rest.and_then(|()| self.compare_projections(conversation, &mut seen)) {
            Err(error) if is_torn && !error.is_transient() => {
                let what = format!("the rest was not examined: {error}");
                seen.findings.push(Finding::new(Trouble::Structure, None, what, None));
            }
            other => other?,
        }
        seen.findings.retain(|finding| self.looks_for(finding.trouble));
        seen.findings.sort_by_key(|finding| finding.trouble);
        Ok(seen)
    }

    fn looks_for(&self, trouble: Trouble) -> bool {
        self.options.only.is_empty() || self.options.only.contains(&trouble)
    }

    /// Whether someone asked for this trouble by name, and so means it to be mended.
    fn is_meant(&self, trouble: Trouble) -> bool {
        self.options.only.contains(&trouble)
    }

    /// Whether a conversation that was last added to at `at` may still be running.
    fn may_run(&self, at: Timestamp) -> bool {
        Timestamp::now().0.saturating_sub(at.0) < self.options.quiet_for_us
    }

    /// Shows every conversation there is, the oldest first; one that is added meanwhile may be left out.
    fn each_conversation(&self, mut visit: impl FnMut(&ConversationId) -> Result<()>) -> Result<()> {
        let mut after = None;
        let mut shown = HashSet::new();
        loop {
            let filter = ConversationFilter::default();
            let page = self.store.conversations(&filter, Order::Created, after.as_ref(), PAGE_MAX)?;
            for conversation in page.conversations {
                if shown.insert(conversation.id.clone()) {
                    visit(&conversation.id)?;
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }
}
