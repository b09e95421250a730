//! A model that plays a list of replies, for tests, examples and benches.
//!
//! Each call takes the next [`Line`]. The requests are stored and can be read afterwards.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::tokens::count_tokens;
use super::{Boxed, Call, Delta, LlmError, Model, Reply, Request, ToolSchema};
use crate::event::{Content, Message, MessageToolCall, Role};
use crate::state::metrics::TokenUsage;

/// The answer to one call.
#[derive(Debug, Clone)]
pub struct Line {
    answer: Result<Message, LlmError>,
    id: Option<String>,
    usage: TokenUsage,
    cost: Option<f64>,
    delay: Duration,
    gate: Option<Gate>,
    deltas: Vec<Delta>,
}

/// Holds calls until it is opened. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(Arc<GateState>);

#[derive(Debug)]
struct GateState {
    /// One permit for each call that waits at the gate.
    reached: Semaphore,
    /// Has no permit while the gate is closed.
    open: Semaphore,
}

/// A model that plays a list of replies. Clones play the same list.
#[derive(Debug, Clone)]
pub struct Scripted {
    script: Arc<Mutex<Script>>,
    name: Arc<str>,
    usage_id: Arc<str>,
    vision: bool,
    input_tokens_max: Option<u64>,
}

#[derive(Debug, Default)]
struct Script {
    lines: VecDeque<Line>,
    /// Played after the end of the list.
    last: Option<Line>,
    requests: Vec<Request>,
}

impl Line {
    /// Makes a reply with this text and no calls.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::message(Message::new(Role::Assistant, vec![Content::text(text)]))
    }

    /// Makes a reply with this text and these calls: `(id, tool, arguments as JSON)`.
    #[must_use]
    pub fn calls(text: &str, calls: &[(&str, &str, &str)]) -> Self {
        let content = if text.is_empty() { Vec::new() } else { vec![Content::text(text)] };
        let mut message = Message::new(Role::Assistant, content);
        let call = |(id, tool, arguments): &(&str, &str, &str)| MessageToolCall::new(*id, *tool, *arguments);
        message.tool_calls = Some(calls.iter().map(call).collect());
        Self::message(message)
    }

    /// Makes a reply with this message.
    #[must_use]
    pub fn message(message: Message) -> Self {
        Self::of(Ok(message))
    }

    /// Makes a failure.
    #[must_use]
    pub fn error(error: LlmError) -> Self {
        Self::of(Err(error))
    }

    /// Sets the id of the reply. The default is `reply-1`, `reply-2`, ..
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Sets the number of tokens sent and received.
    #[must_use]
    pub fn tokens(mut self, prompt: u64, completion: u64) -> Self {
        self.usage.prompt_tokens = prompt;
        self.usage.completion_tokens = completion;
        self
    }

    /// Sets the whole usage. The model, the window, the tokens of the turn and the id of the reply are filled in.
    #[must_use]
    pub fn usage(mut self, usage: TokenUsage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the cost.
    #[must_use]
    pub fn cost(mut self, cost: f64) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Sets the time before the answer.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Holds the answer until the gate is opened.
    #[must_use]
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Sets the pieces for a call with a callback. Without pieces, each text is one piece.
    #[must_use]
    pub fn deltas(mut self, deltas: Vec<Delta>) -> Self {
        self.deltas = deltas;
        self
    }

    fn of(answer: Result<Message, LlmError>) -> Self {
        Self {
            answer,
            id: None,
            usage: TokenUsage::default(),
            cost: None,
            delay: Duration::ZERO,
            gate: None,
            deltas: Vec::new(),
        }
    }

    fn pieces(&self) -> Vec<Delta> {
        match &self.answer {
            Ok(message) if self.deltas.is_empty() => {
                let texts =
                    message.content.iter().filter_map(Content::as_text).filter(|text| !text.is_empty());
                texts.map(|text| Delta::Text(text.to_owned())).collect()
            }
            _ => self.deltas.clone(),
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(GateState { reached: Semaphore::new(0), open: Semaphore::new(0) }))
    }
}

impl Gate {
    /// Makes a closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until a call reaches the gate. Each call is reported once.
    pub async fn reached(&self) {
        let permit = self.0.reached.acquire().await.expect("the semaphore is never closed");
        permit.forget();
    }

    /// Opens the gate for all waiting and all later calls.
    pub fn open(&self) {
        self.0.open.add_permits(1);
    }

    /// Waits at the gate until it is open.
    pub async fn pass(&self) {
        self.0.reached.add_permits(1);
        // The permit is returned, so that the gate stays open.
        drop(self.0.open.acquire().await);
    }
}

