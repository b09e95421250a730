//! Cleans up a conversation whose process ended in the middle of a run.
//!
//! Every pending action is answered with an error, in order. The reference's server answers only the first one. No
//! action is executed again. Actions that wait for consent keep waiting. A conversation that another process runs is
//! not changed.

use crate::conversation::claim::Claim;
use crate::conversation::error::Result;
use crate::conversation::local::Local;
use crate::conversation::memory::{Change, common};
use crate::event::{AgentErrorEvent, ErrorClassification, Source};
use crate::state::ExecutionStatus;

/// The answer to an action whose result is lost, in the reference's words.
const RESTARTED: &str = "A restart occurred while this tool was in progress. This may indicate a fatal memory error \
    or system crash. The tool execution was interrupted and did not complete.";

impl Local {
    /// Answers the pending actions if the conversation was running when its process ended.
    pub(super) async fn recover(&self) -> Result<()> {
        // A conversation that is running elsewhere needs no cleanup.
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
