//! What a process left unfinished that ended in the middle of a run.
//!
//! Every action that began and was never answered is answered with an error, in its order; the reference's server
//! answers the first only. Nothing is carried out again. What waits for a person's consent goes on waiting, and what
//! another process runs is left to it.

use super::base::Change;
use super::claim::Claim;
use super::live::common;
use super::{Local, Result};
use crate::event::{AgentErrorEvent, ErrorClassification, Source};
use crate::state::ExecutionStatus;

/// What the model is told of an action that nobody will hear of again: the reference's words.
const RESTARTED: &str = "A restart occurred while this tool was in progress. This may indicate a fatal memory error \
    or system crash. The tool execution was interrupted and did not complete.";

impl Local {
    /// Answers what was left unanswered, where the conversation was running when its process ended.
    pub(super) async fn recover(&self) -> Result<()> {
        // Whoever runs it now has not left it.
        let Some(_claim) = Claim::take(self.host.store(), &self.id).await? else { return Ok(()) };
        let mut live = self.lock().await?;
        live.interrupt_goal();
        if live.base.status != ExecutionStatus::Running {
            return self.commit(&mut live).await;
        }
        live.set(Change::Status(ExecutionStatus::Error));
        let left: Vec<_> = live.branch.pending().to_vec();
        for action in left {
            let error = AgentErrorEvent {
                tool_name: action.tool_name.clone(),
                classification: ErrorClassification::INTERNAL,
                ..AgentErrorEvent::new(common(Source::Agent), &action.tool_call, RESTARTED)
            };
            live.push(error);
        }
        self.commit(&mut live).await
    }
}
