//! Finds out what is wrong with a file and its conversations, explains it, and repairs what can be repaired without
//! deleting anything.
//!
//! [`Doctor::examine`] only reads. A [`Finding`] describes what is wrong and where. Its [`Trouble`] explains what that
//! means and what to do. Its [`Remedy`], if there is one, is what [`Doctor::repair`] would do. Invariant: a repair
//! never deletes and never rewrites events. It appends events, moves HEAD, sets the status, rebuilds derived tables or
//! continues an import. Each repair leaves a receipt in the file. Damage never ends an examination: what cannot be read
//! is a finding, and the rest is examined.
//!
//! The doctor does not check whether bytes were changed: `annals verify` does.

mod calls;
mod conversation;
mod repair;
mod skeleton;
mod trouble;
mod ways;
mod whole;

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::store::Store;

pub use trouble::Trouble;

/// How thoroughly derived tables are compared with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The conversations that were last active, up to this number of events.
    Sample(u64),
    /// Every conversation.
    Everything,
}

/// The options of an examination.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoctorOptions {
    /// Look only for these troubles. Empty for all. A trouble that is named here is also repaired if it may be
    /// intended.
    pub only: Vec<Trouble>,
    /// How thoroughly derived tables are compared. Default: a sample of 100,000 events.
    pub comparison: Comparison,
    /// A conversation that was active less than this many microseconds ago may be running, so it is not repaired.
    /// Default: ten minutes.
    pub quiet_for_us: i64,
}

setters!(DoctorOptions { only: Vec<Trouble>, comparison: Comparison, quiet_for_us: i64 });

impl Default for DoctorOptions {
    fn default() -> Self {
        Self { only: Vec::new(), comparison: Comparison::Sample(100_000), quiet_for_us: 600_000_000 }
    }
}

/// The repair of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// HEAD is moved to this event.
    MoveHead {
        /// The event's id. `None` moves HEAD before the first event.
        to: Option<String>,
    },
    /// A placeholder with the id of the lost parent is appended. It says that the original event is lost.
    StandIn {
        /// The lost parent's id.
        id: String,
        /// The event that it follows. `None` makes it a root event.
        parent: Option<String>,
    },
    /// An error that answers the call is appended, as a server does after a crash.
    Answer {
        /// The action's id.
        action: String,
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// The status in the base state becomes `error`.
    Stop,
    /// The conversation is imported again from its source. This adds the missing parts.
    ImportAgain {
        /// The path of the source.
        from: String,
    },
    /// The catalogue's row is rebuilt from the log.
    Recatalogue,
    /// The catalogue's row is gone. It is made anew from the log.
    BringBack,
    /// Every index is rebuilt from its table.
    Reindex,
    /// The log's guards are created again.
    Reguard,
    /// The projection is rebuilt from the log.
    Rebuild {
        /// Its name.
        projection: &'static str,
    },
}

