//! What agents can use besides their own tools: skills, plugins, sub-agents and hooks, and the catalog of tools and
//! models (`docs/reference/settings.md`).

pub(in crate::server) mod agents;
pub(in crate::server) mod catalog;
pub(super) mod installed;
pub(in crate::server) mod plugins;
pub(in crate::server) mod skills;
