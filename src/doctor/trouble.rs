//! The kinds of findings: what each one means for the users of the conversation, and what to do.

use crate::error::{Error, Result};

/// A kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trouble {
    /// SQLite reports that the file itself is damaged.
    Structure,
    /// The guards that keep other programs from changing the log were removed or altered.
    Guards,
    /// A trigger that Annals did not create.
    StrangeTrigger,
    /// The sequences have gaps: events are missing.
    Gap,
    /// The log names something that is not in the file.
    Lost,
    /// What stands beside the events, or the chain of its changes, is not what was written.
    Changed,
    /// The catalogue does not match the log.
    Catalogue,
    /// An import, or a copy from another file, was started and not completed.
    UnfinishedImport,
    /// HEAD is not an event of the log.
    UnknownHead,
    /// The parents of some events form a circle.
    Cycle,
    /// An event names a parent that is not in the log.
    MissingParent,
    /// Events follow HEAD in a straight line, and no record says that HEAD was moved back.
    HeadBehind,
    /// A tool call has no answer.
    DanglingCall,
    /// A call was answered twice.
    TwoAnswers,
    /// Two actions have the same call id.
    RepeatedCall,
    /// An answer has no call on its branch.
    StrayAnswer,
    /// The base state says `running`, but the conversation is not active.
    StaleRun,
    /// An event of a known kind cannot be read.
    Unreadable,
    /// Events of unknown kinds.
    UnfamiliarKind,
    /// The import of the conversation found problems.
    Imported,
    /// A derived table does not match the log.
    DriftedProjection,
}

