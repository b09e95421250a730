//! The state of the tasks that a conversation has given to other agents.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::agent::{AgentDocument, Policy};
use crate::secret::Cipher;
use crate::state::Metrics;

/// The values that a child takes from its parent, as of the time when the parent's tools were started.
#[derive(Debug, Clone)]
pub(in crate::conversation) struct Terms {
    pub agent: AgentDocument,
    pub policy: Policy,
    pub max_iterations: u64,
    pub max_budget: Option<f64>,
    pub cipher: Option<Cipher>,
}

/// The state of the tasks that a conversation has given.
#[derive(Debug, Default)]
pub(in crate::conversation) struct Tasks {
    pub terms: Mutex<Option<Terms>>,
    /// The costs of tasks that are not recorded yet, by usage id.
    pub spent: Mutex<Vec<(String, Metrics)>>,
    /// The number of the last task. `None` before the first one.
    pub last: tokio::sync::Mutex<Option<u32>>,
    /// The tasks that are being worked on.
    pub busy: Mutex<HashSet<String>>,
}
