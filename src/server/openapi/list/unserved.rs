//! What the reference has and this server has not, by what it belongs to.

use crate::server::openapi::operation::{Group, delete, get, patch, post};

const CANVAS: &str = "Extensions of the reference's browser application are that application's business.";
const OAUTH: &str =
    "Annals logs in nowhere on somebody's behalf; give a model its key, or an MCP server its token.";
const FACADE: &str = "Chats are served, at /v1/chat/completions.";
const DORMANT: &str = "This server is not dormant: it is configured when it is started.";

pub(in crate::server::openapi) const OTHERS: Group = Group {
    name: "Left out, or always answered as empty",
    operations: &[
        get("/api/init", "Whether a dormant server was configured").not_found(DORMANT),
        post("/api/init", "Configures a dormant server").not_found(DORMANT),
        get("/v1/models", "Profiles as models in OpenAI's words").answers("Anything"),
        post("/v1/chat/completions", "A turn of a conversation as a chat in OpenAI's words")
            .takes("Anything")
            .answers_or("Anything", "text/event-stream")
            .refuses(&[400, 404, 409, 429, 504]),
        post("/v1/responses", "A response in OpenAI's words").absent(FACADE),
        get("/api/vscode/url", "An editor's address, always null").answers("Anything"),
        get("/api/vscode/status", "Whether it runs: it does not").answers("Anything"),
        get("/api/llm/subscription/openai/models", "Models of a subscription, always an empty list")
            .answers("Anything"),
        get("/api/llm/subscription/openai/status", "Whether one is logged in: it is not").answers("Anything"),
        post("/api/llm/subscription/openai/device/start", "Begins to log in").absent(OAUTH),
        post("/api/llm/subscription/openai/device/poll", "Asks whether it is done").absent(OAUTH),
        post("/api/llm/subscription/openai/logout", "Logs out").answers("Anything"),
        post("/api/mcp/oauth/start", "Begins to log in to an MCP server").absent(OAUTH),
        get("/api/mcp/oauth/status/{job_id}", "Asks whether it is done").absent(OAUTH),
        post("/api/mcp/oauth/callback/{job_id}", "Takes the answer").absent(OAUTH),
        post("/api/canvas-extensions/install", "Installs an extension").absent(CANVAS),
        get("/api/canvas-extensions/installed", "Lists them, always an empty list").answers("Anything"),
        get("/api/canvas-extensions/installed/{extension_name}", "Shows one")
            .answers("Anything")
            .refuses(&[404]),
        patch("/api/canvas-extensions/installed/{extension_name}", "Changes one")
            .takes("Anything")
            .answers("Anything")
            .refuses(&[404]),
        delete("/api/canvas-extensions/installed/{extension_name}", "Removes one")
            .answers("Anything")
            .refuses(&[404]),
        get("/api/canvas-extensions/installed/{extension_name}/backend", "Its other half")
            .answers("Anything"),
        post("/api/canvas-extensions/installed/{extension_name}/backend/prepare", "Prepares it")
            .absent(CANVAS),
        post("/api/canvas-extensions/installed/{extension_name}/backend/start", "Starts it").absent(CANVAS),
        post("/api/canvas-extensions/installed/{extension_name}/backend/stop", "Stops it").absent(CANVAS),
        get("/api/canvas-extensions/installed/{extension_name}/backend/logs", "What it said").absent(CANVAS),
        delete("/api/canvas-extensions/installed/{extension_name}/backend/data", "Forgets its data")
            .absent(CANVAS),
        get("/api/canvas-extensions/installed/{extension_name}/bundle", "Its program")
            .answers("Anything")
            .refuses(&[404]),
        get("/api/canvas-extensions/installed/{extension_name}/icon", "Its picture")
            .answers("Anything")
            .refuses(&[404]),
        post("/app-backends/{extension_name}/session", "Gives out a session").absent(CANVAS),
        delete("/app-backends/{extension_name}/session", "Takes it back").absent(CANVAS),
    ],
};
