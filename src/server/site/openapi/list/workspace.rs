//! Commands, files and repositories of the machine (`docs/reference/workspace.md`).

use crate::server::site::openapi::operation::{Group, Kind, Parameter, delete, get, may, must, post};

const PATH: Parameter = must("path", Kind::Text, "an absolute path");
const BASH_ORDERS: &[&str] = &["TIMESTAMP", "TIMESTAMP_DESC"];
const BASH_KINDS: &[&str] = &["BashCommand", "BashOutput"];

const OPEN: &str = "A client with a session key may do everything that the server's user may; run the server in a \
     container or as a user of its own.";

pub(in crate::server::site::openapi) const BASH: Group = Group {
    name: "Bash",
    operations: &[
        post("/api/bash/start_bash_command", "Starts a command").takes("BashRequest").answers("BashEvent"),
        post("/api/bash/execute_bash_command", "Runs a command and waits for its end")
            .takes("BashRequest")
            .answers("BashEvent"),
        get("/api/bash/bash_events/search", "Lists commands and their output, a page at a time")
            .query(&[
                may("kind__eq", Kind::Word(BASH_KINDS), "only commands, or only output"),
                may("command_id__eq", Kind::Text, "only events of this command"),
                may("timestamp__gte", Kind::Time, "only events from this time on"),
                may("timestamp__lt", Kind::Time, "only events before this time"),
                may("order__gt", Kind::Place, "only output after this piece"),
                may("sort_order", Kind::Word(BASH_ORDERS), "the oldest first, or the newest first"),
                may("page_id", Kind::Text, "the start of the page: the `next_page_id` of the page before"),
                may("limit", Kind::Number(1, 100, 100), "the maximum number of items"),
            ])
            .answers("BashEventPage"),
        get("/api/bash/bash_events/", "Shows several events; the body contains their ids")
            .takes("EventIds")
            .answers("BashEventsOrNull"),
        get("/api/bash/bash_events/{event_id}", "Shows an event").answers("BashEvent").refuses(&[404]),
        delete("/api/bash/bash_events", "Deletes all events").answers("Cleared"),
        post("/api/bash/bash_commands/{command_id}/stop", "Stops a command")
            .answers("BashStop")
            .refuses(&[404]),
    ],
};

pub(in crate::server::site::openapi) const FILES: Group = Group {
    name: "Files",
    operations: &[
        post("/api/file/upload", "Writes a file").query(&[PATH]).takes_file().refuses(&[400]).better(OPEN),
        get("/api/file/download", "Reads a file")
            .query(&[PATH])
            .sends("application/octet-stream")
            .refuses(&[400, 404]),
        post("/api/file/create_directory", "Makes a folder and its parent folders")
            .query(&[PATH])
            .refuses(&[400]),
        get("/api/file/home", "The home folder and the folders in it")
            .query(&[may("include_hidden", Kind::Flag, "with folders whose name begins with a dot")])
            .answers("Anything"),
        get("/api/file/search_subdirs", "Lists the folders in a folder")
            .query(&[
                PATH,
                may("page_id", Kind::Text, "the start of the page: the `next_page_id` of the page before"),
                may("limit", Kind::Number(1, 100, 100), "the maximum number of items"),
                may("include_hidden", Kind::Flag, "with folders whose name begins with a dot"),
            ])
            .answers("Anything")
            .refuses(&[400, 404]),
        get("/api/file/download-trajectory/{trajectory_id}", "A conversation's folder as a zip")
            .sends("application/octet-stream")
            .refuses(&[404]),
        get("/api/file/archive", "A folder as an archive, or its changes as a patch")
            .query(&[
                PATH,
                may("format", Kind::Word(&["git-delta", "tar.gz"]), "`git-delta`, the default, is a patch"),
                may("base_ref", Kind::Text, "the commit that a patch is made against"),
                may("use_default_excludes", Kind::Flag, "without caches, dependencies and build results"),
                may("exclude", Kind::Texts, "patterns of paths to leave out"),
            ])
            .sends("application/gzip"),
    ],
};

pub(in crate::server::site::openapi) const GIT: Group = Group {
    name: "Git",
    operations: &[
        get("/api/git/changes", "Files that differ from a commit")
            .query(&[
                PATH,
                may(
                    "ref",
                    Kind::Text,
                    "the commit; by default the branch's upstream, or where it left the main branch",
                ),
            ])
            .answers("Anything")
            .refuses(&[400]),
        get("/api/git/diff", "A file before and after")
            .query(&[
                PATH,
                may("ref", Kind::Text, "the commit to compare with"),
                may("commit", Kind::Text, "the commit whose change is shown"),
            ])
            .answers("Anything")
            .refuses(&[400]),
        get("/api/git/commits", "The newest commits")
            .query(&[PATH, may("limit", Kind::Number(1, 200, 50), "the maximum number")])
            .answers("Anything")
            .refuses(&[400]),
        get("/api/git/commits/{sha}/changes", "Files that a commit changed")
            .query(&[PATH])
            .answers("Anything")
            .refuses(&[400]),
        get(
            "/api/git/repositories/search",
            "Lists repositories of a code host: none, because there is no token",
        )
        .query(&[must("provider", Kind::Text, "the code host")])
        .answers("Anything"),
    ],
};

pub(in crate::server::site::openapi) const SCOPED: Group = Group {
    name: "Routes of one conversation's runtime",
    operations: &[
        get("/api/conversations/{conversation_id}/bash/bash_events/search", "Lists commands"),
        get("/api/conversations/{conversation_id}/bash/bash_events/{event_id}", "Shows an event"),
        get("/api/conversations/{conversation_id}/bash/bash_events/", "Shows several events"),
        post("/api/conversations/{conversation_id}/bash/start_bash_command", "Starts a command"),
        post("/api/conversations/{conversation_id}/bash/execute_bash_command", "Runs a command"),
        delete("/api/conversations/{conversation_id}/bash/bash_events", "Deletes all events"),
        post("/api/conversations/{conversation_id}/bash/bash_commands/{command_id}/stop", "Stops a command"),
        post("/api/conversations/{conversation_id}/file/upload", "Writes a file"),
        get("/api/conversations/{conversation_id}/file/download", "Reads a file"),
        post("/api/conversations/{conversation_id}/file/create_directory", "Makes a folder"),
        get(
            "/api/conversations/{conversation_id}/file/download-trajectory/{trajectory_id}",
            "A folder as a zip",
        ),
        get("/api/conversations/{conversation_id}/file/archive", "A folder as an archive"),
        get("/api/conversations/{conversation_id}/git/changes", "Files that differ"),
        get("/api/conversations/{conversation_id}/git/diff", "A file before and after"),
        get("/api/conversations/{conversation_id}/git/commits", "The newest commits"),
        get("/api/conversations/{conversation_id}/git/commits/{sha}/changes", "Files of a commit"),
        get("/api/conversations/{conversation_id}/vscode/url", "An editor's address, always null")
            .answers("Anything"),
        get("/api/conversations/{conversation_id}/vscode/status", "Whether the editor runs: it never does")
            .answers("Anything"),
        get("/api/conversations/{conversation_id}/workspace", "A page of the workspace"),
        get("/api/conversations/{conversation_id}/workspace/{file_path}", "A file of the workspace"),
        post("/api/auth/workspace-session", "Sets a cookie for the files of workspaces"),
        delete("/api/auth/workspace-session", "Removes the cookie"),
    ],
};
