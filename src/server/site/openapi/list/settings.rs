//! Settings, profiles, secrets, skills, tools and plugins (`docs/reference/settings.md`).

use super::NOT_YET;
use crate::server::site::openapi::operation::{Group, Kind, delete, get, may, patch, post, put};

pub(in crate::server::site::openapi) const SETTINGS: Group = Group {
    name: "Settings",
    operations: &[
        get("/api/settings", "Shows the settings").answers("Anything"),
        patch("/api/settings", "Changes settings").takes("Anything").answers("Anything"),
        get("/api/settings/secrets", "The names of stored secrets").answers("Anything"),
        put("/api/settings/secrets", "Stores a secret").takes("StoredSecret").answers("Anything"),
        get("/api/settings/secrets/{name}", "A secret's value").sends("text/plain").refuses(&[404]),
        delete("/api/settings/secrets/{name}", "Deletes a secret").answers("Anything").refuses(&[404]),
        get("/api/settings/agent-schema", "The schema of an agent's settings").answers("Anything"),
        get("/api/settings/conversation-schema", "The schema of a conversation's settings")
            .answers("Anything"),
        post("/api/settings/mcp/{settings_key}", "Adds an MCP server")
            .takes("Anything")
            .makes("Anything")
            .refuses(&[409]),
        patch("/api/settings/mcp/{settings_key}", "Changes an MCP server")
            .takes("Anything")
            .answers("Anything")
            .refuses(&[404]),
        delete("/api/settings/mcp/{settings_key}", "Removes an MCP server")
            .answers("Anything")
            .refuses(&[404]),
        get("/api/workspaces", "Lists the remembered folders"),
        post("/api/workspaces", "Remembers folders"),
        delete("/api/workspaces", "Forgets a folder"),
        post("/api/workspaces/parents", "Remembers folders of folders"),
        delete("/api/workspaces/parents", "Forgets a folder of folders"),
    ],
};

pub(in crate::server::site::openapi) const PROFILES: Group = Group {
    name: "Profiles",
    operations: &[
        get("/api/profiles", "Lists the profiles of models").answers("Anything"),
        get("/api/profiles/{name}", "Shows one").answers("Anything").refuses(&[404]),
        post("/api/profiles/{name}", "Saves one").takes("SaveProfile").makes("Anything").refuses(&[409]),
        delete("/api/profiles/{name}", "Deletes one").answers("Anything").refuses(&[404, 409]),
        post("/api/profiles/{name}/rename", "Renames one")
            .takes("Rename")
            .answers("Anything")
            .refuses(&[404, 409]),
        post("/api/profiles/{name}/activate", "Activates one: its model becomes the model of the settings")
            .answers("Anything")
            .refuses(&[404]),
        post("/api/profiles/{name}/validate", "Tests one").takes("SaveProfile").answers("Anything"),
        get("/api/agent-profiles", "Lists the profiles of agents").answers("Anything"),
        get("/api/agent-profiles/{name}", "Shows one").answers("Anything").refuses(&[404]),
        post("/api/agent-profiles/{name}", "Saves one").takes("Anything").makes("Anything").refuses(&[409]),
        delete("/api/agent-profiles/{name}", "Deletes one").answers("Anything"),
        post("/api/agent-profiles/{name}/rename", "Renames one")
            .takes("Rename")
            .answers("Anything")
            .refuses(&[404, 409]),
        post("/api/agent-profiles/{name}/activate", "Activates the one with that id")
            .answers("Anything")
            .refuses(&[404]),
        post(
            "/api/agent-profiles/{name}/materialize",
            "Shows the settings that a conversation with it would start with",
        )
        .may_take("Anything")
        .answers("Anything")
        .refuses(&[404]),
        get("/api/meta-profiles", "Lists the meta-profiles").answers("Anything"),
        get("/api/meta-profiles/{name}", "Shows one").answers("Anything").refuses(&[404]),
        post("/api/meta-profiles/{name}", "Saves one").takes("Anything").makes("Anything").refuses(&[409]),
        delete("/api/meta-profiles/{name}", "Deletes one").answers("Anything"),
        post("/api/meta-profiles/{name}/activate", "Activates one").answers("Anything").refuses(&[404]),
        get("/api/llm/provider-connections", "Lists keys that profiles share").answers("Anything"),
        post("/api/llm/provider-connections", "Adds one").takes("Anything").makes("Anything").refuses(&[409]),
        patch("/api/llm/provider-connections/{connection_id}", "Changes one")
            .takes("Anything")
            .answers("Anything")
            .refuses(&[404]),
        delete("/api/llm/provider-connections/{connection_id}", "Removes one that no profile uses")
            .answers("Anything")
            .refuses(&[404, 409]),
    ],
};

