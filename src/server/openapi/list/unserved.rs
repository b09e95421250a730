//! What the reference has and this server has not, by what it belongs to.

use crate::server::openapi::operation::{Group, delete, get, patch, post};

pub(super) const DESKTOP: &str = "Annals brings no editor and no desktop.";
const CANVAS: &str = "Extensions of the reference's browser application are that application's business.";
const OAUTH: &str =
    "Annals logs in nowhere on somebody's behalf; give a model its key, or an MCP server its token.";
const CONNECTIONS: &str = "Keys are kept with profiles and settings, not in connections of their own.";
const FACADE: &str = "Models are asked elsewhere; this server runs conversations.";
const DORMANT: &str = "This server is not dormant: it is configured when it is started.";

pub(in crate::server::openapi) const OTHERS: Group = Group {
    name: "Left out",
    operations: &[
        get("/api/init", "Whether a dormant server was configured").not_found(DORMANT),
        post("/api/init", "Configures a dormant server").not_found(DORMANT),
        get("/v1/models", "Models in OpenAI's words").absent(FACADE),
        post("/v1/chat/completions", "A chat in OpenAI's words").absent(FACADE),
        post("/v1/responses", "A response in OpenAI's words").absent(FACADE),
        get("/api/vscode/url", "An editor's address").absent(DESKTOP),
        get("/api/vscode/status", "Whether it runs").absent(DESKTOP),
        get("/api/llm/subscription/openai/models", "Models of a subscription").absent(OAUTH),
        get("/api/llm/subscription/openai/status", "Whether one is logged in").absent(OAUTH),
        post("/api/llm/subscription/openai/device/start", "Begins to log in").absent(OAUTH),
        post("/api/llm/subscription/openai/device/poll", "Asks whether it is done").absent(OAUTH),
        post("/api/llm/subscription/openai/logout", "Logs out").absent(OAUTH),
        post("/api/mcp/oauth/start", "Begins to log in to an MCP server").absent(OAUTH),
        get("/api/mcp/oauth/status/{job_id}", "Asks whether it is done").absent(OAUTH),
        post("/api/mcp/oauth/callback/{job_id}", "Takes the answer").absent(OAUTH),
        get("/api/llm/provider-connections", "Lists shared keys").absent(CONNECTIONS),
        post("/api/llm/provider-connections", "Adds one").absent(CONNECTIONS),
        patch("/api/llm/provider-connections/{connection_id}", "Changes one").absent(CONNECTIONS),
        delete("/api/llm/provider-connections/{connection_id}", "Removes one").absent(CONNECTIONS),
        post("/api/canvas-extensions/install", "Installs an extension").absent(CANVAS),
        get("/api/canvas-extensions/installed", "Lists them").absent(CANVAS),
        get("/api/canvas-extensions/installed/{extension_name}", "Shows one").absent(CANVAS),
        patch("/api/canvas-extensions/installed/{extension_name}", "Changes one").absent(CANVAS),
        delete("/api/canvas-extensions/installed/{extension_name}", "Removes one").absent(CANVAS),
        get("/api/canvas-extensions/installed/{extension_name}/backend", "Its other half").absent(CANVAS),
        post("/api/canvas-extensions/installed/{extension_name}/backend/prepare", "Prepares it")
            .absent(CANVAS),
        post("/api/canvas-extensions/installed/{extension_name}/backend/start", "Starts it").absent(CANVAS),
        post("/api/canvas-extensions/installed/{extension_name}/backend/stop", "Stops it").absent(CANVAS),
        get("/api/canvas-extensions/installed/{extension_name}/backend/logs", "What it said").absent(CANVAS),
        delete("/api/canvas-extensions/installed/{extension_name}/backend/data", "Forgets its data")
            .absent(CANVAS),
        get("/api/canvas-extensions/installed/{extension_name}/bundle", "Its program").absent(CANVAS),
        get("/api/canvas-extensions/installed/{extension_name}/icon", "Its picture").absent(CANVAS),
        post("/app-backends/{extension_name}/session", "Gives out a session").absent(CANVAS),
        delete("/app-backends/{extension_name}/session", "Takes it back").absent(CANVAS),
    ],
};
