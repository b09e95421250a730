//! `annals show`: prints one conversation on a page.

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, bytes, count, harmless, one_line, plural, row, span, table, time, width};
use super::{DONE, Place, alive};
use crate::audit::json as shape;
use crate::error::Result;
use crate::event::{Given, TaskStatus, upcast};
use crate::ids::{ConversationId, Sequence};
use crate::state::Spent;
use crate::store::{
    Archived, Attachment, BaseState, Conversation, ConversationFacts, EventQuery, FamilyUsage, Origin,
    Problem, Store, Task, ToolCount, UsageTotal,
};
use crate::tree::{Branch, Tree};
use crate::visualizer::{Form, Options, draw, task_line};

/// The maximum number of branches that are printed. JSON has all of them.
const BRANCHES_SHOWN: usize = 30;

/// How many of the last events are searched for one that is drawn as a block.
const LAST_SEARCHED: u64 = 20;

/// The content of the page.
struct Page {
    conversation: Conversation,
    archived: Archived,
    kinds: Vec<(String, u64)>,
    tools: Vec<ToolCount>,
    usage: Vec<UsageTotal>,
    with_sub_agents: Option<FamilyUsage>,
    tasks: Vec<Task>,
    tree: Tree,
    base_state: Option<BaseState>,
    children: Vec<ConversationId>,
    attachments: Vec<Attachment>,
    origin: Option<Origin>,
    problems: Vec<Problem>,
    /// The status in words.
    status: String,
    is_last_known: bool,
    facts: ConversationFacts,
}

impl Page {
    fn read(store: &Store, id: &ConversationId) -> Result<Self> {
        let conversation = store.conversation(id)?;
        Ok(Self {
            status: alive::status(store, &conversation),
            is_last_known: alive::is_last_known(store, &conversation),
            conversation,
            archived: store.retention().archived(id)?,
            kinds: store.count_kinds(id)?,
            tools: store.tool_counts(id)?,
            usage: store.usage(Some(id))?,
            with_sub_agents: store.usage_with_sub_agents(id)?,
            tasks: store.tasks(id)?,
            tree: store.tree(id)?,
            base_state: store.base_state(id)?,
            children: store.children(id)?,
            attachments: store.attachments(id)?,
            origin: store.origin(id)?,
            problems: store.problems(id)?,
            facts: store.facts(id)?,
        })
    }

    /// Returns the branches, and for each whether HEAD is on an event that only this branch has.
    fn branches(&self) -> Vec<(Branch, bool)> {
        let conversation = &self.conversation;
        let leaf = self.tree.resolve_leaf(conversation.leaf_event_id.as_deref(), conversation.head_is_empty);
        let head = leaf.as_deref().and_then(|leaf| self.tree.place(leaf));
        let is_live = |branch: &Branch| {
            let own = self.tree.tail(branch.tip, branch.own).unwrap_or_default();
            head.is_some_and(|head| own.contains(&head))
        };
        self.tree.branches().into_iter().map(|branch| (branch, is_live(&branch))).collect()
    }
}

/// Show one conversation: title, status, times, kinds, tools, cost, tasks, tree, problems
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The conversation, by id or the start of one
    pub id: String,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = store.resolve(&command.id)?;
    let page = Page::read(&store, &id)?;
    if output.json {
        output.value(&value(&page)?)?;
        return Ok(DONE);
    }
    head(&page, output)?;
    counts(&page, output)?;
    tasks(&page, output)?;
    last(&store, &page, output)?;
    branches(&page, output)?;
    files(&page, output)?;
    problems(&page, output)?;
    Ok(DONE)
}