impl Trouble {
    /// All kinds, in the order in which they are reported and repaired.
    pub const ALL: &'static [Self] = &[
        Self::Structure,
        Self::Guards,
        Self::StrangeTrigger,
        Self::Gap,
        Self::Lost,
        Self::Changed,
        Self::Catalogue,
        Self::UnfinishedImport,
        Self::UnknownHead,
        Self::Cycle,
        Self::MissingParent,
        Self::HeadBehind,
        Self::DanglingCall,
        Self::TwoAnswers,
        Self::RepeatedCall,
        Self::StrayAnswer,
        Self::StaleRun,
        Self::Unreadable,
        Self::UnfamiliarKind,
        Self::Imported,
        Self::DriftedProjection,
    ];

    /// Returns the name in JSON, in receipts and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Structure => "structure",
            Self::Guards => "guards",
            Self::StrangeTrigger => "strange-trigger",
            Self::Gap => "gap",
            Self::Lost => "lost",
            Self::Changed => "changed",
            Self::Catalogue => "catalogue",
            Self::UnfinishedImport => "unfinished-import",
            Self::UnknownHead => "unknown-head",
            Self::Cycle => "cycle",
            Self::MissingParent => "missing-parent",
            Self::HeadBehind => "head-behind",
            Self::DanglingCall => "dangling-call",
            Self::TwoAnswers => "two-answers",
            Self::RepeatedCall => "repeated-call",
            Self::StrayAnswer => "stray-answer",
            Self::StaleRun => "stale-run",
            Self::Unreadable => "unreadable",
            Self::UnfamiliarKind => "unfamiliar-kind",
            Self::Imported => "imported-with-problems",
            Self::DriftedProjection => "drifted-projection",
        }
    }

    /// Returns what the finding means.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Structure => {
                "pages or indexes of the SQLite file are damaged. Possible causes: a failing disk, a copy of the file without its -wal, or another program that wrote to it"
            }
            Self::Guards => {
                "another program removed or altered the guards that protect the log, and may have changed the log too"
            }
            Self::StrangeTrigger => "it runs with every change of its table and may change what is written",
            Self::Gap => "another program removed events from the file",
            Self::Lost => "another program removed it from the file: exports, copies and backups lack it",
            Self::Changed => {
                "another program changed it: the title, the base state, an attachment, a link or a record of one of these"
            }
            Self::Catalogue => {
                "another program changed the conversation's row, or added or removed events at the end: no event can be appended until both agree"
            }
            Self::UnfinishedImport => {
                "the import was interrupted: later events, the base state and the files beside them may be missing"
            }
            Self::UnknownHead => {
                "the live branch is unknown, so the conversation cannot continue and the SDK does not load it"
            }
            Self::Cycle => {
                "these events have no path to a root event: they and all events that follow them are on no branch"
            }
            Self::MissingParent => "this event and all events that follow it have no path to a root event",
            Self::HeadBehind => {
                "the process died after it wrote these events and before it moved HEAD, or HEAD was moved back on purpose: they are on no live branch"
            }
            Self::DanglingCall => {
                "the run was interrupted while the tool was running: the next run would execute the call again without asking, and until then providers reject the history"
            }
            Self::TwoAnswers => "the model sees the first answer; a view leaves the others out",
            Self::RepeatedCall => {
                "the model gave two calls the same id: an error for one call may be matched with the other"
            }
            Self::StrayAnswer => "a view leaves it out, because providers reject an answer without its call",
            Self::StaleRun => {
                "the process that ran it has ended; a server that loads it treats the run as failed"
            }
            Self::Unreadable => {
                "it is kept and shown as it is, but no view, message or state can use it, and the SDK does not load the conversation"
            }
            Self::UnfamiliarKind => {
                "they are kept and shown; views, messages and states ignore them, and the SDK does not load the conversation"
            }
            Self::Imported => {
                "the folder that was imported has errors; everything that could be read was imported"
            }
            Self::DriftedProjection => {
                "transcripts, tool calls, usage or tasks do not match the log: another program wrote to these tables, or Annals has a defect"
            }
        }
    }

    /// Returns what to do about the finding.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::Structure => {
                "stop all programs that use the file, keep a copy of it with its -wal, and restore a backup; if only indexes do not match their tables, --repair rebuilds them; if only derived tables are damaged, `annals merge FILE --into NEW` makes a file without the damage; `annals export --all` saves every conversation that can still be read"
            }
            Self::Gap => {
                "restore the conversation from a backup (`annals copy`); `annals verify` says what else was changed"
            }
            Self::Lost => {
                "bring the conversation back from a backup: `annals restore`, or `annals copy` after `annals delete` here"
            }
            Self::Changed => {
                "compare it with a backup, and with a head that was kept elsewhere (`annals verify --against`); set what is wrong anew, or bring the conversation back from a backup"
            }
            Self::Guards => {
                "check with `annals verify --against` a head that was kept elsewhere that the log is unchanged; then create the guards again (--repair, which leaves a receipt)"
            }
            Self::StrangeTrigger => {
                "find out who created it; `DROP TRIGGER` in sqlite3 removes it. Annals does not remove it"
            }
            Self::Catalogue => {
                "check with `annals verify --against` a head kept elsewhere whether events are lost; if so, copy them from a backup (`annals copy`), else rebuild the row from the log (--repair, which leaves a receipt)"
            }
            Self::UnfinishedImport => {
                "import or copy it again from the same place: this continues the import"
            }
            Self::UnknownHead | Self::Cycle => {
                "set HEAD to an event that has a path to a root event (--repair takes the newest one)"
            }
            Self::MissingParent => {
                "put a placeholder in the place of the lost event (--repair, on the live branch), or do not use the branch"
            }
            Self::HeadBehind => {
                "move HEAD to the last of them, unless it was moved back on purpose (--only head-behind --repair)"
            }
            Self::DanglingCall => {
                "answer it with an error, as a server does after a crash (--repair); approve or reject a call that waits for confirmation instead"
            }
            Self::TwoAnswers | Self::RepeatedCall | Self::StrayAnswer => {
                "nothing: the log keeps what happened, and the view corrects it"
            }
            Self::StaleRun => "set the status to error, as a server does when it loads it (--repair)",
            Self::Unreadable => {
                "look at it with `annals events --raw`; `annals export --upgrade` reports whether an older format can be upgraded"
            }
            Self::UnfamiliarKind => "use a newer version of Annals, which may know them",
            Self::Imported => {
                "list the errors with `annals show`; if they matter, repair the folder and import it again"
            }
            Self::DriftedProjection => "rebuild it from the log (--repair, or `annals rebuild`)",
        }
    }

    /// Returns whether the finding is only information, which causes no failure.
    #[must_use]
    pub fn is_note(self) -> bool {
        match self {
            Self::TwoAnswers
            | Self::RepeatedCall
            | Self::StrayAnswer
            | Self::UnfamiliarKind
            | Self::Imported => true,
            Self::Structure
            | Self::Guards
            | Self::StrangeTrigger
            | Self::Gap
            | Self::Lost
            | Self::Changed
            | Self::Catalogue
            | Self::UnfinishedImport
            | Self::UnknownHead
            | Self::Cycle
            | Self::MissingParent
            | Self::HeadBehind
            | Self::DanglingCall
            | Self::StaleRun
            | Self::Unreadable
            | Self::DriftedProjection => false,
        }
    }
}

impl std::str::FromStr for Trouble {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|trouble| trouble.as_str() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|trouble| trouble.as_str()).collect();
            Error::UnknownTrouble { text: text.to_owned(), known: known.join(", ") }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trouble_is_found_by_its_name_and_explained() {
        for trouble in Trouble::ALL {
            assert_eq!(trouble.as_str().parse::<Trouble>().unwrap(), *trouble);
            assert!(!trouble.meaning().is_empty() && !trouble.advice().is_empty());
        }
        assert!("plague".parse::<Trouble>().unwrap_err().to_string().contains("head-behind"));
    }
}
