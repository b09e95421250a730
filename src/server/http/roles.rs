//! The table of roles: what each route needs. It is the only place that says so, and it has every route: a test compares
//! it with the router in both directions (`site/openapi/tests.rs`). A route that is not in it needs the role `admin`.
//!
//! `read` has what shows conversations, the log and reports, and changes nothing. What shows the machine is not in it:
//! files, repositories and commands of the host belong to `admin`, those of one conversation's workspace to `write`.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::Method;

use crate::store::KeyRole;

/// Routes without data: everyone may use them.
const OPEN: &[&str] = &[
    "GET /health",
    "GET /alive",
    "GET /ready",
    "GET /server_info",
    "GET /",
    "GET /page/{path}",
    "GET /openapi.json",
    "GET /docs",
    "GET /docs/page.js",
    "GET /docs/page.css",
];

/// Routes that read, and change nothing. Answers show secrets only to the role `admin`, whatever the request asks for.
const READ: &[&str] = &[
    "GET /api/conversations",
    "GET /api/conversations/search",
    "GET /api/conversations/count",
    "GET /api/conversations/{conversation_id}",
    "GET /api/conversations/{conversation_id}/runtime",
    "GET /api/conversations/{conversation_id}/agent_final_response",
    "GET /api/conversations/{conversation_id}/events",
    "GET /api/conversations/{conversation_id}/events/search",
    "GET /api/conversations/{conversation_id}/events/count",
    "GET /api/conversations/{conversation_id}/events/{event_id}",
    "GET /api/conversations/{conversation_id}/vscode/url",
    "GET /api/conversations/{conversation_id}/vscode/status",
    "GET /api/conversations/{conversation_id}/file/download-trajectory/{trajectory_id}",
    "GET /api/file/download-trajectory/{trajectory_id}",
    "GET /api/annals/conversations",
    "GET /api/annals/conversations/{conversation_id}",
    "GET /api/annals/conversations/{conversation_id}/state",
    "GET /api/annals/conversations/{conversation_id}/view",
    "GET /api/annals/conversations/{conversation_id}/messages",
    "GET /api/annals/conversations/{conversation_id}/branches",
    "GET /api/annals/conversations/{conversation_id}/events",
    "GET /api/annals/access",
    "GET /api/annals/diff",
    "GET /api/annals/search",
    "GET /api/annals/query",
    "POST /api/annals/query",
    "GET /api/annals/reports",
    "GET /api/annals/reports/{name}",
    "GET /api/annals/stats",
    "GET /api/annals/admin-log",
    "GET /api/annals/verify",
    "GET /api/annals/feed",
    "GET /metrics",
    // No tool writes there.
    "POST /mcp",
    "GET /api/settings",
    "GET /api/settings/agent-schema",
    "GET /api/settings/conversation-schema",
    "GET /api/workspaces",
    "GET /api/profiles",
    "GET /api/profiles/{name}",
    "GET /api/agent-profiles",
    "GET /api/agent-profiles/{name}",
    "GET /api/meta-profiles",
    "GET /api/meta-profiles/{name}",
    "GET /api/llm/provider-connections",
    "GET /api/llm/providers",
    "GET /api/llm/models",
    "GET /api/llm/models/verified",
    "GET /api/llm/subscription/openai/models",
    "GET /api/llm/subscription/openai/status",
    "GET /api/tools",
    "GET /api/tools/catalog",
    "GET /api/skills/catalog",
    "GET /api/skills/installed",
    "GET /api/skills/installed/{skill_name}",
    "GET /api/skills/marketplace",
    "GET /api/plugins/installed",
    "GET /api/plugins/installed/{plugin_name}",
    "GET /api/plugins/marketplace",
    "GET /v1/models",
    "GET /api/vscode/url",
    "GET /api/vscode/status",
    "GET /api/git/repositories/search",
    "GET /api/canvas-extensions/installed",
    "GET /api/canvas-extensions/installed/{extension_name}",
    "GET /api/canvas-extensions/installed/{extension_name}/backend",
    "GET /api/canvas-extensions/installed/{extension_name}/bundle",
    "GET /api/canvas-extensions/installed/{extension_name}/icon",
    // A cookie of the caller's own browser, with the caller's own key.
    "POST /api/auth/workspace-session",
    "DELETE /api/auth/workspace-session",
    // Messages that arrive on them need `write`.
    "GET /sockets/events/{conversation_id}",
    "GET /sockets/session/{conversation_id}",
];

