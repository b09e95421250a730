//! What can be wrong, what each of it means to whoever works with the conversation, and what to do.

use crate::error::{Error, Result};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trouble {
    /// The engine finds the file itself damaged.
    Structure,
    /// What keeps other programs from changing the log was taken away or altered.
    Guards,
    /// A trigger that is not of Annals' making.
    StrangeTrigger,
    /// Sequences are not dense: events are gone.
    Gap,
    /// The catalogue does not say what the log holds.
    Catalogue,
    /// An import, or a copy from another file, began and never ended.
    UnfinishedImport,
    /// HEAD is no event of the log.
    UnknownHead,
    /// The parents of some events lead in a circle.
    Cycle,
    /// An event names a parent that is not in the log.
    MissingParent,
    /// Events follow HEAD in a straight line, and nobody is known to have gone back.
    HeadBehind,
    /// A tool was called and nothing has answered.
    DanglingCall,
    /// A call was answered twice.
    TwoAnswers,
    /// Two actions bear one name of a call.
    RepeatedCall,
    /// Something answers a call that nobody made.
    StrayAnswer,
    /// The base state says that it runs, and nothing happens.
    StaleRun,
    /// An event of a known kind cannot be read as one.
    Unreadable,
    /// Events of kinds that nobody here knows.
    UnfamiliarKind,
    /// What its import found wrong.
    Imported,
    /// A derived table does not hold what the log says.
    DriftedProjection,
}

impl Trouble {
    /// All of them, in the order in which they are told and mended.
    pub const ALL: &'static [Self] = &[
        Self::Structure,
        Self::Guards,
        Self::StrangeTrigger,
        Self::Gap,
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

    /// The name in JSON, in receipts and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Structure => "structure",
            Self::Guards => "guards",
            Self::StrangeTrigger => "strange-trigger",
            Self::Gap => "gap",
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

    /// What it means.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Structure => {
                "pages or indexes of the SQLite file are damaged: a failing disk, a copy of the file alone while it was in use, or another program's writing"
            }
            Self::Guards => {
                "another program took away or altered what keeps others from changing the log, and may have changed it"
            }
            Self::StrangeTrigger => "it runs with every change of its table and may change what is written",
            Self::Gap => "events were taken out of the file by something other than Annals",
            Self::Catalogue => {
                "the conversation's row was changed by something other than Annals, or events were put in or taken out at the end: nothing is appended until they agree"
            }
            Self::UnfinishedImport => {
                "the process that brought it in was cut short: later events, the base state and the files beside them may be missing"
            }
            Self::UnknownHead => {
                "the live branch cannot be told, so nothing can go on from it and the SDK does not load it"
            }
            Self::Cycle => {
                "there is no way from these events to a beginning: whatever hangs on them is on no branch"
            }
            Self::MissingParent => {
                "there is no way from this event, and from all that follow it, to a beginning"
            }
            Self::HeadBehind => {
                "the process died after it wrote these events and before it moved HEAD, or someone went back on purpose: they are on no live branch"
            }
            Self::DanglingCall => {
                "the run was cut short while the tool worked: a next run would carry the call out again, unasked, and until then providers refuse the history"
            }
            Self::TwoAnswers => "the model sees the first answer; a view leaves the others out",
            Self::RepeatedCall => {
                "the model gave two calls one name; an error that answers by that name may be taken for the other call's"
            }
            Self::StrayAnswer => "a view leaves it out: providers refuse an answer without its call",
            Self::StaleRun => "the process that ran it is gone; a server that loads it takes it for failed",
            Self::Unreadable => {
                "it is kept and shown as it is, but no view, message or state can use it, and the SDK does not load the conversation"
            }
            Self::UnfamiliarKind => {
                "they are kept and shown; views, messages and states pass them over, and the SDK does not load the conversation"
            }
            Self::Imported => {
                "the folder it came from was not as it should be; everything that could be read is here"
            }
            Self::DriftedProjection => {
                "transcripts, tool calls, usage or tasks are shown otherwise than the log has them: another program wrote to these tables, or a defect"
            }
        }
    }

    /// What to do where nothing is mended by itself.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::Structure => {
                "stop what uses the file, keep a copy of it with its -wal, and restore a backup, unless only indexes are wrong, which --repair makes again; `annals export --all` saves what can still be read"
            }
            Self::Gap => {
                "restore the conversation from a backup (`annals copy`); `annals verify` says what else was changed"
            }
            Self::Guards => {
                "`annals verify --against` a head that was kept elsewhere says whether the log is what it was; then make them again (--repair, which leaves a receipt)"
            }
            Self::StrangeTrigger => {
                "find out who made it; `DROP TRIGGER` in sqlite3 takes it away. Annals leaves it where it is"
            }
            Self::Catalogue => {
                "where events may be lost, `annals verify --against` a head kept elsewhere tells, and a backup has them (`annals copy`); else make the row again from the log (--repair, which leaves a receipt)"
            }
            Self::UnfinishedImport => {
                "import or copy it once more from the same place: it goes on where it was"
            }
            Self::UnknownHead | Self::Cycle => {
                "set HEAD to an event that has a way to a beginning (--repair takes the newest one)"
            }
            Self::MissingParent => {
                "let something stand where the lost event stood (--repair, on the live branch), or leave the branch alone"
            }
            Self::HeadBehind => {
                "move HEAD to the last of them, unless someone went back on purpose (--only head-behind --repair)"
            }
            Self::DanglingCall => {
                "answer it with an error, as a server does after a crash (--repair); one that waits for a person is approved or refused instead"
            }
            Self::TwoAnswers | Self::RepeatedCall | Self::StrayAnswer => {
                "nothing: the log keeps what happened, and the view mends it"
            }
            Self::StaleRun => "set the status to error, as a server does when it loads it (--repair)",
            Self::Unreadable => {
                "look at it with `annals events --raw`; `annals export --upgrade` says whether an older format can be raised"
            }
            Self::UnfamiliarKind => "a newer Annals may know them",
            Self::Imported => "`annals show` lists them; mend the folder and import it again if it matters",
            Self::DriftedProjection => "make it again from the log (--repair, or `annals rebuild`)",
        }
    }

    /// Whether it is only worth knowing: nothing stumbles over it.
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
