//! Checks whether a conversation that is imported was stored here before, and was erased or redacted.

use super::Importer;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Problem;
use crate::transfer::discover::Found;
use crate::transfer::report::{ImportReport, ImportStatus};

impl Importer<'_> {
    /// Checks the past of a conversation that is not stored now.
    ///
    /// Returns the report of a refusal if it was erased here and the options do not accept that. `None` if it may
    /// be imported; a redaction before its deletion is then added to `problems`.
    pub(super) fn past(
        &self,
        found: &Found,
        id: &ConversationId,
        problems: &mut Vec<Problem>,
    ) -> Result<Option<ImportReport>> {
        if self.store.contains(id)? {
            return Ok(None);
        }
        let problem = |problem: String, action: &str| Problem {
            path: found.path.to_string_lossy().into_owned(),
            problem,
            action: action.into(),
        };
        if let Some(at) = self.store.retention().erased_at(id)? {
            let what = format!("it was erased here at {}", at.to_rfc3339());
            if !self.options.accept_erased {
                let refusal = problem(what, "not taken in; --accept-erased takes it in again");
                let mut report = ImportReport::of(found, Some(id.clone()), ImportStatus::Conflict);
                report.problems.push(refusal);
                return Ok(Some(report));
            }
            if !self.options.dry_run {
                self.store.note_acceptance(id, "an erased conversation")?;
            }
            problems.push(problem(what, "taken in again, as it was asked for"));
        } else if let Some(at) = self.store.redacted_at(id)? {
            let what = format!("text was taken out of it at {}, before it was deleted here", at.to_rfc3339());
            problems.push(problem(what, "taken in with that text; redact it again"));
        }
        Ok(None)
    }
}
