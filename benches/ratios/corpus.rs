//! The events that all benchmarks use. They are realistic in shape and size, and the same in every run.

use std::path::Path;

use annals::NewEvent;
use annals::state::FieldChange;
use annals::store::BaseStateChange;

const WORDS: &[&str] = &[
    "the",
    "build",
    "test",
    "error",
    "warning",
    "module",
    "function",
    "return",
    "value",
    "request",
    "server",
    "client",
    "cache",
    "index",
    "branch",
    "commit",
    "file",
    "path",
    "line",
    "token",
    "stream",
    "parse",
    "render",
    "update",
    "delete",
    "insert",
    "select",
    "join",
    "timeout",
    "retry",
    "socket",
    "thread",
    "lock",
    "queue",
    "worker",
    "metric",
    "config",
    "schema",
    "naïve",
    "日本語",
    "données",
    "✓",
    "→",
];

/// A small generator of pseudo-random numbers (xorshift64*). Every run gets the same events from it.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a log-normal number with this median. `ln` of the result has the standard deviation `sigma`.
    fn log_normal(&mut self, median: f64, sigma: f64) -> usize {
        let (a, b) = (self.unit().max(1e-12), self.unit());
        let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        (median * (sigma * normal).exp()) as usize
    }
}

fn words(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.push_str(WORDS[random.below(WORDS.len())]);
        text.push_str(if random.below(12) == 0 { "\\n" } else { " " });
    }
    text
}

fn uuid(random: &mut Random) -> String {
    let (a, b) = (random.next(), random.next());
    let (time_low, time_mid, time_high) = (a >> 32, a >> 16 & 0xffff, a & 0xfff);
    format!("{time_low:08x}-{time_mid:04x}-4{time_high:03x}-a{:03x}-{:012x}", b >> 52, b & 0xffff_ffff_ffff)
}