const PROVIDER: &[crate::server::site::openapi::operation::Parameter] =
    &[may("provider", Kind::Text, "only of this provider")];

pub(in crate::server::site::openapi) const EXTENSIONS: Group = Group {
    name: "Tools, skills, hooks and plugins",
    operations: &[
        get("/api/tools", "The names of the tools").answers("Anything"),
        get("/api/tools/catalog", "The tools, and whether each can be used").answers("Anything"),
        get("/api/llm/providers", "The names of providers").answers("Anything"),
        get("/api/llm/models", "The names of models").query(PROVIDER).answers("Anything"),
        get("/api/llm/models/verified", "Models that are known to work").answers("Anything"),
        post("/api/acp/models", "Asks an ACP agent for its models")
            .takes("Anything")
            .answers("Anything")
            .absent(NOT_YET),
        post("/api/mcp/test", "Tests an MCP server").takes("Anything").answers("Anything"),
        post("/api/hooks", "Reads a workspace's hooks").takes("Anything").answers("Anything"),
        post("/api/sub-agents", "Lists a workspace's sub-agents").takes("Anything").answers("Anything"),
        post("/api/skills", "Reads skills and merges them").takes("Anything").answers("Anything"),
        get("/api/skills/catalog", "Skills that a profile may use").answers("Anything"),
        post("/api/skills/sync", "Fetches the public skills").answers("Anything").absent(
            "Annals fetches nothing by itself: EXTENSIONS_PATH names a copy of the public repository.",
        ),
        post("/api/skills/install", "Installs a skill")
            .takes("Anything")
            .answers("Anything")
            .refuses(&[400, 409]),
        get("/api/skills/installed", "Lists installed skills").answers("Anything"),
        get("/api/skills/installed/{skill_name}", "Shows one").answers("Anything").refuses(&[404]),
        patch("/api/skills/installed/{skill_name}", "Turns one on or off")
            .takes("Anything")
            .answers("Anything")
            .refuses(&[404]),
        delete("/api/skills/installed/{skill_name}", "Removes one").answers("Anything").refuses(&[404]),
        post("/api/skills/installed/{skill_name}/refresh", "Fetches its newest version")
            .answers("Anything")
            .refuses(&[400, 404]),
        get("/api/skills/marketplace", "Skills that can be installed").answers("Anything"),
        post("/api/plugins", "Lists local plugins").takes("Anything").answers("Anything"),
        post("/api/plugins/fetch", "Fetches a plugin").takes("Anything").answers("Anything"),
        post("/api/plugins/install", "Installs a plugin").takes("Anything").answers("Anything"),
        get("/api/plugins/installed", "Lists installed plugins").answers("Anything"),
        get("/api/plugins/installed/{plugin_name}", "Shows one").answers("Anything").refuses(&[404]),
        patch("/api/plugins/installed/{plugin_name}", "Turns one on or off")
            .takes("Anything")
            .answers("Anything")
            .refuses(&[404]),
        delete("/api/plugins/installed/{plugin_name}", "Removes one").answers("Anything").refuses(&[404]),
        post("/api/plugins/installed/{plugin_name}/refresh", "Fetches its newest version")
            .answers("Anything")
            .refuses(&[400, 404]),
        get("/api/plugins/marketplace", "Plugins that can be installed").answers("Anything"),
    ],
};
