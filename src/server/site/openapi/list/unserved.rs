//! Operations of the reference that this server leaves out, or always answers as empty, and OpenAI's interface.

use crate::server::site::openapi::operation::{Group, delete, get, patch, post};

const CANVAS: &str = "Extensions of the reference's browser application belong to that application.";
const OAUTH: &str =
    "Annals does not log in on a user's behalf; give a model its key, or an MCP server its token.";
const FACADE: &str = "Chats are served at /v1/chat/completions.";
const DORMANT: &str = "This server is not dormant: it is configured when it is started.";

pub(in crate::server::site::openapi) const OTHERS: Group = Group {
    name: "Left out, or always answered as empty",
    operations: &[
        get("/api/init", "Whether a dormant server was configured").not_found(DORMANT),
        post("/api/init", "Configures a dormant server").not_found(DORMANT),
        get("/v1/models", "Lists profiles as models, in OpenAI's format").answers("Anything"),
        post("/v1/chat/completions", "A turn of a conversation as a chat completion, in OpenAI's format")
            .takes("Anything")
            .answers_or("Anything", "text/event-stream")
            .refuses(&[400, 404, 409, 429, 504]),
        post("/v1/responses", "A response in OpenAI's format").absent(FACADE),
        get("/api/vscode/url", "An editor's address, always null").answers("Anything"),
        get("/api/vscode/status", "Whether the editor runs: it never does").answers("Anything"),
        get("/api/llm/subscription/openai/models", "Models of a subscription, always an empty list")
            .answers("Anything"),
        get("/api/llm/subscription/openai/status", "Whether a user is logged in: always no")
            .answers("Anything"),
        post("/api/llm/subscription/openai/device/start", "Starts a login").absent(OAUTH),
        post("/api/llm/subscription/openai/device/poll", "Asks whether the login is complete").absent(OAUTH),
        post("/api/llm/subscription/openai/logout", "Logs out").answers("Anything"),
        post("/api/mcp/oauth/start", "Starts a login to an MCP server").absent(OAUTH),
        get("/api/mcp/oauth/status/{job_id}", "Asks whether the login is complete").absent(OAUTH),
        post("/api/mcp/oauth/callback/{job_id}", "Receives the result of the login").absent(OAUTH),
        post("/api/canvas-extensions/install", "Installs an extension").absent(CANVAS),
        get("/api/canvas-extensions/installed", "Lists the extensions, always an empty list")
            .answers("Anything"),
        get("/api/canvas-extensions/installed/{extension_name}", "Shows an extension")
            .answers("Anything")
            .refuses(&[404]),
        patch("/api/canvas-extensions/installed/{extension_name}", "Changes an extension")
            .takes("Anything")
            .answers("Anything")
            .refuses(&[404]),
        delete("/api/canvas-extensions/installed/{extension_name}", "Removes an extension")
            .answers("Anything")
            .refuses(&[404]),
        get("/api/canvas-extensions/installed/{extension_name}/backend", "The extension's backend")
            .answers("Anything"),
        post("/api/canvas-extensions/installed/{extension_name}/backend/prepare", "Prepares the backend")
            .absent(CANVAS),
        post("/api/canvas-extensions/installed/{extension_name}/backend/start", "Starts the backend")
            .absent(CANVAS),
        post("/api/canvas-extensions/installed/{extension_name}/backend/stop", "Stops the backend")
            .absent(CANVAS),
        get("/api/canvas-extensions/installed/{extension_name}/backend/logs", "The backend's logs")
            .absent(CANVAS),
        delete(
            "/api/canvas-extensions/installed/{extension_name}/backend/data",
            "Deletes the backend's data",
        )
        .absent(CANVAS),
        get("/api/canvas-extensions/installed/{extension_name}/bundle", "The extension's program")
            .answers("Anything")
            .refuses(&[404]),
        get("/api/canvas-extensions/installed/{extension_name}/icon", "The extension's icon")
            .answers("Anything")
            .refuses(&[404]),
        post("/app-backends/{extension_name}/session", "Starts a session").absent(CANVAS),
        delete("/app-backends/{extension_name}/session", "Ends the session").absent(CANVAS),
    ],
};