/// Returns `count` events of one conversation. Every 40th event is a user message, the others are actions and their
/// observations. Each event is the child of the event before it.
pub fn events(count: usize, seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut events = Vec::with_capacity(count);
    let (mut parent, mut action) = (String::new(), String::new());
    for index in 0..count {
        let id = uuid(&mut random);
        let (hour, minute, second) = (index / 3600 % 24, index / 60 % 60, index % 60);
        let time = format!("2026-01-01T{hour:02}:{minute:02}:{second:02}.{:06}", index % 1_000_000);
        let size = match random.below(400) {
            0 => 100_000 + random.below(100_000),
            _ => random.log_normal(640.0, 1.75).clamp(40, 90_000),
        };
        let text = words(&mut random, size);
        let parent_id = if parent.is_empty() { String::new() } else { format!(r#""parent_id":"{parent}","#) };
        let head = format!(r#"{{"id":"{id}","timestamp":"{time}","#);
        let event = if index % 40 == 0 {
            format!(
                r#"{head}"source":"user",{parent_id}"llm_message":{{"role":"user","content":[{{"cache_prompt":false,"type":"text","text":"{text}"}}],"thinking_blocks":[]}},"activated_skills":[],"extended_content":[],"kind":"MessageEvent"}}"#
            )
        } else if index % 2 == 1 {
            action.clone_from(&id);
            format!(
                r#"{head}"source":"agent",{parent_id}"thought":[{{"cache_prompt":false,"type":"text","text":"{text}"}}],"thinking_blocks":[],"action":{{"command":"cargo test --workspace","is_input":false,"reset":false,"kind":"TerminalAction"}},"tool_name":"terminal","tool_call_id":"call_{index:08}","tool_call":{{"id":"call_{index:08}","name":"terminal","arguments":"{{\"command\": \"cargo test --workspace\"}}","origin":"completion"}},"llm_response_id":"chatcmpl-{index:08}","security_risk":"UNKNOWN","summary":"run the tests","kind":"ActionEvent"}}"#
            )
        } else {
            format!(
                r#"{head}"source":"environment",{parent_id}"tool_name":"terminal","tool_call_id":"call_{:08}","observation":{{"content":[{{"cache_prompt":false,"type":"text","text":"{text}"}}],"is_error":false,"command":"cargo test --workspace","exit_code":0,"timeout":false,"metadata":{{"exit_code":0,"pid":-1,"username":"root","hostname":"sandbox","working_dir":"/workspace","py_interpreter_path":"","prefix":"","suffix":""}},"kind":"TerminalObservation"}},"action_id":"{action}","extended_content":[],"kind":"ObservationEvent"}}"#,
                index - 1
            )
        };
        events.push(event);
        parent = id;
    }
    events
}

/// Returns the same events without parents. A benchmark may spread them over conversations, but a parent must be in the
/// conversation of its child.
pub fn orphans(count: usize, seed: u64) -> Vec<String> {
    events(count, seed)
        .into_iter()
        .map(|event| event.replacen("\"parent_id\":", "\"was_parent\":", 1))
        .collect()
}

/// Commands that an agent runs, one in eight of them over the network.
const COMMANDS: &[&str] = &[
    "cargo test --workspace",
    "ls -la",
    "git diff --stat",
    "pip install -r requirements.txt",
    "grep -rn TODO src",
    "sed -n 1,80p src/main.rs",
    "make check",
    "curl -sS https://example.com/health",
];

/// Returns the events of one of many sessions that an auditor reads. They have different commands, failed commands and
/// risks, and their day depends on the seed.
pub fn audited(count: usize, seed: u64) -> Vec<String> {
    let mut random = Random::new(seed ^ 0x5eed);
    let day = format!("2026-{:02}-{:02}T", seed / 28 % 12 + 1, seed % 28 + 1);
    let mut command = COMMANDS[0];
    let mut error = false;
    events(count, seed)
        .into_iter()
        .enumerate()
        .map(|(index, event)| {
            let event = event.replacen("2026-01-01T", &day, 1);
            if index % 40 == 0 {
                return event;
            }
            if index % 2 == 1 {
                command = COMMANDS[random.below(COMMANDS.len())];
                error = random.below(12) == 0;
                let risk = ["LOW", "LOW", "MEDIUM", "UNKNOWN", "HIGH"][random.below(5).min(random.below(5))];
                return event.replace("cargo test --workspace", command).replacen(
                    "\"UNKNOWN\"",
                    &format!("\"{risk}\""),
                    1,
                );
            }
            let event = event.replace("cargo test --workspace", command);
            if error { event.replace("\"exit_code\":0", "\"exit_code\":1") } else { event }
        })
        .collect()
}

/// Returns the base state of the session `number`: its status, its cost and the name of a secret.
pub fn session_state(number: usize) -> BaseStateChange {
    let status = ["finished", "finished", "finished", "error", "stuck", "paused"][number % 6];
    let model = ["model-a", "model-b", "model-c"][number % 3];
    let stats = format!(
        r#"{{"usage_to_metrics":{{"agent":{{"model_name":"{model}","accumulated_cost":{0}.25,"accumulated_token_usage":{{"model":"{model}","prompt_tokens":{0}000,"completion_tokens":{0}00}}}}}}}}"#,
        number % 9 + 1
    );
    let secrets = r#"{"secret_sources":{"API_TOKEN":{"kind":"StaticSecret","description":null}}}"#;
    let field = |name, value: &str| FieldChange::set(name, value).expect("the field is valid");
    BaseStateChange::new(vec![
        field("execution_status", &format!("\"{status}\"")),
        field("stats", &stats),
        field("secret_registry", secrets),
    ])
}

/// Returns a description of the sizes of the events.
pub fn describe() -> String {
    let mut sizes: Vec<usize> = events(20_000, 1).iter().map(String::len).collect();
    sizes.sort_unstable();
    let quantile = |share: f64| sizes[(sizes.len() as f64 * share) as usize];
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    let large = sizes.iter().filter(|size| **size >= 100_000).count();
    format!(
        "Events: median {} B, mean {mean} B, 95th percentile {} B, largest {} B; one in {} has 100 kB or more.",
        quantile(0.5),
        quantile(0.95),
        sizes[sizes.len() - 1],
        sizes.len() / large.max(1),
    )
}

/// Parses a payload as a new event.
pub fn checked(payload: String) -> NewEvent {
    NewEvent::parse(payload).expect("the corpus is valid")
}

/// Writes the events as the folder of a conversation, with the file names of the reference.
pub fn write_folder(folder: &Path, events: &[String]) {
    std::fs::create_dir_all(folder.join("events")).expect("a folder");
    for (index, event) in events.iter().enumerate() {
        let id = event[7..43].to_owned(); // {"id":"…
        let name = format!("event-{index:05}-{id}.json");
        std::fs::write(folder.join("events").join(name), event).expect("an event's file");
    }
    let state = r#"{"id":"0f0e0d0c-0b0a-4908-8706-050403020100","execution_status":"finished","tags":{},"leaf_event_id":null}"#;
    std::fs::write(folder.join("base_state.json"), state).expect("the base state");
}
