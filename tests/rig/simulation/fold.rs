//! Derives data from events in the simplest way: it reads the payloads as JSON, one after the other.

use serde_json::Value;

/// An event with its payload as JSON.
pub struct Seen {
    pub id: String,
    pub body: Value,
}

impl Seen {
    pub fn read(id: &str, payload: &str) -> Self {
        Self { id: id.to_owned(), body: serde_json::from_str(payload).unwrap() }
    }

    fn text(&self, member: &str) -> Option<&str> {
        self.body[member].as_str()
    }

    pub fn kind(&self) -> &str {
        self.text("kind").unwrap_or_default()
    }

    fn role(&self) -> &'static str {
        match (self.kind(), self.text("source")) {
            ("MessageEvent" | "PauseEvent", Some("user")) => "user",
            ("ActionEvent", _) | ("MessageEvent" | "SomethingNew", Some("agent")) => "assistant",
            ("ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent", _) => "tool",
            _ => "environment",
        }
    }

    /// Returns the text that a person can read in the event.
    pub fn words(&self) -> String {
        let body = &self.body;
        let mut texts = Vec::new();
        match self.kind() {
            "MessageEvent" => texts_of(&body["llm_message"]["content"], &mut texts),
            "ActionEvent" => {
                texts_of(&body["thought"], &mut texts);
                let arguments = body["action"].as_object().into_iter().flatten();
                texts.extend(
                    arguments.filter(|(key, _)| *key != "kind").filter_map(|(_, value)| value.as_str()),
                );
            }
            "ObservationEvent" => texts_of(&body["observation"]["content"], &mut texts),
            "UserRejectObservation" => texts.extend(self.text("rejection_reason")),
            "AgentErrorEvent" => texts.extend(self.text("error")),
            "ConversationStateUpdateEvent" => {
                texts.extend(self.text("key").into_iter().chain(self.text("value")))
            }
            "SomethingNew" => texts.extend(self.text("content")),
            _ => {}
        }
        texts.retain(|text| !text.is_empty());
        texts.join("\n")
    }

    /// Returns whether the event is a message of a person.
    pub fn is_user_message(&self) -> bool {
        self.kind() == "MessageEvent" && self.text("source") == Some("user")
    }

    /// Returns the line of the transcript: role, tool, text.
    pub fn line(&self) -> (String, Option<String>, String) {
        (self.role().to_owned(), self.text("tool_name").map(str::to_owned), self.words())
    }
}

fn texts_of<'a>(parts: &'a Value, texts: &mut Vec<&'a str>) {
    texts.extend(parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()));
}

/// Returns the first 200 characters of the first message of a person. `None` if there is no message with text.
pub fn first_message(events: &[Seen]) -> Option<String> {
    let line = |event: &Seen| {
        let words = event.words();
        let words: Vec<&str> = words.split_whitespace().collect();
        words.join(" ").chars().take(200).collect::<String>()
    };
    events.iter().filter(|event| event.is_user_message()).map(line).find(|line| !line.is_empty())
}

/// A tool call and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub sequence: u64,
    pub action: String,
    pub tool: Option<String>,
    pub call: Option<String>,
    pub command: Option<String>,
    pub path: Option<String>,
    pub outcome: String,
    pub exit_code: Option<i64>,
    pub result: Option<String>,
}

/// Returns the tool calls. The first answer to a call counts. It is matched by the action that it names, else by the
/// newest pending call with its tool call id.
pub fn calls(events: &[Seen]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for (sequence, event) in events.iter().enumerate() {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let action = &event.body["action"];
        let (outcome, names_action) = match event.kind() {
            "ActionEvent" => {
                calls.push(Call {
                    sequence: sequence as u64,
                    action: event.id.clone(),
                    tool: own(event.text("tool_name")),
                    call: own(event.text("tool_call_id")),
                    command: own(action["command"].as_str()),
                    path: own(action["path"].as_str()),
                    outcome: "pending".into(),
                    exit_code: None,
                    result: None,
                });
                continue;
            }
            "ObservationEvent" if event.body["observation"]["is_error"] == true => ("error", true),
            "ObservationEvent" => match event.body["observation"]["metadata"]["exit_code"].as_i64() {
                Some(code) if code != 0 => ("failed", true),
                _ => ("ok", true),
            },
            "UserRejectObservation" => ("rejected", true),
            "AgentErrorEvent" => ("error", false),
            _ => continue,
        };
        let by_action =
            calls.iter().position(|call| names_action && event.text("action_id") == Some(&call.action));
        let by_call_id = || {
            let id = event.text("tool_call_id");
            calls.iter().rposition(|call| call.outcome == "pending" && call.call.as_deref() == id)
        };
        let Some(place) = by_action.or_else(by_call_id) else { continue };
        if calls[place].result.is_none() {
            calls[place].outcome = outcome.into();
            calls[place].result = Some(event.id.clone());
            calls[place].exit_code = event.body["observation"]["metadata"]["exit_code"].as_i64();
        }
    }
    calls
}

/// Returns the newest list of tasks: title, notes, status.
pub fn tasks(events: &[Seen]) -> Vec<[String; 3]> {
    let lists = events.iter().rev().filter(|event| event.kind() == "ObservationEvent");
    let newest = lists.filter_map(|event| event.body["observation"]["task_list"].as_array()).next();
    let text = |task: &Value, member: &str| task[member].as_str().unwrap_or_default().to_owned();
    let task = |task: &Value| ["title", "notes", "status"].map(|member| text(task, member));
    newest.into_iter().flatten().map(task).collect()
}

/// Returns the tokens sent, the tokens received and the cost, from the base state's `stats` or else from the events.
/// `None` if there are no figures.
pub fn usage(events: &[Seen], stats: Option<&Value>) -> Option<(i64, i64, f64)> {
    let figures = |stats: &Value| {
        let metrics = stats["usage_to_metrics"]["agent"].as_object()?;
        let count = |member: &str| metrics["accumulated_token_usage"][member].as_i64().unwrap_or(0);
        let cost = metrics["accumulated_cost"].as_f64().unwrap_or(0.0);
        Some((count("prompt_tokens"), count("completion_tokens"), cost))
    };
    if let Some(figures) = stats.and_then(figures) {
        return Some(figures);
    }
    let mut total = None;
    let mut before = (0, 0, 0.0);
    for event in events.iter().filter(|event| event.text("key") == Some("stats")) {
        let Some(now) = figures(&event.body["value"]) else { continue };
        let step = (now.0 - before.0, now.1 - before.1, now.2 - before.2);
        // If a figure decreases, the count was reset.
        let step = if step.0 < 0 || step.1 < 0 || step.2 < 0.0 { now } else { step };
        before = now;
        if step != (0, 0, 0.0) {
            let sum: (i64, i64, f64) = total.unwrap_or_default();
            total = Some((sum.0 + step.0, sum.1 + step.1, sum.2 + step.2));
        }
    }
    total
}
