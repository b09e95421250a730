//! What a conversation had cost by each of its events.
//!
//! Two sources tell it: `stats` in state updates, cumulative and as of that update, and the lists of calls
//! that a base state has (`runtime.md` section 11), which know the reply each belongs to. A call that the
//! lists know had happened once an event names its reply, and so had those before it in its list. Nobody
//! says when the others happened; they count at the end.

use std::collections::HashMap;

use crate::event::Event;
use crate::event::json::Raw;

use super::layout::columns;
use super::style::{Colour, Line, Style};

/// Tokens and cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Tokens sent, mostly with those read from a cache.
    pub prompt_tokens: i64,
    /// Tokens received.
    pub completion_tokens: i64,
    /// Tokens the provider read from its cache.
    pub cache_read_tokens: i64,
    /// Tokens spent on reasoning.
    pub reasoning_tokens: i64,
    /// Cost, in the price table's currency.
    pub cost: f64,
}

impl Usage {
    fn tokens(usage: Raw<'_>) -> Self {
        let count = |member| usage.get(member).and_then(Raw::as_i64).unwrap_or(0);
        Self {
            prompt_tokens: count("prompt_tokens"),
            completion_tokens: count("completion_tokens"),
            cache_read_tokens: count("cache_read_tokens"),
            reasoning_tokens: count("reasoning_tokens"),
            cost: 0.0,
        }
    }

    /// What a usage id's metrics have summed up.
    fn accumulated(metrics: Raw<'_>) -> Self {
        let tokens = metrics.get("accumulated_token_usage").filter(|usage| usage.is_object());
        let cost = metrics.get("accumulated_cost").and_then(Raw::as_f64).unwrap_or(0.0);
        Self { cost, ..tokens.map(Self::tokens).unwrap_or_default() }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_add(other.completion_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            cost: self.cost + other.cost,
        }
    }

    /// The share of the input that came from a cache, 0 to 1; `None` where there was no input. Providers
    /// that count cached tokens apart have more of them than input.
    #[must_use]
    pub fn cache_hit_rate(&self) -> Option<f64> {
        let (prompt, read) = (self.prompt_tokens, self.cache_read_tokens);
        let input = if read > prompt { prompt.saturating_add(read) } else { prompt };
        (input > 0).then(|| read as f64 / input as f64)
    }
}

/// What was known of usage right after an event.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Metrics {
    /// Everything so far; `None` where nothing is known.
    pub total: Option<Usage>,
    /// The model call that the event came from; `None` where it is not known, or was told already by the
    /// first action of the same reply. Its cost is not known apart.
    pub request: Option<Usage>,
}

/// Tells the usage of events, one after another.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    uses: Vec<Use>,
    use_by_id: HashMap<String, usize>,
    /// By reply: the use, the call's place in its list, and its tokens.
    calls: HashMap<String, (usize, usize, Usage)>,
    last_action_reply: Option<String>,
    total: Option<Usage>,
}

/// What a model is used for.
#[derive(Debug, Clone, Default)]
struct Use {
    /// Sums of the calls in the list, each with those before it.
    sums: Vec<Usage>,
    /// Everything, as the base state has it.
    all: Option<Usage>,
    /// What it had come to so far.
    reached: Option<Usage>,
}

impl Ledger {
    /// A ledger that knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A ledger that knows the calls in the `stats` of a base state.
    #[must_use]
    pub fn of_stats(stats: Raw<'_>) -> Self {
        let mut ledger = Self::new();
        for (usage_id, metrics) in stats.get("usage_to_metrics").into_iter().flat_map(Raw::members) {
            let list = |member| metrics.get(member).into_iter().flat_map(Raw::elements).collect::<Vec<_>>();
            let (calls, costs) = (list("token_usages"), list("costs"));
            // Costs do not name a reply; where there is one a call, their order tells whose they are.
            let cost_of = |place: usize| {
                let cost = costs.get(place).filter(|_| costs.len() == calls.len());
                cost.and_then(|cost| cost.get("cost")).and_then(Raw::as_f64).unwrap_or(0.0)
            };
            let at = ledger.use_of(&usage_id);
            let mut sum = Usage::default();
            for (place, call) in calls.iter().enumerate() {
                let tokens = Usage::tokens(*call);
                sum = sum.plus(Usage { cost: cost_of(place), ..tokens });
                ledger.uses[at].sums.push(sum);
                if let Some(reply) = call.get("response_id").and_then(Raw::as_str) {
                    ledger.calls.insert(reply.into_owned(), (at, place, tokens));
                }
            }
            ledger.uses[at].all = Some(Usage::accumulated(metrics));
        }
        ledger
    }