impl Scripted {
    /// Makes a model that plays these lines, one for each call. A call after the last line fails with
    /// [`LlmError::NoResponse`].
    #[must_use]
    pub fn new(lines: impl IntoIterator<Item = Line>) -> Self {
        let script = Script { lines: lines.into_iter().collect(), ..Script::default() };
        Self {
            script: Arc::new(Mutex::new(script)),
            name: "scripted/model".into(),
            usage_id: "agent".into(),
            vision: true,
            input_tokens_max: None,
        }
    }

    /// Sets the line for every call after the end of the list.
    #[must_use]
    pub fn then_always(self, line: Line) -> Self {
        self.script().last = Some(line);
        self
    }

    /// Sets the name of the model.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the use that its tokens and costs are counted under.
    #[must_use]
    pub fn used_as(mut self, usage_id: &str) -> Self {
        self.usage_id = usage_id.into();
        self
    }

    /// Makes the model unable to see pictures.
    #[must_use]
    pub fn blind(mut self) -> Self {
        self.vision = false;
        self
    }

    /// Sets the most tokens that the model reads.
    #[must_use]
    pub fn input_tokens(mut self, max: u64) -> Self {
        self.input_tokens_max = Some(max);
        self
    }

    /// Adds a line to the end of the list.
    pub fn push(&self, line: Line) {
        self.script().lines.push_back(line);
    }

    /// Returns the requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.script().requests.clone()
    }

    /// Returns the number of lines that were not played yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.script().lines.len()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        // A panic in a test's callback does not damage the list.
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next line, and the number of calls including this one.
    fn next(&self, request: Request) -> Option<(usize, Line)> {
        let mut script = self.script();
        script.requests.push(request);
        let line = script.lines.pop_front().or_else(|| script.last.clone())?;
        Some((script.requests.len(), line))
    }

    async fn play(&self, request: Request, call: Call<'_>) -> Result<Reply, LlmError> {
        let started = Instant::now();
        let Some((number, line)) = self.next(request) else {
            return Err(LlmError::NoResponse("the script is at its end".to_owned()));
        };
        let wait = async {
            if let Some(gate) = &line.gate {
                gate.pass().await;
            }
            if !line.delay.is_zero() {
                tokio::time::sleep(line.delay).await;
            }
        };
        tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(LlmError::Cancelled),
            () = wait => {}
        }
        if let Some(on_delta) = call.on_delta {
            line.pieces().into_iter().for_each(on_delta);
        }
        let message = line.answer?;
        let id = line.id.unwrap_or_else(|| format!("reply-{number}"));
        let mut usage = line.usage;
        usage.model = self.name.to_string();
        usage.context_window = self.input_tokens_max.unwrap_or(0);
        usage.per_turn_token = usage.prompt_tokens + usage.completion_tokens;
        usage.response_id.clone_from(&id);
        Ok(Reply { id: id.into(), message, usage, cost: line.cost, latency: started.elapsed() })
    }
}

impl Model for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn usage_id(&self) -> &str {
        &self.usage_id
    }

    fn has_vision(&self) -> bool {
        self.vision
    }

    fn input_tokens_max(&self) -> Option<u64> {
        self.input_tokens_max
    }

    fn count_tokens(&self, messages: &[Message], tools: &[ToolSchema]) -> u64 {
        count_tokens(messages, tools)
    }

    fn complete<'a>(&'a self, request: Request, call: Call<'a>) -> Boxed<'a, Result<Reply, LlmError>> {
        Box::pin(self.play(request, call))
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn lines_are_played_in_order_and_requests_kept() {
        let model =
            Scripted::new([Line::text("one").tokens(3, 1).cost(0.5), Line::error(LlmError::Cancelled)]);
        let cancel = CancellationToken::new();
        let ask = || model.complete(Request::default(), Call::new(&cancel));
        let reply = ask().await.unwrap();
        assert_eq!((&*reply.id, reply.cost, reply.usage.per_turn_token), ("reply-1", Some(0.5), 4));
        assert_eq!(ask().await.unwrap_err(), LlmError::Cancelled);
        assert_eq!(ask().await.unwrap_err().code(), "LLMNoResponseError");
        let model = model.then_always(Line::text("more"));
        assert_eq!(&*model.complete(Request::default(), Call::new(&cancel)).await.unwrap().id, "reply-4");
        assert_eq!((model.requests().len(), model.left()), (4, 0));
    }

    #[tokio::test]
    async fn a_gate_holds_a_call_until_it_is_opened_or_the_call_ended() {
        let gate = Gate::new();
        let model = Scripted::new([Line::text("a").gate(&gate), Line::text("b").gate(&gate)]);
        let cancel = CancellationToken::new();
        let mut held = model.complete(Request::default(), Call::new(&cancel));
        tokio::select! {
            _ = &mut held => panic!("it did not wait"),
            () = gate.reached() => cancel.cancel(),
        }
        assert_eq!(held.await.unwrap_err(), LlmError::Cancelled);
        gate.open();
        let cancel = CancellationToken::new();
        assert!(model.complete(Request::default(), Call::new(&cancel)).await.is_ok());
    }
}
