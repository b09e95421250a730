//! `query_sql`: one guarded statement over the documented views.

use serde_json::{Value, json};

use super::{Call, Tool, rows};
use crate::mcp::trouble::Trouble;
use crate::store::SqlQuery;

pub(super) const TOOL: Tool = Tool {
    name: "query_sql",
    title: "Query past conversations with SQL",
    description: "Answers one read-only SQL select over the views of describe_views (SQLite's SQL), for questions that \
                  no other tool answers: counts, sums, sequences of tool calls. It can change nothing, and ends after \
                  20 seconds. Give ORDER BY and LIMIT, and name the columns you need: payloads are large.",
    properties,
    required: &["sql"],
    is_paged: true,
    writes: false,
    answer,
};

fn properties() -> Value {
    json!({
        "sql": {
            "type": "string",
            "description": "One select, such as: select tool, outcome, count(*) from tool_calls group by 1, 2 order by 3 desc.",
        },
        "parameters": {
            "type": "object", "additionalProperties": true,
            "description": "A value for each :name in the statement.",
        },
    })
}

fn answer(call: &Call<'_>) -> Result<String, Trouble> {
    let sql = call.arguments.required("sql")?;
    let parameters = rows::parameters(call.arguments.object("parameters")?)?;
    let found = call.store.query(&SqlQuery { sql, parameters: &parameters, limits: rows::limits() })?;
    rows::page(call, "Answer of the query.", &found)
}
