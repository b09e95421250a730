//! Measures agents: the time of one step without the model and the tools, and how many agents run at once in one
//! process.
//!
//! ```sh
//! cargo bench --bench agents                                        # a minute
//! ANNALS_SDK_PYTHON=.../bin/python cargo bench --bench agents       # also measures the real SDK
//! ```
//!
//! A step is one reply of the model that calls the tool `think`. It lasts from the reply to the next request, and
//! everything is durable by then. The model is in this process and sleeps for its latency. Threads and memory are those
//! of the whole process.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use annals::Store;
use annals::agent::AgentDocument;
use annals::conversation::{Conversation, Host};
use annals::event::{Content, Json, Message, MessageToolCall, Role};
use annals::llm::{Boxed, Call, LlmError, Model, Reply, Request, ToolSchema};

/// The number of steps of the conversation that runs alone.
const STEPS: usize = 300;
/// The number of conversations that run at once.
const AT_ONCE: usize = 200;
/// The number of steps of each of them.
const STEPS_EACH: usize = 10;
/// The latency of their model.
const LATENCY: Duration = Duration::from_millis(300);

/// A model that calls `think` in each reply until no step is left. Each conversation has its own.
struct Steps {
    left: Mutex<usize>,
    latency: Duration,
    answered: Mutex<Option<Instant>>,
    /// The times from each reply to the next request.
    gaps: Arc<Mutex<Vec<Duration>>>,
}

impl Model for Steps {
    fn name(&self) -> &str {
        "openai/gpt-4o"
    }

    fn usage_id(&self) -> &str {
        "agent"
    }

    fn has_vision(&self) -> bool {
        true
    }

    fn input_tokens_max(&self) -> Option<u64> {
        Some(128_000)
    }

    fn count_tokens(&self, messages: &[Message], _: &[ToolSchema]) -> u64 {
        messages.len() as u64 * 10
    }

    fn complete<'a>(&'a self, _: Request, _: Call<'a>) -> Boxed<'a, Result<Reply, LlmError>> {
        if let Some(answered) = self.answered.lock().unwrap().take() {
            self.gaps.lock().unwrap().push(answered.elapsed());
        }
        Box::pin(async move {
            tokio::time::sleep(self.latency).await;
            let left = {
                let mut left = self.left.lock().unwrap();
                let now = *left;
                *left = now.saturating_sub(1);
                now
            };
            let mut message = Message::new(Role::Assistant, vec![Content::text("Let me think.")]);
            if left > 0 {
                let arguments =
                    format!(r#"{{"thought":"There are {left} steps left, and each is a thought."}}"#);
                message.tool_calls =
                    Some(vec![MessageToolCall::new(format!("call-{left}"), "think", arguments)]);
            }
            let id = format!("reply-{left}");
            *self.answered.lock().unwrap() = Some(Instant::now());
            let mut reply = Reply::new(id, message);
            (reply.usage.prompt_tokens, reply.usage.completion_tokens) = (1000, 20);
            (reply.cost, reply.latency) = (Some(0.001), self.latency);
            Ok(reply)
        })
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let host = |name: &str| Host::new(Store::open(folder.path().join(name)).expect("open"));

    let gaps = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(converse(&host("steps.db"), folder.path(), STEPS, Duration::ZERO, &gaps));
    let own = Figures::of(&gaps.lock().unwrap());
    println!("a step of Annals, besides model and tools    {own}");
    if let Ok(python) = std::env::var("ANNALS_SDK_PYTHON") {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/sdk_steps.py");
        let done = Command::new(python)
            .args([script.as_os_str(), STEPS.to_string().as_ref(), folder.path().join("sdk").as_os_str()])
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("OPENHANDS_SUPPRESS_BANNER", "1")
            .output()
            .expect("the SDK's Python");
        let text = String::from_utf8_lossy(&done.stdout);
        let micros = text.lines().last().unwrap_or_default().split(' ').filter_map(|gap| gap.parse().ok());
        let gaps: Vec<Duration> = micros.map(Duration::from_micros).collect();
        assert!(!gaps.is_empty(), "the SDK: {}", String::from_utf8_lossy(&done.stderr));
        let sdk = Figures::of(&gaps);
        println!("a step of the real SDK, the same run         {sdk}");
        println!("the SDK's median is {:.1} times Annals'", sdk.median / own.median);
    }

    let before = status("VmRSS:");
    let many = host("many.db");
    let gaps = Arc::new(Mutex::new(Vec::new()));
    let began = Instant::now();
    let threads = runtime.block_on(async {
        let runs: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (host, gaps, folder) = (many.clone(), Arc::clone(&gaps), folder.path().to_owned());
                tokio::spawn(async move { converse(&host, &folder, STEPS_EACH, LATENCY, &gaps).await })
            })
            .collect();
        tokio::time::sleep(LATENCY * 3).await;
        let threads = status("Threads:");
        for run in runs {
            run.await.expect("a conversation");
        }
        threads
    });
    let took = began.elapsed().as_secs_f64();
    let least = LATENCY.as_secs_f64() * (STEPS_EACH + 1) as f64;
    println!(
        "{AT_ONCE} at once, {STEPS_EACH} steps each at {LATENCY:?}   {took:.2} s, {:.2} times the model's own {least:.2} s; \
         {threads} threads; {:.0} MB more than before, at most",
        took / least,
        status("VmHWM:").saturating_sub(before) as f64 / 1024.0,
    );
    println!("a step among them                            {}", Figures::of(&gaps.lock().unwrap()));
    let events = many.store().statistics().expect("statistics").events;
    println!("{events} events, each durable: {:.0} a second", events as f64 / took);
}

/// Runs a conversation of `steps` steps.
async fn converse(
    host: &Host,
    folder: &Path,
    steps: usize,
    latency: Duration,
    gaps: &Arc<Mutex<Vec<Duration>>>,
) {
    let (left, gaps) = (Mutex::new(steps), Arc::clone(gaps));
    let model = Steps { left, latency, answered: Mutex::default(), gaps };
    let llm = Json::parse(r#"{"model":"openai/gpt-4o","usage_id":"agent"}"#).expect("settings");
    let conversation = Conversation::builder()
        .host(host)
        .agent(AgentDocument::new(&llm, &[]))
        .workspace(folder.join("work"))
        .model(Arc::new(model))
        .open()
        .await
        .expect("open");
    conversation.send_message("Think about it, step by step.").await.expect("a message");
    conversation.run().await.expect("a run");
    conversation.close().await.expect("close");
}

/// Returns a value from `/proc/self/status`, in the unit that it has there. 0 if it is not there.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Statistics of durations, in milliseconds.
struct Figures {
    median: f64,
    worst_in_twenty: f64,
    last_tenth: f64,
}

impl Figures {
    fn of(gaps: &[Duration]) -> Self {
        let mut millis: Vec<f64> = gaps.iter().map(|gap| gap.as_secs_f64() * 1e3).collect();
        let mut last = millis.split_off(millis.len() * 9 / 10);
        let last_tenth = median(&mut last);
        millis.append(&mut last);
        let median = median(&mut millis);
        Self { median, worst_in_twenty: millis[millis.len() * 19 / 20], last_tenth }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { median, worst_in_twenty, last_tenth } = self;
        write!(
            f,
            "{median:.2} ms median, {worst_in_twenty:.2} ms for the slowest twentieth, {last_tenth:.2} ms in the last tenth"
        )
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