fn value(page: &Page) -> Result<Value> {
    let mut value = shape::conversation(&page.conversation)?;
    shape::add_facts(&mut value, &page.facts);
    let tools = page.tools.iter().map(|tool| {
        json!({"tool": tool.tool, "calls": tool.calls, "errors": tool.errors, "failed": tool.failed,
               "rejected": tool.rejected, "pending": tool.pending})
    });
    let usage = page.usage.iter().map(shape::usage);
    let tasks = page
        .tasks
        .iter()
        .map(|task| json!({"title": task.title, "notes": task.notes, "status": task.status.as_str()}));
    let branches = page.branches();
    let tree = branches.iter().map(|(branch, is_live)| {
        json!({
            "tip": page.tree.id(branch.tip),
            "tip_sequence": branch.tip,
            "events": branch.length,
            "fork_sequence": branch.fork,
            "own_events": branch.own,
            "live": is_live,
        })
    });
    let attachments = page.attachments.iter().map(|file| {
        json!({"path": file.path, "bytes": file.bytes, "sha256": file.digest.to_hex(), "reason": file.reason})
    });
    let problems = page
        .problems
        .iter()
        .map(|problem| json!({"path": problem.path, "problem": problem.problem, "action": problem.action}));
    value["is_last_known"] = json!(page.is_last_known);
    value["kinds"] = page.kinds.iter().map(|(kind, count)| (kind.clone(), json!(count))).collect();
    value["tools"] = tools.collect();
    value["usage"] = usage.collect();
    value["with_sub_agents"] = shape::family_usage(page.with_sub_agents.as_ref());
    value["tasks"] = tasks.collect();
    value["branches"] = tree.collect();
    value["archived"] = json!({
        "events": page.archived.events,
        "payload_bytes": page.archived.payload_bytes,
        "stored_bytes": page.archived.stored_bytes,
    });
    value["base_state_version"] = json!(page.base_state.as_ref().map(|state| state.version.0));
    value["sub_agents"] = page.children.iter().map(ConversationId::as_str).collect();
    value["attachments"] = attachments.collect();
    value["imported_from"] = json!(page.origin.as_ref().map(|origin| &origin.source));
    value["problems"] = problems.collect();
    Ok(value)
}

fn head(page: &Page, output: &Output) -> Result<()> {
    let conversation = &page.conversation;
    let title = conversation.title.as_deref().unwrap_or("(no title)");
    output.line(output.bold(&one_line(title, 100)))?;
    let line = |name: &str, text: &str| output.line(format!("{}{text}", output.dim(&format!("{name:<12}"))));
    line("id", conversation.id.as_str())?;
    line("status", &output.styled(&page.status, colour(&page.status)))?;
    let lasted = conversation.updated_at.0 - conversation.created_at.0;
    line(
        "time",
        &format!("{} to {} ({})", time(conversation.created_at), time(conversation.updated_at), span(lasted)),
    )?;
    let ConversationFacts { workspace, source, model, started_by, .. } = &page.facts;
    for (name, fact) in
        [("workspace", workspace), ("written by", source), ("model", model), ("started by", started_by)]
    {
        if let Some(fact) = fact {
            line(name, &one_line(fact, 200))?;
        }
    }
    line("events", &format!("{} ({})", count(conversation.event_count), bytes(conversation.payload_bytes)))?;
    if let Some(at) = conversation.archived_at {
        let Archived { events, payload_bytes, stored_bytes } = page.archived;
        let sizes = format!("{} in {}", bytes(payload_bytes), bytes(stored_bytes));
        line("archived", &format!("{}, {} ({sizes})", time(at), plural(events, "event")))?;
    }
    if conversation.tags != "{}" {
        line("tags", &harmless(&conversation.tags))?;
    }
    let leaf = match (&conversation.leaf_event_id, conversation.head_is_empty) {
        (_, true) => "before everything".into(),
        (Some(leaf), false) => leaf.clone(),
        (None, false) => "the last event".into(),
    };
    line("head", &leaf)?;
    if let Some(parent) = &conversation.parent {
        line("parent", parent)?;
    }
    if let Some(source) = &conversation.forked_from {
        let at = conversation.forked_at.as_ref().map_or_else(String::new, |event| format!(" at {event}"));
        line("fork of", &format!("{source}{at}"))?;
    }
    for child in &page.children {
        line("sub-agent", child.as_str())?;
    }
    if let Some(state) = &page.base_state {
        line("base state", &format!("version {}", state.version.0))?;
    }
    if let Some(origin) = &page.origin {
        line("from", &harmless(&origin.source))?;
    }
    Ok(())
}

fn counts(page: &Page, output: &Output) -> Result<()> {
    let mut kinds = table(&["kind", "events"], &[1]);
    for (kind, number) in &page.kinds {
        kinds.add_row(row([
            if kind.is_empty() { "(none)".into() } else { one_line(kind, 60) },
            count(*number),
        ]));
    }
    if !page.kinds.is_empty() {
        output.line("")?;
        output.table(kinds)?;
    }
    if !page.tools.is_empty() {
        let mut tools =
            table(&["tool", "calls", "errors", "failed", "rejected", "pending"], &[1, 2, 3, 4, 5]);
        for tool in &page.tools {
            let number = |number: u64| if number == 0 { String::new() } else { count(number) };
            tools.add_row(row([
                one_line(&tool.tool, 60),
                count(tool.calls),
                number(tool.errors),
                number(tool.failed),
                number(tool.rejected),
                number(tool.pending),
            ]));
        }
        output.line("")?;
        output.table(tools)?;
    }
    if !page.usage.is_empty() {
        output.line("")?;
        output.table(super::stats::usage_table(&page.usage))?;
    }
    if let Some(family) = &page.with_sub_agents {
        let title = format!("With {}", plural(family.sub_agents, "sub-agent"));
        output.line(format!("\n{}", output.bold(&title)))?;
        output.table(super::stats::usage_table(&family.usage))?;
    }
    Ok(())
}