    /// Goes on to the next event of the log, and tells what was known right after it.
    pub fn apply(&mut self, event: &Event) -> Metrics {
        let reply = match event {
            Event::Action(action) => Some(&*action.llm_response_id),
            Event::Message(message) => message.llm_response_id.as_deref(),
            Event::Condensation(condensation) => Some(&*condensation.llm_response_id),
            Event::StateUpdate(update) => {
                let value = update.value.raw();
                match &*update.key {
                    "stats" => self.told(Some(value)),
                    "full_state" => self.told(value.get("stats")),
                    _ => {}
                }
                None
            }
            Event::Observation(_)
            | Event::UserReject(_)
            | Event::AgentError(_)
            | Event::SystemPrompt(_)
            | Event::CondensationRequest(_)
            | Event::CondensationSummary(_)
            | Event::ConversationError(_)
            | Event::Pause(_)
            | Event::Interrupt(_)
            | Event::SecurityAnalysis(_)
            | Event::Hook(_)
            | Event::Token(_)
            | Event::CompletionLog(_)
            | Event::StreamingDelta(_)
            | Event::AcpToolCall(_)
            | Event::ServerError(_)
            | Event::Unknown(_) => None,
        };
        let call = reply.and_then(|reply| self.calls.get(reply).copied());
        if let Some((at, place, _)) = call {
            self.reach(at, place);
        }
        // Actions of one reply stand together, so the last one tells whether this is its first.
        let mut is_told = false;
        if let Event::Action(_) = event {
            is_told = self.last_action_reply.as_deref() == reply;
            self.last_action_reply = reply.map(str::to_owned);
        }
        Metrics { total: self.total, request: call.filter(|_| !is_told).map(|(_, _, tokens)| tokens) }
    }

    /// What everything came to: what the base state has, or else what events told.
    #[must_use]
    pub fn all(&self) -> Option<Usage> {
        sum(self.uses.iter().map(|usage| usage.all.or(usage.reached)))
    }

    fn use_of(&mut self, usage_id: &str) -> usize {
        if let Some(at) = self.use_by_id.get(usage_id) {
            return *at;
        }
        self.use_by_id.insert(usage_id.to_owned(), self.uses.len());
        self.uses.push(Use::default());
        self.uses.len() - 1
    }

    fn told(&mut self, stats: Option<Raw<'_>>) {
        let usages = stats.and_then(|stats| stats.get("usage_to_metrics"));
        for (usage_id, metrics) in usages.into_iter().flat_map(Raw::members) {
            let at = self.use_of(&usage_id);
            self.uses[at].reached = Some(Usage::accumulated(metrics));
        }
        self.total = sum(self.uses.iter().map(|usage| usage.reached));
    }

    /// The call at `place` in the list of a use had happened, and those before it.
    fn reach(&mut self, at: usize, place: usize) {
        let known = &mut self.uses[at];
        let now = known.sums[place];
        let tokens = |usage: Usage| usage.prompt_tokens.saturating_add(usage.completion_tokens);
        if known.reached.is_none_or(|reached| tokens(reached) < tokens(now)) {
            known.reached = Some(now);
            self.total = sum(self.uses.iter().map(|usage| usage.reached));
        }
    }
}

fn sum(usages: impl Iterator<Item = Option<Usage>>) -> Option<Usage> {
    usages.flatten().reduce(Usage::plus)
}

