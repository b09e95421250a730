//! Conversations and their events (`docs/reference/server.md`).

use crate::server::site::openapi::operation::{
    Group, Kind, Operation, Parameter, delete, get, may, must, patch, post,
};

const SKILLS: Parameter = may("include_skills", Kind::Flag, "with the texts of skills, which are long");
const PAGE_ID: Parameter =
    may("page_id", Kind::Text, "the start of the page: the `next_page_id` of the page before");
const LIMIT: Parameter = may("limit", Kind::Number(1, 100, 100), "the maximum number of items");
const STATUSES: &[&str] =
    &["idle", "running", "paused", "waiting_for_confirmation", "finished", "error", "stuck", "deleting"];
const STATUS: Parameter = may("status", Kind::Word(STATUSES), "only conversations with this status");
const ORDERS: &[&str] = &["CREATED_AT", "CREATED_AT_DESC", "UPDATED_AT", "UPDATED_AT_DESC"];
const ORDER: Parameter = may("sort_order", Kind::Word(ORDERS), "the order; CREATED_AT_DESC by default");
const IDS: Parameter = must("ids", Kind::Texts, "conversation ids, at most 99");

/// How reading is better than in the reference.
const NOT_LOADED: &str = "Nothing is loaded first: the cost depends on the data that is read.";

pub(in crate::server::site::openapi) const CONVERSATIONS: Group = Group {
    name: "Conversations",
    operations: &[
        get("/api/conversations/search", "Lists conversations, a page at a time")
            .query(&[PAGE_ID, LIMIT, STATUS, ORDER, SKILLS])
            .answers("ConversationPage")
            .better(
                "A conversation that another server holds is listed too, and so is one that cannot be run.",
            ),
        get("/api/conversations/count", "Counts conversations")
            .query(&[STATUS])
            .answers("Count")
            .better(NOT_LOADED),
        get("/api/conversations", "Shows several conversations")
            .query(&[IDS, SKILLS])
            .answers("Conversations"),
        post("/api/conversations", "Starts a conversation, or attaches to an existing one with that id")
            .query(&[SKILLS])
            .takes("StartConversation")
            .makes("Conversation")
            .refuses(&[429]),
        get("/api/conversations/{conversation_id}", "Shows a conversation")
            .query(&[SKILLS])
            .answers("Conversation")
            .refuses(&[404]),
        patch("/api/conversations/{conversation_id}", "Changes the title or the tags")
            .takes("ChangeConversation")
            .refuses(&[404]),
        delete("/api/conversations/{conversation_id}", "Deletes a conversation permanently")
            .refuses(&[404])
            .better("A receipt of the deletion stays in the administrative log."),
        get("/api/conversations/{conversation_id}/runtime", "Shows whether the conversation can run")
            .answers("Runtime")
            .refuses(&[404]),
        post(
            "/api/conversations/{conversation_id}/runtime/reprovision",
            "Shows whether the conversation can run",
        )
        .answers("Runtime")
        .refuses(&[404]),
        get("/api/conversations/{conversation_id}/agent_final_response", "The agent's final response")
            .answers("FinalResponse")
            .refuses(&[404]),
        post("/api/conversations/{conversation_id}/run", "Runs the agent").refuses(&[404, 409, 429]),
        post("/api/conversations/{conversation_id}/pause", "Pauses after the current step").refuses(&[404]),
        post("/api/conversations/{conversation_id}/interrupt", "Stops at once").refuses(&[404]),
        post("/api/conversations/{conversation_id}/secrets", "Adds secrets, or replaces them")
            .takes("Secrets")
            .refuses(&[404])
            .better("They are sealed and stored as soon as they are set, not with the next message."),
        post(
            "/api/conversations/{conversation_id}/confirmation_policy",
            "Sets which actions wait for a person",
        )
        .takes("SetPolicy")
        .refuses(&[404])
        .better("It survives a restart."),
        post(
            "/api/conversations/{conversation_id}/security_analyzer",
            "Sets the analyzer that judges the risk of actions",
        )
        .takes("SetAnalyzer")
        .refuses(&[404])
        .better("It survives a restart."),
        post(
            "/api/conversations/{conversation_id}/navigate",
            "Moves HEAD to an event, or before all of them",
        )
        .query(&[SKILLS])
        .takes("Navigate")
        .answers("Conversation")
        .refuses(&[404])
        .better("The move is recorded, so that every earlier state can be shown."),
        post(
            "/api/conversations/{conversation_id}/fork",
            "Starts another conversation with the history of this one",
        )
        .query(&[SKILLS])
        .may_take("Fork")
        .makes("Conversation")
        .refuses(&[404, 409])
        .better("The fork keeps everything that the agent needs to run, including its model's key."),
        post("/api/conversations/{conversation_id}/switch_llm", "Switches to another model")
            .takes("SwitchModel")
            .refuses(&[404]),
        post("/api/conversations/{conversation_id}/switch_profile", "Switches to the model of a profile")
            .takes("SwitchProfile")
            .refuses(&[400, 404]),
        post(
            "/api/conversations/{conversation_id}/switch_acp_model",
            "Switches an ACP agent to another model",
        )
        .takes("SwitchAcpModel")
        .refuses(&[400, 404, 501]),
        post("/api/conversations/{conversation_id}/load_plugin", "Adds a plugin")
            .takes("LoadPlugin")
            .refuses(&[400, 404]),
        post("/api/conversations/{conversation_id}/ask_agent", "Asks the agent outside the conversation")
            .takes("Ask")
            .answers("FinalResponse")
            .refuses(&[404]),
        post("/api/conversations/{conversation_id}/condense", "Condenses what the model sees")
            .refuses(&[404, 409]),
        post("/api/conversations/{conversation_id}/goal", "Works until an objective is met")
            .takes("Goal")
            .refuses(&[400, 404, 409, 429]),
        post("/api/conversations/{conversation_id}/goal/stop", "Stops working towards the objective")
            .refuses(&[404]),
        post("/api/conversations/{conversation_id}/goal/resume", "Continues working towards the objective")
            .refuses(&[400, 404, 409, 429]),
        post("/api/conversations/{conversation_id}/children", "Starts a child conversation")
            .takes("Child")
            .makes("ChildConversation")
            .refuses(&[404, 429]),
    ],
};

