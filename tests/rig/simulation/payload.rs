//! Events to append: small, of every kind that a projection reads, with times that only ascend.

use annals::NewEvent;
use serde_json::{Value, json};

use super::random::Random;

/// The words that texts consist of, and that searches look for.
pub const WORDS: [&str; 8] = ["amber", "birch", "cedar", "dune", "ember", "fjord", "glade", "heath"];

/// The ids of tool calls. There are only a few, so that ids repeat.
const CALLS: [&str; 3] = ["call-a", "call-b", "call-c"];

/// The state of the conversation that a new event depends on.
pub struct Surroundings<'a> {
    /// The ids of its actions so far.
    pub actions: &'a [String],
    /// The tokens used so far: sent and received.
    pub spent: (i64, i64),
}

/// The time `number` seconds after the start, in the format of events.
pub fn time(number: u64) -> String {
    let (day, second) = (1 + number / 86_400, number % 86_400);
    format!("2025-01-{day:02}T{:02}:{:02}:{:02}.000000", second / 3600, second / 60 % 60, second % 60)
}

/// Makes a random event with the id `id` and the time `number`. `parent` is its parent id, if it has one.
pub fn event(
    random: &mut Random,
    id: &str,
    number: u64,
    parent: Option<&str>,
    around: &Surroundings<'_>,
) -> NewEvent {
    let (kind, mut members) = some_kind(random, id, around);
    members["id"] = id.into();
    members["kind"] = kind.into();
    members["timestamp"] = time(number).into();
    if let Some(parent) = parent {
        members["parent_id"] = parent.into();
    }
    NewEvent::parse(members.to_string()).unwrap()
}

/// Makes a different event with the id `event`.
pub fn impostor(event: &str, number: u64) -> NewEvent {
    let members =
        json!({"id": event, "kind": "PauseEvent", "source": "hook", "timestamp": time(number), "claim": 1});
    NewEvent::parse(members.to_string()).unwrap()
}

fn text(random: &mut Random, id: &str) -> String {
    let words: Vec<&str> = (0..1 + random.below(4)).map(|_| pick(random, &WORDS)).copied().collect();
    // A unique word, so that a search can find this event alone.
    format!("{} u{}", words.join(" "), id.replace('-', "x"))
}

/// Picks one element at random.
pub fn pick<'a, T>(random: &mut Random, from: &'a [T]) -> &'a T {
    &from[random.below(from.len() as u64) as usize]
}

fn some_kind(random: &mut Random, id: &str, around: &Surroundings<'_>) -> (&'static str, Value) {
    let message =
        |role: &str, text: String| json!({"role": role, "content": [{"type": "text", "text": text}]});
    let answered = if around.actions.is_empty() || random.below(8) == 0 {
        "nothing".to_owned()
    } else {
        pick(random, around.actions).clone()
    };
    let call = *pick(random, &CALLS);
    match random.below(24) {
        0..6 => {
            let mut said = message("user", text(random, id));
            if random.below(8) == 0 {
                // So long that the catalogue keeps only a part of it.
                said["content"][0]["text"] = text(random, id).repeat(20).into();
            }
            ("MessageEvent", json!({"source": "user", "llm_message": said}))
        }
        6..8 => {
            let said = message("assistant", text(random, id));
            ("MessageEvent", json!({"source": "agent", "llm_message": said}))
        }
        8..12 => (
            "ActionEvent",
            json!({"source": "agent", "tool_name": "terminal", "tool_call_id": call, "llm_response_id": id,
                   "security_risk": "LOW", "thought": [],
                   "action": {"kind": "TerminalAction", "command": format!("grep {}", text(random, id))}}),
        ),
        12..13 => (
            "ActionEvent",
            json!({"source": "agent", "tool_name": "file_editor", "tool_call_id": call, "llm_response_id": id,
                   "thought": [{"type": "text", "text": text(random, id)}],
                   "action": {"kind": "FileEditorAction", "command": "view", "path": format!("/tmp/{id}")}}),
        ),
        13..16 => (
            "ObservationEvent",
            json!({"source": "environment", "tool_name": "terminal", "tool_call_id": call, "action_id": answered,
                   "observation": {"kind": "TerminalObservation", "is_error": random.below(3) == 0,
                                   "content": [{"type": "text", "text": text(random, id)}],
                                   "metadata": {"exit_code": random.below(3)}}}),
        ),
        16..17 => {
            let task = |title: &str| json!({"title": title, "notes": id, "status": "todo"});
            let tasks: Vec<Value> =
                WORDS.iter().take(random.below(4) as usize).map(|word| task(word)).collect();
            (
                "ObservationEvent",
                json!({"source": "environment", "tool_name": "task_tracker", "tool_call_id": call,
                       "action_id": answered, "observation": {"kind": "TaskTrackerObservation",
                       "command": "plan", "content": [], "task_list": tasks}}),
            )
        }
        17..18 => (
            "UserRejectObservation",
            json!({"source": "environment", "tool_name": "terminal", "tool_call_id": call, "action_id": answered,
                   "rejection_reason": text(random, id),
                   "rejection_source": pick(random, &["user", "hook"])}),
        ),
        18..19 => (
            "AgentErrorEvent",
            json!({"source": "agent", "tool_name": "terminal", "tool_call_id": call, "error": text(random, id)}),
        ),
        19..20 => ("PauseEvent", json!({"source": "user"})),
        20..22 => {
            let (sent, received) = around.spent;
            let figures = figures(sent + random.below(50) as i64, received + random.below(9) as i64);
            (
                "ConversationStateUpdateEvent",
                json!({"source": "environment", "key": "stats", "value": figures}),
            )
        }
        22..23 => (
            "ConversationStateUpdateEvent",
            json!({"source": "environment", "key": "execution_status",
                   "value": pick(random, &["idle", "running", "finished", "stuck"])}),
        ),
        _ => ("SomethingNew", json!({"source": "agent", "content": text(random, id)})),
    }
}

/// The usage of the models, in the form of the `stats` of a state.
pub fn figures(sent: i64, received: i64) -> Value {
    json!({"usage_to_metrics": {"agent": {"model_name": "some-model", "accumulated_cost": sent as f64 / 4.0,
        "accumulated_token_usage": {"prompt_tokens": sent, "completion_tokens": received}}}})
}