fn tasks(page: &Page, output: &Output) -> Result<()> {
    if page.tasks.is_empty() {
        return Ok(());
    }
    output.line(format!("\n{}", output.bold("Tasks")))?;
    for task in &page.tasks {
        let status = if let TaskStatus::Other(_) = task.status { &TaskStatus::Todo } else { &task.status };
        output.line(format!("  {}", output.paint(&task_line(&one_line(&task.title, 90), status))))?;
    }
    Ok(())
}

/// Draws the last event that has a drawing as a block.
fn last(store: &Store, page: &Page, output: &Output) -> Result<()> {
    let from = page.conversation.event_count.saturating_sub(LAST_SEARCHED);
    let query = EventQuery { from: Some(Sequence(from)), ..EventQuery::default() };
    let events = store.events(&page.conversation.id, &query, LAST_SEARCHED as usize)?.events;
    let options = Options { width: Some(usize::from(width()).min(100)), lines_max: 6, ..Options::default() };
    for stored in events.iter().rev() {
        let given = Given { id: Some(&stored.id), timestamp: None };
        // `annals verify` reports unreadable events.
        let Ok(raised) = upcast::read(&stored.payload, &given) else { continue };
        let drawing = draw(&raised.event, &Spent::default(), &options);
        if let Some(drawing) = drawing.filter(|drawing| drawing.form == Form::Block) {
            output.line("")?;
            for row in drawing.rows(options.width, &format!("last, #{}", stored.sequence)) {
                output.line(output.paint(&row))?;
            }
            return Ok(());
        }
    }
    Ok(())
}

fn branches(page: &Page, output: &Output) -> Result<()> {
    let orphans = page.tree.orphans();
    let branches = page.branches();
    if branches.len() > 1 {
        output.line(format!("\n{}", output.bold("Branches")))?;
        for (branch, is_live) in branches.iter().take(BRANCHES_SHOWN) {
            let fork = branch.fork.map_or_else(
                || "with a root of its own".into(),
                |fork| format!("{} of its own since {fork}", count(branch.own as u64)),
            );
            let text = format!(
                "  {} {:>5}  {}  {}, {fork}",
                if *is_live { "●" } else { "○" },
                branch.tip,
                page.tree.id(branch.tip).unwrap_or_default(),
                plural(branch.length as u64, "event"),
            );
            output.line(if *is_live { text } else { output.dim(&text) })?;
        }
        if let Some(more @ 1..) = branches.len().checked_sub(BRANCHES_SHOWN) {
            output.line(output.dim(&format!("  and {more} more (--json has all of them)")))?;
        }
    }
    if !orphans.is_empty() {
        let names: Vec<String> = orphans
            .iter()
            .take(5)
            .map(|(place, parent)| format!("{place} ({})", one_line(parent, 60)))
            .collect();
        output.line(format!("\nParents that are not in the log: {}", names.join(", ")))?;
    }
    Ok(())
}

fn files(page: &Page, output: &Output) -> Result<()> {
    if page.attachments.is_empty() {
        return Ok(());
    }
    let total: u64 = page.attachments.iter().map(|file| file.bytes).sum();
    output.line(format!("\n{} ({})", output.bold("Files beside the events"), bytes(total)))?;
    for file in page.attachments.iter().take(10) {
        let reason = file.reason.as_ref().map_or_else(String::new, |reason| format!("  {reason}"));
        output.line(one_line(&format!("{} {}{reason}", file.path, bytes(file.bytes)), 160))?;
    }
    if let Some(more @ 1..) = page.attachments.len().checked_sub(10) {
        output.line(output.dim(&format!("and {more} more (--json has all of them)")))?;
    }
    Ok(())
}

fn problems(page: &Page, output: &Output) -> Result<()> {
    if page.problems.is_empty() {
        return Ok(());
    }
    output.line(format!("\n{}", output.bold("Problems found when it was imported")))?;
    for problem in &page.problems {
        let path = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
        output.line(format!(
            "  {}",
            one_line(&format!("{path}{}; {}", problem.problem, problem.action), 400)
        ))?;
    }
    Ok(())
}

/// Returns the ANSI colour of a status.
fn colour(status: &str) -> &'static str {
    match status {
        "finished" => "32",
        "error" | "stuck" => "31",
        "running" => "36",
        "waiting_for_confirmation" | "paused" => "33",
        _ => "0",
    }
}
