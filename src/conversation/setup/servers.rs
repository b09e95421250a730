//! The servers of the Model Context Protocol that an agent's `mcp_config` names.
//!
//! They are started with the conversation's first message or run, each within 30 seconds. A server that does not start
//! is reported by an event, and the others are used, as in the reference. In the same way, files and plugins that cannot
//! be used are reported. `${NAME}` is replaced by its value only here, so the value is never stored. Source:
//! `docs/reference/extensions.md#mcp-servers`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use crate::conversation::error::Result;
use crate::conversation::local::{Equipment, Local};
use crate::conversation::memory::{LEFT_OUT, Live, common};
use crate::event::{ConversationErrorEvent, ConversationStateUpdateEvent, Json, Source};
use crate::message;
use crate::plugin::Server;
use crate::tool::mcp::{Lookup, ServerConfig, ServerProblem, Servers};
use crate::tool::{Tool, Toolbox};

/// The maximum number of problems in one report, and of characters of each.
const LEFT_OUT_MAX: usize = 20;
const CHARACTERS_MAX: usize = 500;

/// The settings of servers, and the problems of invalid settings.
type Read = (Vec<ServerConfig>, Vec<ServerProblem>);

impl Local {
    /// Starts these servers. Only the secrets that their settings name are resolved.
    pub(super) async fn start_servers(&self, servers: Vec<Server>) -> Result<(Servers, Vec<ServerProblem>)> {
        let (configs, mut problems) = self.read_servers(servers).await;
        let (servers, failed) = Servers::start(configs, &self.working_dir).await;
        problems.extend(failed);
        Ok((servers, problems))
    }

    /// Starts further servers. A server replaces an existing one of the same name.
    pub(super) async fn more_servers(
        &self,
        equipment: &mut Equipment,
        servers: Vec<Server>,
    ) -> Result<Vec<ServerProblem>> {
        let (configs, mut problems) = self.read_servers(servers).await;
        let (started, failed) = match &equipment.servers {
            Some(known) => known.with(configs, &self.working_dir).await,
            None => Servers::start(configs, &self.working_dir).await,
        };
        problems.extend(failed);
        *equipment = equipment.clone().with_servers(started);
        Ok(problems)
    }

    async fn read_servers(&self, servers: Vec<Server>) -> Read {
        // Reading reports the secrets that it needs. It is repeated until all of them are known.
        let mut values: HashMap<String, Option<String>> = HashMap::new();
        loop {
            let (read, missing) = read_with(&servers, &values);
            if missing.is_empty() {
                return read;
            }
            for name in missing {
                let value = self.lent_value(&name).await;
                values.insert(name, value);
            }
        }
    }

    /// Returns a secret's value: from this conversation, or else from its parent.
    async fn lent_value(&self, name: &str) -> Option<String> {
        let mut value = self.secrets.value(name).await;
        if let (None, Some(lender)) = (&value, &self.parts.lender) {
            value = lender.value(name).await;
        }
        value.map(|secret| secret.expose().to_owned())
    }

    /// Adds an event for every server that failed. The detail is masked, because a server's message may contain a
    /// secret.
    pub(super) fn push_problems(&self, live: &mut Live, problems: Vec<ServerProblem>) {
        for problem in problems {
            let detail = self.secrets.mask_known().apply(&problem.to_string()).into_owned();
            live.push_aside(ConversationErrorEvent::new(
                common(Source::Environment),
                problem.kind.code(),
                detail,
            ));
        }
    }

    /// Records the files and plugins that could not be used, unless the log says the same already. The conversation of a
    /// task records none, because it finds the same ones as its parent.
    ///
    /// The record is a state update, because an error event means that the run failed. It is masked, because a source may
    /// contain a secret.
    pub(super) async fn push_left_out(&self, live: &mut Live, left_out: &[String]) {
        if self.parts.depth > 0 || (left_out.is_empty() && live.left_out.is_none()) {
            return;
        }
        self.secrets.resolve().await;
        let mask = self.secrets.mask_known();
        let report = report(left_out, |text| mask.apply(text).into_owned());
        if live.left_out.as_ref().is_some_and(|before| gist(before) == gist(&report)) {
            return;
        }
        let update = ConversationStateUpdateEvent::new(common(Source::Environment), LEFT_OUT, report.clone());
        live.push_aside(update);
        live.left_out = Some(report);
    }

    /// Records the problems of one more plugin beside those that are recorded.
    pub(super) async fn push_more_left_out(&self, live: &mut Live, left_out: &[String]) {
        let mut all = live.left_out.as_ref().map(problems_of).unwrap_or_default();
        all.extend(left_out.iter().cloned());
        self.push_left_out(live, &all).await;
    }