const KIND: Parameter = may("kind", Kind::Text, "only events of this kind");
const SOURCE: Parameter =
    may("source", Kind::Text, "only events of this source: agent, user, environment, hook");
const BODY: Parameter =
    may("body", Kind::Text, "only messages that contain this text, in upper or lower case");
const SINCE: Parameter = may("timestamp__gte", Kind::Time, "only events from this time on");
const BEFORE: Parameter = may("timestamp__lt", Kind::Time, "only events before this time");
const LOG_ORDERS: &[&str] = &["TIMESTAMP", "TIMESTAMP_DESC"];
const LOG_ORDER: Parameter =
    may("sort_order", Kind::Word(LOG_ORDERS), "the order of the log, or the reverse");

const SEARCH: Operation = get(
    "/api/conversations/{conversation_id}/events/search",
    "Lists events, a page at a time",
)
.query(&[PAGE_ID, LIMIT, KIND, SOURCE, BODY, SINCE, BEFORE, LOG_ORDER])
.answers("EventPage")
.refuses(&[404])
.better(
    "Nothing is loaded first. An event of another version or origin is shown in the nearest form that the client \
         can read; in the reference, it hides the whole page.",
);

pub(in crate::server::site::openapi) const EVENTS: Group = Group {
    name: "Events",
    operations: &[
        SEARCH,
        get("/api/conversations/{conversation_id}/events/count", "Counts events")
            .query(&[KIND, SOURCE, BODY, SINCE, BEFORE])
            .answers("Count")
            .refuses(&[404])
            .better(NOT_LOADED),
        get("/api/conversations/{conversation_id}/events/{event_id}", "Shows an event")
            .answers("Event")
            .refuses(&[404]),
        get(
            "/api/conversations/{conversation_id}/events",
            "Shows several events; the body contains their ids",
        )
        .takes("EventIds")
        .answers("EventsOrNull")
        .refuses(&[404]),
        post("/api/conversations/{conversation_id}/events", "Sends a message, and with `run` runs the agent")
            .takes("SendMessage")
            .refuses(&[404, 429]),
        post(
            "/api/conversations/{conversation_id}/events/respond_to_confirmation",
            "Confirms or rejects the waiting actions",
        )
        .takes("Respond")
        .refuses(&[404, 429]),
    ],
};