/// `1234` as `1.23K`: two decimals at most, in thousands, millions and thousands of millions, as the
/// reference abbreviates.
#[must_use]
pub fn abbreviated(number: i64) -> String {
    let (value, unit) = match number {
        1_000_000_000.. => (number as f64 / 1e9, "B"),
        1_000_000.. => (number as f64 / 1e6, "M"),
        1_000.. => (number as f64 / 1e3, "K"),
        _ => return number.to_string(),
    };
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The lines below a drawing, broken between the figures; none where no usage is known.
pub(super) fn lines(metrics: &Metrics, width: Option<usize>) -> Vec<Line> {
    let Some(total) = metrics.total else { return Vec::new() };
    let rate = |usage: &Usage| {
        usage.cache_hit_rate().map_or_else(|| "N/A".to_owned(), |rate| format!("{:.2}%", rate * 100.0))
    };
    let count = |name: &str, of: fn(&Usage) -> i64| match &metrics.request {
        Some(request) => format!("{name} {} (total {})", abbreviated(of(request)), abbreviated(of(&total))),
        None => format!("{name} (total {})", abbreviated(of(&total))),
    };
    let cache = match &metrics.request {
        Some(request) => format!("cache hit {} (total {})", rate(request), rate(&total)),
        None => format!("cache hit (total {})", rate(&total)),
    };
    let cost = if total.cost > 0.0 { format!("{:.4}", total.cost) } else { "0.00".into() };
    let reasons = |usage: &Usage| usage.reasoning_tokens > 0;
    let mut parts =
        vec![(count("↑ input", |usage| usage.prompt_tokens), Colour::Cyan), (cache, Colour::Magenta)];
    if reasons(&total) || metrics.request.as_ref().is_some_and(reasons) {
        parts.push((count("reasoning", |usage| usage.reasoning_tokens), Colour::Yellow));
    }
    parts.push((count("↓ output", |usage| usage.completion_tokens), Colour::Blue));
    parts.push((format!("$ (total {cost})"), Colour::Green));
    let mut lines = Vec::new();
    let mut line = Line::new("Tokens: ", Style::DIM);
    for (place, (text, colour)) in parts.into_iter().enumerate() {
        let mark = if place == 0 { "" } else { " • " };
        if place > 0 && width.is_some_and(|width| line.width() + columns(mark) + columns(&text) > width) {
            lines.push(std::mem::replace(&mut line, Line::new("  • ", Style::DIM)));
        } else {
            line = line.with(mark, Style::DIM);
        }
        line = line.with(text, Style::DIM.in_colour(colour));
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Given;

    fn event(payload: &str) -> Event {
        Event::read(payload, &Given::default()).unwrap()
    }

    fn said(reply: &str) -> Event {
        event(&format!(
            r#"{{"id":"m","kind":"MessageEvent","source":"agent","llm_response_id":"{reply}",
                "llm_message":{{"role":"assistant","content":[]}}}}"#
        ))
    }

    fn action(id: &str, reply: &str) -> Event {
        event(&format!(
            r#"{{"id":"{id}","kind":"ActionEvent","thought":[],"tool_name":"t","tool_call_id":"{id}",
                "tool_call":{{"id":"{id}","name":"t","arguments":"","origin":"completion"}},
                "llm_response_id":"{reply}"}}"#
        ))
    }

    fn usage(prompt: i64, completion: i64, cost: f64) -> Usage {
        Usage { prompt_tokens: prompt, completion_tokens: completion, cost, ..Usage::default() }
    }

    fn shown(total: Usage, request: Option<Usage>) -> String {
        let metrics = Metrics { total: Some(total), request };
        lines(&metrics, None).iter().map(Line::plain).collect()
    }

    /// The figures that SDK 1.58 prints, but for a second space before its `reasoning`.
    #[test]
    fn the_line_is_that_of_the_reference() {
        let tokens = |prompt, completion, read, reasoning| Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            cache_read_tokens: read,
            reasoning_tokens: reasoning,
            cost: 0.0,
        };
        let costing = |cost, usage| Usage { cost, ..usage };
        for (total, request, line) in [
            (
                tokens(0, 0, 0, 0),
                None,
                "↑ input (total 0) • cache hit (total N/A) • ↓ output (total 0) • $ (total 0.00)",
            ),
            (
                costing(0.00004, tokens(1234, 12345, 617, 0)),
                None,
                "↑ input (total 1.23K) • cache hit (total 50.00%) • ↓ output (total 12.35K) • $ (total 0.0000)",
            ),
            (
                costing(1.23456, tokens(999_999, 1_000_000, 1_000_000, 7)),
                None,
                "↑ input (total 1000K) • cache hit (total 50.00%) • reasoning (total 7) • ↓ output (total 1M) \
                 • $ (total 1.2346)",
            ),
            (
                costing(12.0, tokens(1_005_000, 2_000_000_000, 5, 0)),
                None,
                "↑ input (total 1M) • cache hit (total 0.00%) • ↓ output (total 2B) • $ (total 12.0000)",
            ),
            (
                costing(0.011755, tokens(4270, 400, 1000, 9)),
                Some(tokens(1200, 80, 0, 0)),
                "↑ input 1.2K (total 4.27K) • cache hit 0.00% (total 23.42%) • reasoning 0 (total 9) \
                 • ↓ output 80 (total 400) • $ (total 0.0118)",
            ),
            (
                costing(0.5, tokens(100, 1, 300, 0)),
                Some(tokens(50, 1, 100, 3)),
                "↑ input 50 (total 100) • cache hit 66.67% (total 75.00%) • reasoning 3 (total 0) \
                 • ↓ output 1 (total 1) • $ (total 0.5000)",
            ),
        ] {
            assert_eq!(shown(total, request), format!("Tokens: {line}"));
        }
        assert_eq!((abbreviated(1115), abbreviated(1125)), ("1.11K".into(), "1.12K".into()));
    }

    #[test]
    fn figures_are_not_torn_apart() {
        let metrics = Metrics { total: Some(usage(1, 2, 0.0)), request: None };
        let rows: Vec<String> = lines(&metrics, Some(52)).iter().map(Line::plain).collect();
        assert_eq!(
            rows,
            [
                "Tokens: ↑ input (total 1) • cache hit (total 0.00%)",
                "  • ↓ output (total 2) • $ (total 0.00)"
            ]
        );
    }

    #[test]
    fn a_call_counts_from_the_first_event_of_its_reply_on() {
        let stats = r#"{"usage_to_metrics":{
            "agent":{"accumulated_cost":0.7,"accumulated_token_usage":{"prompt_tokens":70,"completion_tokens":7},
                "token_usages":[{"response_id":"r1","prompt_tokens":10,"completion_tokens":1},
                    {"response_id":"silent","prompt_tokens":20,"completion_tokens":2},
                    {"response_id":"r3","prompt_tokens":40,"completion_tokens":4}],
                "costs":[{"cost":0.1},{"cost":0.2},{"cost":0.4}]},
            "condenser":{"accumulated_cost":1.0,"accumulated_token_usage":{"prompt_tokens":5,"completion_tokens":5},
                "token_usages":[],"costs":[]}}}"#;
        let mut ledger = Ledger::of_stats(Raw::parse(stats).unwrap());
        assert_eq!(ledger.apply(&said("unheard of")), Metrics::default());
        let first = ledger.apply(&action("a", "r1"));
        assert_eq!(first, Metrics { total: Some(usage(10, 1, 0.1)), request: Some(usage(10, 1, 0.0)) });
        assert_eq!(ledger.apply(&action("b", "r1")), Metrics { request: None, ..first });
        let third = ledger.apply(&said("r3"));
        assert_eq!(third.request, Some(usage(40, 4, 0.0)));
        let total = third.total.unwrap();
        assert_eq!((total.prompt_tokens, total.completion_tokens), (70, 7));
        assert!((total.cost - 0.7).abs() < 1e-9);
        assert_eq!(ledger.all().unwrap().prompt_tokens, 75);
    }

    #[test]
    fn state_updates_tell_what_there_was_by_then() {
        let told = |key: &str, prompt: i64| {
            let stats = format!(
                r#"{{"usage_to_metrics":{{"agent":{{"accumulated_cost":0.5,
                    "accumulated_token_usage":{{"prompt_tokens":{prompt},"completion_tokens":1}}}}}}}}"#
            );
            let value = if key == "stats" { stats } else { format!(r#"{{"stats":{stats}}}"#) };
            event(&format!(
                r#"{{"id":"u","kind":"ConversationStateUpdateEvent","key":"{key}","value":{value}}}"#
            ))
        };
        let mut ledger = Ledger::new();
        assert_eq!(ledger.apply(&told("stats", 10)).total, Some(usage(10, 1, 0.5)));
        assert_eq!(ledger.apply(&said("r1")), Metrics { total: Some(usage(10, 1, 0.5)), request: None });
        assert_eq!(ledger.apply(&told("full_state", 30)).total, Some(usage(30, 1, 0.5)));
        assert_eq!(ledger.all(), Some(usage(30, 1, 0.5)));
    }
}
