//! The probes, Annals' own operations under `/api/annals/`, and the metrics.

use crate::server::site::openapi::operation::{Group, Kind, Parameter, get, may, must, post};

pub(in crate::server::site::openapi) const PROBES: Group = Group {
    name: "Server",
    operations: &[
        get("/health", "Whether the server is there").answers("Status"),
        get("/alive", "Whether the server is there").answers("Status"),
        get("/ready", "Whether the server is ready")
            .answers("Status")
            .refuses(&[503])
            .better("It answers 503 with the reason while the file cannot be read, appends fail, the disk has less than 64 MiB left, or the server is ending."),
        get("/server_info", "What the server is").answers("ServerInfo"),
        get("/", "What the server is")
            .answers("ServerInfo")
            .better("A browser, which accepts HTML, gets the web page."),
        get("/page/{path}", "A file of the web page").sends("application/octet-stream").refuses(&[404]).own(),
        get("/openapi.json", "This document").answers("Anything"),
        get("/docs", "This document as a page")
            .sends("text/html")
            .better("The page loads nothing from other servers, and its policy forbids it."),
        get("/docs/page.js", "The script of that page").sends("text/javascript").own(),
        get("/docs/page.css", "The style sheet of that page").sends("text/css").own(),
    ],
};

const AT: Parameter = may(
    "at",
    Kind::Text,
    "the point: a sequence, an event's id or the beginning of an id, or a time; the end by default",
);
const LIVE: Parameter =
    may("live", Kind::Flag, "as in a process that never stopped, instead of rebuilt from the log");