    /// Updates the equipment with the current tools of the servers. `None` if they have not changed.
    pub(super) fn kept_up(&self, equipment: &Equipment) -> Option<Arc<Equipment>> {
        let servers = equipment.servers.as_ref()?;
        let count = *servers.changes().borrow();
        if count == equipment.servers_count {
            return None;
        }
        let mut equipment = Equipment { servers_count: count, ..equipment.clone() };
        equipment.toolbox.replace_servers_tools(offered(servers, &equipment.filter));
        equipment.show();
        Some(self.equip(equipment))
    }
}

impl Equipment {
    /// Adds the servers and their tools. A tool is left out if its name is in use.
    pub fn with_servers(mut self, servers: Servers) -> Self {
        self.servers_count = *servers.changes().borrow();
        self.toolbox.replace_servers_tools(offered(&servers, &self.filter));
        self.servers = Some(Arc::new(servers));
        self.show();
        self
    }
}

/// Returns the servers' tools that pass the filter of the agent's settings.
fn offered(servers: &Servers, filter: &Option<regex::Regex>) -> Vec<Arc<dyn Tool>> {
    let passes = |tool: &Arc<dyn Tool>| filter.as_ref().is_none_or(|filter| filter.is_match(tool.name()));
    servers.tools().into_iter().filter(passes).collect()
}

/// Removes the tools that do not pass the filter of the agent's settings.
pub(super) fn filtered(toolbox: &mut Toolbox, filter: &Option<regex::Regex>) {
    if let Some(filter) = filter {
        toolbox.remove(|tool| !filter.is_match(tool.name()));
    }
}

/// Returns the JSON of a report: `problems` is a list of texts, and `more` is the number of those without a place in it. A
/// text is masked before it is cut, because a part of a secret would not be recognised.
fn report(left_out: &[String], mask: impl Fn(&str) -> String) -> Json {
    let text = |problem: &String| {
        let line = mask(problem).replace(char::is_control, " ");
        message::clip(&line, CHARACTERS_MAX, " ... ").to_string()
    };
    let problems: Vec<String> = left_out.iter().take(LEFT_OUT_MAX).map(text).collect();
    Json::from(&json!({"problems": problems, "more": left_out.len().saturating_sub(LEFT_OUT_MAX)}))
}

/// Returns the problems that a report lists.
fn problems_of(report: &Json) -> Vec<String> {
    let value = report.to_value();
    let problems = value["problems"].as_array().into_iter().flatten();
    problems.filter_map(|problem| Some(problem.as_str()?.to_owned())).collect()
}

/// Returns what two reports have in common if they say the same: neither the order nor digits, because an error of the
/// network may contain a time.
fn gist(report: &Json) -> Vec<String> {
    let without_digits = |text: String| text.replace(|letter: char| letter.is_ascii_digit(), "");
    let mut gist: Vec<String> = problems_of(report).into_iter().map(without_digits).collect();
    gist.sort();
    gist.dedup();
    gist
}

/// Reads the settings of `servers`. Also returns the names of needed secrets that `values` does not contain.
fn read_with(servers: &[Server], values: &HashMap<String, Option<String>>) -> (Read, Vec<String>) {
    let missing = RefCell::new(Vec::new());
    let value = |name: &str| match values.get(name) {
        Some(value) => value.clone(),
        None => {
            missing.borrow_mut().push(name.to_owned());
            None
        }
    };
    let (mut configs, mut problems) = (Vec::new(), Vec::new());
    for server in servers {
        let value: Option<Lookup<'_>> = if server.is_literal { None } else { Some(&value) };
        match ServerConfig::read_one(&server.name, server.config.raw(), value) {
            Some(Ok(config)) => configs.push(config),
            Some(Err(problem)) => problems.push(problem),
            None => {}
        }
    }
    ((configs, problems), missing.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_bounded_and_masked_before_it_is_cut() {
        let mask = |text: &str| text.replace("secret", "****");
        let problems = |left_out: &[String]| problems_of(&report(left_out, mask));
        assert_eq!(problems(&["/a.md:\nsecret".to_owned()]), ["/a.md: ****"]);
        let many = vec!["secret".repeat(1000); LEFT_OUT_MAX + 3];
        let found = problems(&many);
        assert_eq!((found.len(), report(&many, mask).to_value()["more"].as_u64()), (LEFT_OUT_MAX, Some(3)));
        for problem in found {
            assert_eq!(problem.chars().count(), CHARACTERS_MAX);
            assert!(problem.replace(" ... ", "").chars().all(|letter| letter == '*'), "{problem}");
        }
    }

    #[test]
    fn reports_that_differ_in_order_and_numbers_say_the_same() {
        let gist_of = |problems: [&str; 2]| gist(&report(&problems.map(str::to_owned), str::to_owned));
        assert_eq!(gist_of(["a: after 12 ms", "b"]), gist_of(["b", "a: after 9 ms"]));
        assert_ne!(gist_of(["a", "b"]), gist_of(["a", "c"]));
    }
}