/// Routes that answer what waits for a person, and stop what runs.
const APPROVE: &[&str] = &[
    "POST /api/conversations/{conversation_id}/events/respond_to_confirmation",
    "POST /api/conversations/{conversation_id}/pause",
    "POST /api/conversations/{conversation_id}/interrupt",
    "POST /api/conversations/{conversation_id}/goal/stop",
];

/// Routes that create, change and run conversations, and show their workspaces.
const WRITE: &[&str] = &[
    "POST /api/conversations",
    "PATCH /api/conversations/{conversation_id}",
    "POST /api/conversations/{conversation_id}/runtime/reprovision",
    "POST /api/conversations/{conversation_id}/run",
    "POST /api/conversations/{conversation_id}/secrets",
    "POST /api/conversations/{conversation_id}/confirmation_policy",
    "POST /api/conversations/{conversation_id}/security_analyzer",
    "POST /api/conversations/{conversation_id}/navigate",
    "POST /api/conversations/{conversation_id}/fork",
    "POST /api/conversations/{conversation_id}/switch_llm",
    "POST /api/conversations/{conversation_id}/switch_profile",
    "POST /api/conversations/{conversation_id}/switch_acp_model",
    "POST /api/conversations/{conversation_id}/load_plugin",
    "POST /api/conversations/{conversation_id}/ask_agent",
    "POST /api/conversations/{conversation_id}/condense",
    "POST /api/conversations/{conversation_id}/goal",
    "POST /api/conversations/{conversation_id}/goal/resume",
    "POST /api/conversations/{conversation_id}/children",
    "POST /api/conversations/{conversation_id}/events",
    "POST /api/annals/conversations/{conversation_id}/events",
    "POST /v1/chat/completions",
    "POST /api/agent-profiles/{name}/materialize",
    "POST /api/hooks",
    "POST /api/sub-agents",
    "POST /api/skills",
    "POST /api/plugins",
    "GET /api/settings/secrets",
    "GET /api/conversations/{conversation_id}/bash/bash_events/search",
    "GET /api/conversations/{conversation_id}/bash/bash_events/{event_id}",
    "GET /api/conversations/{conversation_id}/bash/bash_events/",
    "POST /api/conversations/{conversation_id}/file/upload",
    "GET /api/conversations/{conversation_id}/file/download",
    "POST /api/conversations/{conversation_id}/file/create_directory",
    "GET /api/conversations/{conversation_id}/file/archive",
    "GET /api/conversations/{conversation_id}/git/changes",
    "GET /api/conversations/{conversation_id}/git/diff",
    "GET /api/conversations/{conversation_id}/git/commits",
    "GET /api/conversations/{conversation_id}/git/commits/{sha}/changes",
    "GET /api/conversations/{conversation_id}/workspace",
    "GET /api/conversations/{conversation_id}/workspace/{file_path}",
];

