//! The probes, what Annals adds under `/api/annals/`, and the figures.

use crate::server::openapi::operation::{Group, Kind, Parameter, get, may, must, post};

pub(in crate::server::openapi) const PROBES: Group = Group {
    name: "Server",
    operations: &[
        get("/health", "Whether the server is there").answers("Status"),
        get("/alive", "Whether the server is there").answers("Status"),
        get("/ready", "Whether it can be asked")
            .answers("Status")
            .better("It is ready as soon as it listens: nothing is loaded."),
        get("/server_info", "What the server is").answers("ServerInfo"),
        get("/", "What the server is")
            .answers("ServerInfo")
            .better("A browser, which takes HTML, is shown the page for people."),
        get("/page/{path}", "A file of that page").sends("application/octet-stream").refuses(&[404]).own(),
        get("/openapi.json", "This document").answers("Anything"),
        get("/docs", "This document as a page")
            .sends("text/html")
            .better("Nothing is loaded from elsewhere, and its policy forbids it."),
        get("/docs/page.js", "The page's program").sends("text/javascript").own(),
        get("/docs/page.css", "How the page looks").sends("text/css").own(),
    ],
};

const AT: Parameter = may(
    "at",
    Kind::Text,
    "the point: a sequence, an event's id or the beginning of one, or a time; the end where none is given",
);
const LIVE: Parameter = may("live", Kind::Flag, "as in a process that never stopped, instead of built anew");

pub(in crate::server::openapi) const ANNALS: Group = Group {
    name: "Annals",
    operations: &[
        get("/api/annals/conversations", "Conversations a page at a time, with models, tokens and cost")
            .query(&[
                may("limit", Kind::Number(1, 200, 50), "the most of them"),
                may("after", Kind::Text, "the page's predecessor: its `next`"),
                may(
                    "order",
                    Kind::Word(&["updated", "updated_oldest", "created", "created_oldest"]),
                    "which come first; those that went on last where it is not given",
                ),
                may("status", Kind::Texts, "only with one of these statuses"),
                may("tag", Kind::Texts, "only with all of these tags: `name` or `name=value`"),
                may("title", Kind::Text, "only with this in the title or the first message"),
                may("updated_from", Kind::Text, "only those that went on at or after this time"),
                may("updated_before", Kind::Text, "only those that went on before this time"),
                may("parent", Kind::Text, "only sub-agents' of this conversation"),
            ])
            .answers("Anything")
            .refuses(&[404])
            .own(),
        get("/api/annals/conversations/{conversation_id}", "One conversation as it is listed, and its usage")
            .query(&[may("counts", Kind::Flag, "with the numbers of its kinds of events and of its tools' calls")])
            .answers("Anything")
            .refuses(&[404])
            .own(),
        get("/api/annals/conversations/{conversation_id}/state", "The state at a point")
            .query(&[AT, may("brief", Kind::Flag, "without the ids of the live branch")])
            .answers("Anything")
            .refuses(&[404])
            .own(),
        get("/api/annals/conversations/{conversation_id}/view", "What the model could see at a point")
            .query(&[AT, LIVE, may("ids", Kind::Flag, "the events' ids alone")])
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
                "in whose words: the SDK's, a chat request's, a responses request's",
            ),
            may("caching", Kind::Flag, "with marks where a prompt may be cached (chat)"),
            may("no_vision", Kind::Flag, "without pictures"),
            may("strings", Kind::Flag, "with one string in place of a list of parts (chat)"),
            may("reasoning", Kind::Flag, "with what the model thought (chat)"),
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
            may("limit", Kind::Number(1, 1000, 100), "the most events of the page"),
            may("descending", Kind::Flag, "the newest first"),
            may(
                "texts",
                Kind::Number(100, 33_554_432, 33_554_432),
                "the most characters of a text within an event; `cut` tells how long those were that have more",
            ),
        ])
        .answers("LogPage")
        .refuses(&[404])
        .own(),
        post(
            "/api/annals/conversations/{conversation_id}/events",
            "Appends an event, or several, as they are",
        )
        .query(&[may(
            "expected",
            Kind::Text,
            "what the length is believed to be: any, empty, exists, or a number",
        )])
        .takes("NewEvents")
        .answers("Appended")
        .refuses(&[409, 413])
        .own(),
        get("/api/annals/diff", "What is different between two points")
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
                may("conversation", Kind::Text, "only in this one"),
                may("kind", Kind::Texts, "only these kinds"),
                may("tool", Kind::Text, "only of this tool"),
                may("before", Kind::Place, "only before this position: the `next` of the page before"),
                may("limit", Kind::Number(1, 100, 20), "the most hits of the page"),
            ])
            .answers("Hits")
            .refuses(&[404])
            .own(),
        get("/api/annals/query", "The views that SQL may name").answers("Anything").own(),
        post("/api/annals/query", "Answers one query over the documented views, within limits")
            .query(&[may("format", Kind::Word(&["json", "csv"]), "the form of the answer")])
            .takes("Query")
            .answers_or("Table", "text/csv")
            .own(),
        get(
            "/api/annals/reports",
            "Which reports there are; as HTML, the answers of the most important ones",
        )
        .query(&[may("format", Kind::Word(&["json", "html"]), "the form of the answer")])
        .answers_or("Anything", "text/html")
        .own(),
        get(
            "/api/annals/reports/{name}",
            "A report's answer; what it can be told are parameters of the query",
        )
        .query(&[may("format", Kind::Word(&["json", "csv", "html"]), "the form of the answer")])
        .answers_or("Table", "text/html")
        .refuses(&[404])
        .own(),
        get("/api/annals/stats", "Figures of the whole file")
            .query(&[may("by", Kind::Word(&["conversation", "kind", "tool", "day"]), "split up by this")])
            .answers("Anything")
            .own(),
        get("/api/annals/admin-log", "Who did what to the file that no event tells")
            .query(&[
                may("after", Kind::Place, "only acts behind this number"),
                may("limit", Kind::Number(1, 1000, 100), "the most of them"),
                may("receipts", Kind::Flag, "with what each changed"),
            ])
            .answers("Anything")
            .own(),
        get(
            "/api/annals/verify",
            "Checks that all is as it was written: lines of JSON, the last one the outcome",
        )
        .query(&[
            may("conversation", Kind::Text, "only this one"),
            may("quick", Kind::Flag, "without replaying the derived tables"),
        ])
        .sends("application/x-ndjson")
        .refuses(&[404, 429])
        .own(),
        get("/api/annals/feed", "Every event of the file as it is appended: server-sent events by position")
            .query(&[may(
                "after",
                Kind::Place,
                "behind this position; `Last-Event-ID` counts before it; from now on where neither is given",
            )])
            .sends("text/event-stream")
            .refuses(&[429])
            .own(),
    ],
};

pub(in crate::server::openapi) const METRICS: Group = Group {
    name: "Metrics",
    operations: &[get("/metrics", "Figures for Prometheus; the key may be a bearer's token")
        .sends("text/plain")
        .own()],
};
