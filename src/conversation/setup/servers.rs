//! The servers of the Model Context Protocol that an agent's `mcp_config` names.
//!
//! They are started with the conversation's first message or run, each within 30 seconds. If a server does not start,
//! the others are used, as in the reference. One state update reports the servers that did not start, and the files and
//! plugins that cannot be used. `${NAME}` is replaced by its value only here, so the value is never stored. Source:
//! `docs/reference/extensions.md#mcp-servers`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use crate::conversation::error::Result;
use crate::conversation::local::{Equipment, Local};
use crate::conversation::memory::{LEFT_OUT, Live, common};
use crate::event::{ConversationStateUpdateEvent, Json, Source};
use crate::message;
use crate::plugin::Server;
use crate::secret::without_credentials;
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

    /// Records the servers that did not start and the files and plugins that could not be used, unless the log says
    /// the same already. The conversation of a task records only its servers, because it finds the same files as its
    /// parent.
    ///
    /// The record is a state update, because an error event means that the run failed. It is masked, because a source
    /// or a server's message may contain a secret.
    pub(super) async fn push_left_out(&self, live: &mut Live, files: &[String], servers: &[ServerProblem]) {
        let files: &[String] = if self.parts.depth > 0 { &[] } else { files };
        let left_out = LeftOut { problems: texts(servers, files), more: 0 };
        self.push_report(live, left_out).await;
    }

    /// Records the problems of one more plugin before those that are recorded.
    pub(super) async fn push_more_left_out(
        &self,
        live: &mut Live,
        files: &[String],
        servers: &[ServerProblem],
    ) {
        let before = live.left_out.as_ref().map(LeftOut::of).unwrap_or_default();
        let mut problems = texts(servers, files);
        problems.extend(before.problems);
        self.push_report(live, LeftOut { problems, more: before.more }).await;
    }

    async fn push_report(&self, live: &mut Live, left_out: LeftOut) {
        if left_out.problems.is_empty() && live.left_out.is_none() {
            return;
        }
        self.secrets.resolve().await;
        // A server of a task may have got a secret of the topmost conversation.
        let mask = match &self.parts.lender {
            Some(lender) => self.secrets.mask_known_with(lender),
            None => self.secrets.mask_known(),
        };
        let report = left_out.report(|text| mask.apply(text).into_owned());
        if live.left_out.as_ref().is_some_and(|before| gist(before) == gist(&report)) {
            return;
        }
        let update = ConversationStateUpdateEvent::new(common(Source::Environment), LEFT_OUT, report.clone());
        live.push_aside(update);
        live.left_out = Some(report);
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

/// What a report is about.
#[derive(Debug, Default, PartialEq, Eq)]
struct LeftOut {
    /// The problems, in the order in which they are reported.
    problems: Vec<String>,
    /// The number of further ones that an earlier report had no place for.
    more: usize,
}

impl LeftOut {
    /// Reads a report. Empty if it is none.
    fn of(report: &Json) -> Self {
        let value = report.to_value();
        let problems = value["problems"].as_array().into_iter().flatten();
        let problems = problems.filter_map(|problem| Some(problem.as_str()?.to_owned())).collect();
        let more = value["more"].as_u64().and_then(|more| usize::try_from(more).ok());
        Self { problems, more: more.unwrap_or_default() }
    }

    /// Returns the JSON of a report: `problems` is a list of texts, and `more` is the number of those without a place
    /// in it. A text is masked before it is cut, because a part of a secret would not be recognised.
    fn report(&self, mask: impl Fn(&str) -> String) -> Json {
        let text = |problem: &String| {
            let line = without_credentials(&mask(problem)).replace(char::is_control, " ");
            message::clip(&line, CHARACTERS_MAX, " ... ").to_string()
        };
        let problems: Vec<String> = self.problems.iter().take(LEFT_OUT_MAX).map(text).collect();
        let more = self.more + self.problems.len().saturating_sub(LEFT_OUT_MAX);
        Json::from(&json!({"problems": problems, "more": more}))
    }
}

/// Returns problems as texts that are not masked yet. Those of servers come first, because there are few of them and they matter more.
fn texts(servers: &[ServerProblem], files: &[String]) -> Vec<String> {
    servers.iter().map(ServerProblem::unmasked).chain(files.iter().cloned()).collect()
}

/// Returns what two reports have in common if they say the same: neither the order nor digits, because an error of the
/// network may contain a time.
fn gist(report: &Json) -> Vec<String> {
    let without_digits = |text: String| text.replace(|letter: char| letter.is_ascii_digit(), "");
    let mut gist: Vec<String> = LeftOut::of(report).problems.into_iter().map(without_digits).collect();
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

    fn report(problems: &[String], mask: impl Fn(&str) -> String) -> Json {
        LeftOut { problems: problems.to_vec(), more: 0 }.report(mask)
    }

    #[test]
    fn a_report_is_bounded_and_masked_before_it_is_cut() {
        let mask = |text: &str| text.replace("secret", "****");
        let problems = |left_out: &[String]| LeftOut::of(&report(left_out, mask)).problems;
        assert_eq!(problems(&["/a.md:\nsecret".to_owned()]), ["/a.md: ****"]);
        let many = vec!["secret".repeat(1000); LEFT_OUT_MAX + 3];
        let found = LeftOut::of(&report(&many, mask));
        assert_eq!((found.problems.len(), found.more), (LEFT_OUT_MAX, 3));
        for problem in &found.problems {
            assert_eq!(problem.chars().count(), CHARACTERS_MAX);
            assert!(problem.replace(" ... ", "").chars().all(|letter| letter == '*'), "{problem}");
        }
        // Those that had no place are still counted when one more is reported.
        let more = LeftOut { problems: [vec!["new".to_owned()], found.problems].concat(), more: found.more };
        let more = LeftOut::of(&more.report(str::to_owned));
        assert_eq!((more.problems.len(), more.more, &*more.problems[0]), (LEFT_OUT_MAX, 4, "new"));
    }

    #[test]
    fn credentials_are_in_no_report() {
        for problem in [
            "https://user:hunter2@h/r: refused",
            "error sending request for url (http://h/mcp?api_key=hunter2)",
            "https://h/r?private_token=hunter2: not found",
            "user:hunter2@h: not found",
        ] {
            let text = report(&[problem.to_owned()], str::to_owned).text().to_owned();
            assert!(text.contains("****") && !text.contains("hunter2"), "{text}");
        }
        let mask = |text: &str| text.replace("p@ss/word", "<secret-hidden>");
        let text = report(&["https://x:p@ss/word@h/r: refused".to_owned()], mask).text().to_owned();
        assert!(!text.contains("ss/word"), "{text}");
    }

    #[test]
    fn reports_that_differ_in_order_and_numbers_say_the_same() {
        let gist_of = |problems: [&str; 2]| gist(&report(&problems.map(str::to_owned), str::to_owned));
        assert_eq!(gist_of(["a: after 12 ms", "b"]), gist_of(["b", "a: after 9 ms"]));
        assert_ne!(gist_of(["a", "b"]), gist_of(["a", "c"]));
    }
}