pub(in crate::server::site::openapi) const ANNALS: Group = Group {
    name: "Annals",
    operations: &[
        get("/api/annals/conversations", "Lists conversations in pages, with models, tokens and cost")
            .query(&[
                may("limit", Kind::Number(1, 200, 50), "the maximum number"),
                may("after", Kind::Text, "the `next` of the page before"),
                may(
                    "order",
                    Kind::Word(&["updated", "updated_oldest", "created", "created_oldest"]),
                    "the order; by default, the most recently updated first",
                ),
                may("status", Kind::Texts, "only conversations with one of these statuses"),
                may("tag", Kind::Texts, "only conversations with all of these tags: `name` or `name=value`"),
                may("title", Kind::Text, "only conversations with this text in the title or first message"),
                may("updated_from", Kind::Text, "only conversations updated at or after this time"),
                may("updated_before", Kind::Text, "only conversations updated before this time"),
                may("parent", Kind::Text, "only conversations of this conversation's sub-agents"),
                may("workspace", Kind::Text, "only conversations that worked in this folder or below it"),
                may("source", Kind::Text, "only conversations whose log this program wrote"),
                may("model", Kind::Text, "only conversations of this model"),
                may("started_by", Kind::Text, "only conversations that this user started"),
            ])
            .answers("Anything")
            .refuses(&[404])
            .own(),
        get("/api/annals/conversations/{conversation_id}", "Shows a conversation and its usage")
            .query(&[may("counts", Kind::Flag, "with the numbers of events by kind and of calls by tool")])
            .answers("Anything")
            .refuses(&[404])
            .own(),
        get("/api/annals/conversations/{conversation_id}/state", "The state at a point")
            .query(&[AT, may("brief", Kind::Flag, "without the ids of the live branch")])
            .answers("Anything")
            .refuses(&[404])
            .own(),
        get("/api/annals/conversations/{conversation_id}/view", "What the model could see at a point")
            .query(&[AT, LIVE, may("ids", Kind::Flag, "only the events' ids")])
            .answers("List")
            .refuses(&[404])
            .own(),
        get(
            "/api/annals/conversations/{conversation_id}/messages",
            "What the model would have been sent at a point",
        )
        .query(&[
            AT,
            LIVE,
            may(
                "wire",
                Kind::Word(&["plain", "chat", "responses"]),
                "the format: the SDK's, a chat request's or a responses request's",
            ),
            may("caching", Kind::Flag, "with marks for prompt caching; if missing, as the conversation's model has it (chat)"),
            may("no_vision", Kind::Flag, "without pictures; if missing, as the conversation's model has it"),
            may("strings", Kind::Flag, "with one string instead of a list of parts; if missing, as the conversation's model has it (chat)"),
            may("reasoning", Kind::Flag, "with the model's reasoning; if missing, as the conversation's model has it (chat)"),
        ])
        .answers("AnyValue")
        .refuses(&[404])
        .own(),
        get("/api/annals/conversations/{conversation_id}/branches", "The branches at a point, and HEAD")
            .query(&[AT])
            .answers("Branches")
            .refuses(&[404])
            .own(),
        get(
            "/api/annals/conversations/{conversation_id}/events",
            "The log as it is stored, a page at a time",
        )
        .query(&[
            may("from", Kind::Place, "from this sequence on"),
            may("to", Kind::Place, "up to this sequence"),
            may("kind", Kind::Texts, "only these kinds"),
            may("source", Kind::Texts, "only these sources"),
            may("tool", Kind::Text, "only of this tool"),
            may("limit", Kind::Number(1, 1000, 100), "the maximum number of events"),
            may("descending", Kind::Flag, "the newest first"),
            may(
                "texts",
                Kind::Number(100, 33_554_432, 33_554_432),
                "the maximum length of a text within an event; `cut` has the lengths of longer texts",
            ),
        ])
        .answers("LogPage")
        .refuses(&[404])
        .own(),
        post("/api/annals/conversations/{conversation_id}/events", "Appends one event or several, unchanged")
            .query(&[may("expected", Kind::Text, "the expected length: any, empty, exists, or a number")])
            .takes("NewEvents")
            .answers("Appended")
            .refuses(&[409, 413])
            .own(),
        get("/api/annals/diff", "Shows the differences between two points")
            .query(&[
                must("left", Kind::Text, "a conversation, or ID@POINT"),
                must("right", Kind::Text, "a conversation, or ID@POINT"),
            ])
            .answers("Anything")
            .refuses(&[404])
            .own(),
        get("/api/annals/search", "Finds words in any transcript")
            .query(&[
                must("q", Kind::Text, "words that must all occur; \"a phrase\", begin*, -not"),
                may("conversation", Kind::Text, "only in this conversation"),
                may("kind", Kind::Texts, "only these kinds"),
                may("tool", Kind::Text, "only of this tool"),
                may("before", Kind::Place, "only events before this position: the `next` of the page before"),
                may("since", Kind::Text, "only events from this time on: 2026-01-31, 7d"),
                may("until", Kind::Text, "only events before this time"),
                may("workspace", Kind::Text, "only in conversations that worked in this folder or below it"),
                may("source", Kind::Text, "only in conversations whose log this program wrote"),
                may("model", Kind::Text, "only in conversations of this model"),
                may("started_by", Kind::Text, "only in conversations that this user started"),
                may("limit", Kind::Number(1, 100, 20), "the maximum number of hits"),
            ])
            .answers("Hits")
            .refuses(&[404])
            .own(),
        get("/api/annals/query", "Lists the views that SQL may name").answers("Anything").own(),
        post("/api/annals/query", "Answers one query over the documented views, within limits")
            .query(&[may("format", Kind::Word(&["json", "csv"]), "the form of the answer")])
            .takes("Query")
            .answers_or("Table", "text/csv")
            .own(),
        get(
            "/api/annals/reports",
            "Lists the reports; as HTML, shows the results of the most important ones",
        )
        .query(&[may("format", Kind::Word(&["json", "html"]), "the form of the answer")])
        .answers_or("Anything", "text/html")
        .own(),
        get(
            "/api/annals/reports/{name}",
            "A report's result; the report's parameters are parameters of the query",
        )
        .query(&[may("format", Kind::Word(&["json", "csv", "html"]), "the form of the answer")])
        .answers_or("Table", "text/html")
        .refuses(&[404])
        .own(),
        get("/api/annals/access", "What the caller may do: the name and the role of its key")
            .answers("Anything")
            .own(),
        get("/api/annals/stats", "Statistics of the whole file")
            .query(&[may(
                "by",
                Kind::Word(&["conversation", "kind", "tool", "day", "workspace", "source"]),
                "grouped by this",
            )])
            .answers("Anything")
            .own(),
        get("/api/annals/admin-log", "Administrative actions on the file that are not events")
            .query(&[
                may("after", Kind::Place, "only actions after this number"),
                may("limit", Kind::Number(1, 1000, 100), "the maximum number"),
                may("receipts", Kind::Flag, "with the changes of each action"),
            ])
            .answers("Anything")
            .own(),
        get(
            "/api/annals/verify",
            "Checks that the file is unchanged: lines of JSON, the last one is the result",
        )
        .query(&[
            may("conversation", Kind::Text, "only this conversation"),
            may("quick", Kind::Flag, "without replaying the derived tables"),
        ])
        .sends("application/x-ndjson")
        .refuses(&[404, 429])
        .own(),
        get("/api/annals/feed", "Every event of the file as it is appended: server-sent events by position")
            .query(&[may(
                "after",
                Kind::Place,
                "only events after this position; `Last-Event-ID` has precedence; new events by default",
            )])
            .sends("text/event-stream")
            .refuses(&[429])
            .own(),
        post(
            "/mcp",
            "Past conversations as tools of the Model Context Protocol; the key may be a bearer token",
        )
        .takes("Anything")
        .answers("Anything")
        .refuses(&[403])
        .own(),
    ],
};

pub(in crate::server::site::openapi) const METRICS: Group = Group {
    name: "Metrics",
    operations: &[get("/metrics", "Metrics for Prometheus; the key may be a bearer token")
        .sends("text/plain")
        .own()],
};
