//! The contents of a conversation's plugins, once they are loaded.

use crate::plugin::{Merged, Resolved};

/// The contents of a conversation's plugins.
#[derive(Debug, Clone, Default)]
pub(in crate::conversation) struct Loaded {
    /// The contents of the plugins that have a source, in their order.
    pub named: Merged,
    /// The contents of the plugins found in folders.
    pub ambient: Merged,
    /// The sources and commits of the plugins in `named`.
    pub resolved: Vec<Resolved>,
    /// The marketplaces, plugins and parts of plugins that could not be used.
    pub left_out: Vec<String>,
}