/// Routes that delete, change settings, show secrets, or reach the machine itself.
const ADMIN: &[&str] = &[
    "DELETE /api/conversations/{conversation_id}",
    "PATCH /api/settings",
    "PUT /api/settings/secrets",
    "GET /api/settings/secrets/{name}",
    "DELETE /api/settings/secrets/{name}",
    "POST /api/settings/mcp/{settings_key}",
    "PATCH /api/settings/mcp/{settings_key}",
    "DELETE /api/settings/mcp/{settings_key}",
    "POST /api/workspaces",
    "DELETE /api/workspaces",
    "POST /api/workspaces/parents",
    "DELETE /api/workspaces/parents",
    "POST /api/profiles/{name}",
    "DELETE /api/profiles/{name}",
    "POST /api/profiles/{name}/rename",
    "POST /api/profiles/{name}/activate",
    "POST /api/profiles/{name}/validate",
    "POST /api/agent-profiles/{name}",
    "DELETE /api/agent-profiles/{name}",
    "POST /api/agent-profiles/{name}/rename",
    "POST /api/agent-profiles/{name}/activate",
    "POST /api/meta-profiles/{name}",
    "DELETE /api/meta-profiles/{name}",
    "POST /api/meta-profiles/{name}/activate",
    "POST /api/llm/provider-connections",
    "PATCH /api/llm/provider-connections/{connection_id}",
    "DELETE /api/llm/provider-connections/{connection_id}",
    "POST /api/llm/subscription/openai/logout",
    "POST /api/mcp/test",
    "POST /api/skills/install",
    "PATCH /api/skills/installed/{skill_name}",
    "DELETE /api/skills/installed/{skill_name}",
    "POST /api/skills/installed/{skill_name}/refresh",
    "POST /api/plugins/fetch",
    "POST /api/plugins/install",
    "PATCH /api/plugins/installed/{plugin_name}",
    "DELETE /api/plugins/installed/{plugin_name}",
    "POST /api/plugins/installed/{plugin_name}/refresh",
    "PATCH /api/canvas-extensions/installed/{extension_name}",
    "DELETE /api/canvas-extensions/installed/{extension_name}",
    "POST /api/bash/start_bash_command",
    "POST /api/bash/execute_bash_command",
    "GET /api/bash/bash_events/search",
    "GET /api/bash/bash_events/",
    "GET /api/bash/bash_events/{event_id}",
    "DELETE /api/bash/bash_events",
    "POST /api/bash/bash_commands/{command_id}/stop",
    "GET /sockets/bash-events",
    "POST /api/conversations/{conversation_id}/bash/start_bash_command",
    "POST /api/conversations/{conversation_id}/bash/execute_bash_command",
    "DELETE /api/conversations/{conversation_id}/bash/bash_events",
    "POST /api/conversations/{conversation_id}/bash/bash_commands/{command_id}/stop",
    "POST /api/file/upload",
    "GET /api/file/download",
    "POST /api/file/create_directory",
    "GET /api/file/home",
    "GET /api/file/search_subdirs",
    "GET /api/file/archive",
    "GET /api/git/changes",
    "GET /api/git/diff",
    "GET /api/git/commits",
    "GET /api/git/commits/{sha}/changes",
];

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Need {
    /// No key.
    Nothing,
    /// A key with at least this role.
    Role(KeyRole),
}

/// Returns the whole table: methods and paths, and what they need. A path may be there several times, with one method
/// each.
pub(in crate::server) fn table() -> impl Iterator<Item = (&'static str, &'static str, Need)> {
    let role = |role| Need::Role(role);
    let rows = [
        (OPEN, Need::Nothing),
        (READ, role(KeyRole::Read)),
        (APPROVE, role(KeyRole::Approve)),
        (WRITE, role(KeyRole::Write)),
        (ADMIN, role(KeyRole::Admin)),
    ];
    rows.into_iter().flat_map(|(routes, need)| {
        routes.iter().filter_map(move |route| {
            let (method, path) = route.split_once(' ')?;
            Some((method, path, need))
        })
    })
}

/// The table by path and method.
static BY_PATH: LazyLock<HashMap<&'static str, Vec<(&'static str, Need)>>> = LazyLock::new(|| {
    let mut paths: HashMap<_, Vec<_>> = HashMap::new();
    for (method, path, need) in table() {
        paths.entry(path).or_default().push((method, need));
    }
    paths
});

/// Returns what a request needs. `path` is the path of its route. What is not in the table needs `admin`.
pub(in crate::server) fn need(method: &Method, path: &str) -> Need {
    let plain = path.replace("{*", "{");
    let shorter = plain.strip_suffix('/').filter(|path| !path.is_empty());
    let Some(methods) = BY_PATH.get(&*plain).or_else(|| BY_PATH.get(shorter?)) else {
        return Need::Role(KeyRole::Admin);
    };
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let found = methods.iter().find(|(known, _)| *known == method);
    found.map_or(Need::Role(KeyRole::Admin), |(_, need)| *need)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_found_by_each_of_its_paths_and_an_unknown_one_needs_admin() {
        let read = Need::Role(KeyRole::Read);
        assert_eq!(need(&Method::GET, "/api/conversations"), read);
        assert_eq!(need(&Method::HEAD, "/api/conversations/"), read);
        assert_eq!(need(&Method::GET, "/page/{*path}"), Need::Nothing);
        assert_eq!(need(&Method::POST, "/api/conversations/"), Need::Role(KeyRole::Write));
        assert_eq!(need(&Method::GET, "/api/new"), Need::Role(KeyRole::Admin));
        assert_eq!(need(&Method::PUT, "/api/conversations"), Need::Role(KeyRole::Admin));
        assert_eq!(need(&Method::GET, "/"), Need::Nothing);
    }
}