impl Remedy {
    /// Returns a description of what the repair does.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::MoveHead { to: Some(to) } => format!("moves HEAD to {to}"),
            Self::MoveHead { to: None } => "moves HEAD before the first event".into(),
            Self::StandIn { id, .. } => {
                format!("appends an event {id} as a placeholder for the lost one")
            }
            Self::Answer { action, .. } => format!("appends an error that answers action {action}"),
            Self::Stop => "sets the status to error".into(),
            Self::ImportAgain { from } => format!("continues the import from {from}"),
            Self::Recatalogue => "rebuilds its row in the catalogue from the log".into(),
            Self::BringBack => {
                "makes its row in the catalogue anew from the log, without what only it had".into()
            }
            Self::Reindex => "rebuilds every index from its table".into(),
            Self::Reguard => "creates the guards again as the migrations do".into(),
            Self::Rebuild { projection } => format!("rebuilds the projection {projection} from the log"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of the finding.
    pub trouble: Trouble,
    /// The conversation. `None` for a finding about the file.
    pub conversation: Option<ConversationId>,
    /// The event's sequence, if the finding is about one event.
    pub sequence: Option<Sequence>,
    /// The event's id, if the finding is about one event.
    pub event: Option<String>,
    /// The details.
    pub what: String,
    /// Whether the finding is only information, which causes no failure.
    pub is_note: bool,
    /// The repair. `None` if there is none, or if a person has to decide.
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// Makes a finding about a conversation, or about the file.
    pub(crate) fn new(
        trouble: Trouble,
        conversation: Option<ConversationId>,
        what: String,
        remedy: Option<Remedy>,
    ) -> Self {
        Self { trouble, conversation, sequence: None, event: None, what, is_note: trouble.is_note(), remedy }
    }
}

/// The result of an examination.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Examination {
    /// The number of examined conversations.
    pub conversations: u64,
    /// The number of examined events.
    pub events: u64,
    /// The number of conversations whose derived tables were compared with the log.
    pub compared: u64,
    /// The findings, sorted by trouble in the order of [`Trouble::ALL`], then by conversation.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Returns whether there are no findings except notes.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.is_note)
    }

    /// Returns what was read. If reading `what` met damage, adds a finding and returns `None`.
    fn bear<T>(
        &mut self,
        conversation: Option<&ConversationId>,
        what: &str,
        read: Result<T>,
    ) -> Result<Option<T>> {
        match read {
            Err(error) if Store::is_damage(&error) => {
                self.add_damage(conversation, format!("{what} cannot be read: {error}"));
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Adds a finding about damage, which has no repair.
    fn add_damage(&mut self, conversation: Option<&ConversationId>, what: String) {
        self.findings.push(Finding::new(Trouble::Structure, conversation.cloned(), what, None));
    }
}

/// A callback that receives the number of events examined so far.
pub type OnProgress<'p> = &'p mut dyn FnMut(u64);

/// Examines and repairs a store.
#[derive(Debug)]
pub struct Doctor<'s> {
    store: &'s Store,
    options: DoctorOptions,
}

impl<'s> Doctor<'s> {
    /// Makes a doctor for `store`.
    #[must_use]
    pub fn new(store: &'s Store, options: DoctorOptions) -> Self {
        Self { store, options }
    }

    /// Examines the whole file, or one conversation. Changes nothing, except that projections catch up with the log if
    /// the file is writable.
    ///
    /// What is damaged and cannot be read is a finding of the kind [`Trouble::Structure`], also if the options do not
    /// name this kind. Memory holds the tree of one conversation at a time: some hundred bytes per event.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] if `conversation` does not exist, and the errors of reading the store, except
    /// damage.
    pub fn examine(
        &self,
        conversation: Option<&ConversationId>,
        progress: OnProgress<'_>,
    ) -> Result<Examination> {
        let mut seen = Examination::default();
        let (conversations, may_repair) = match conversation {
            Some(id) => (vec![id.clone()], true),
            None => {
                let may_repair = self.examine_file(&mut seen)?;
                (self.every_conversation(&mut seen)?, may_repair)
            }
        };
        for id in &conversations {
            match self.examine_one(id, &mut seen, progress) {
                // It was deleted meanwhile.
                Err(Error::UnknownConversation { .. }) if conversation.is_none() => {}
                Err(error @ Error::UnknownConversation { .. }) => {
                    self.examine_strays(conversation, &mut seen)?;
                    return if seen.findings.is_empty() { Err(error) } else { Ok(seen) };
                }
                examined => {
                    seen.bear(Some(id), "it", examined)?;
                }
            }
        }
        self.compare_projections(conversation, &conversations, &mut seen)?;
        seen.findings.retain(|finding| {
            // If this kind is not looked for, it only says what could not be read.
            self.looks_for(finding.trouble) || finding.trouble == Trouble::Structure
        });
        if !may_repair {
            seen.findings.iter_mut().for_each(|finding| finding.remedy = None);
        }
        seen.findings.sort_by_key(|finding| finding.trouble);
        Ok(seen)
    }

    fn looks_for(&self, trouble: Trouble) -> bool {
        self.options.only.is_empty() || self.options.only.contains(&trouble)
    }

    /// Returns whether the options name this trouble, so that it is repaired even if it may be intended.
    fn is_meant(&self, trouble: Trouble) -> bool {
        self.options.only.contains(&trouble)
    }

    /// Returns whether a conversation whose last event was recorded at `at` may still be running.
    fn may_run(&self, at: Timestamp) -> bool {
        Timestamp::now().0.saturating_sub(at.0) < self.options.quiet_for_us
    }

    /// Returns every conversation that can be found, in the order in which they came into the file. A conversation that
    /// is added meanwhile may be left out.
    fn every_conversation(&self, seen: &mut Examination) -> Result<Vec<ConversationId>> {
        let listing = self.store.every_conversation()?;
        for what in listing.damage.into_iter().chain(listing.nameless) {
            seen.add_damage(None, what);
        }
        Ok(listing.conversations.into_iter().map(|(_, id)| id).collect())
    }
}
