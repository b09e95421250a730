//! The reports about costs.

use super::parts::{
    CACHE_READ, COMPLETION, CONVERSATION, CONVERSATIONS, COST, ESTIMATE, ID, LIMIT, MODEL, MONEY, MS, PROMPT,
    SINCE, TITLE, TOKENS, UNPRICED, UNTIL, UTC, WORKSPACE,
};
use super::report::{Parameter, ParameterKind, Report, column};

pub(super) const BY_MODEL: Report = Report {
    name: "cost-by-model",
    question: "What did each model cost?",
    note: "Rows whose time is unknown are left out once since or until is given.",
    parameters: &[CONVERSATION, SINCE, UNTIL],
    columns: &[
        column("model", "", ""),
        CONVERSATIONS,
        column("calls", "calls", "that are known one by one"),
        PROMPT,
        COMPLETION,
        CACHE_READ,
        column("cache_write_tokens", TOKENS, ""),
        column("reasoning_tokens", TOKENS, ""),
        COST,
        ESTIMATE,
        UNPRICED,
        column("latency_ms", MS, "mean, of the calls that are known one by one"),
    ],
    sql: include_str!("sql/cost-by-model.sql"),
};

pub(super) const BY_CONVERSATION: Report = Report {
    name: "cost-by-conversation",
    question: "Which conversations cost most?",
    note: "A call that several conversations have counts for one of them; `cost-calls` says for which.",
    parameters: &[WORKSPACE, MODEL, SINCE, UNTIL, LIMIT],
    columns: &[
        ID,
        TITLE,
        column("models", "", ""),
        PROMPT,
        COMPLETION,
        CACHE_READ,
        COST,
        ESTIMATE,
        UNPRICED,
        column("cost_with_sub_agents", MONEY, "empty: it has no sub-agents, or no cost is known"),
        column("estimated_with_sub_agents", MONEY, "likewise, of what is estimated"),
    ],
    sql: include_str!("sql/cost-by-conversation.sql"),
};

pub(super) const CALLS: Report = Report {
    name: "cost-calls",
    question: "Which calls of a model were counted, at which price, and which are copies?",
    note: "Forks, resumes and sub-agents of other programs have copies of calls. A copy costs nothing once more.",
    parameters: &[CONVERSATION, MODEL, SINCE, UNTIL, LIMIT],
    columns: &[
        ID,
        column("sequence", "place", "of the event that reports it; empty: the base state does"),
        column("at", UTC, ""),
        column("usage_id", "", "what the model was used for"),
        column("model", "", ""),
        column("response_id", "", ""),
        PROMPT,
        COMPLETION,
        CACHE_READ,
        column("cache_write_tokens", TOKENS, ""),
        COST,
        ESTIMATE,
        column(
            "price",
            "",
            "log: as the log says; table: by the built-in price table; unknown; sum: it is in another row; copy",
        ),
        column("counted_in", "", "the conversation in which a copy is counted"),
    ],
    sql: include_str!("sql/cost-calls.sql"),
};

pub(super) const BY_WORKSPACE: Report = Report {
    name: "cost-by-workspace",
    question: "What did the work on each folder or repository cost?",
    note: "A conversation without a known workspace counts under an empty name.",
    parameters: &[MODEL, SINCE, UNTIL],
    columns: &[
        column("workspace", "path", "empty: nothing says it"),
        CONVERSATIONS,
        PROMPT,
        COMPLETION,
        CACHE_READ,
        COST,
        ESTIMATE,
        UNPRICED,
    ],
    sql: include_str!("sql/cost-by-workspace.sql"),
};

pub(super) const BY_TAG: Report = Report {
    name: "cost-by-tag",
    question: "What did the conversations of each tag cost?",
    note: "A conversation with two tags counts for both.",
    parameters: &[
        Parameter { name: "tag", kind: ParameterKind::Text, what: "only this tag", default: None },
        SINCE,
        UNTIL,
    ],
    columns: &[
        column("tag", "", ""),
        column("value", "", ""),
        CONVERSATIONS,
        PROMPT,
        COMPLETION,
        COST,
        ESTIMATE,
        UNPRICED,
    ],
    sql: include_str!("sql/cost-by-tag.sql"),
};

pub(super) const BY_DAY: Report = Report {
    name: "cost-by-day",
    question: "What did each day cost?",
    note: "The day on which a model call was made. It is unknown where no record has the time.",
    parameters: &[CONVERSATION, MODEL, SINCE, UNTIL],
    columns: &[
        column("day", "date", ""),
        CONVERSATIONS,
        PROMPT,
        COMPLETION,
        CACHE_READ,
        COST,
        ESTIMATE,
        UNPRICED,
    ],
    sql: include_str!("sql/cost-by-day.sql"),
};
