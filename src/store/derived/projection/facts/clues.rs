//! What one event says of where its conversation works, and which model answers.

use std::borrow::Cow;

use super::super::usage::{V0_KINDS, metrics_of_v0, reply_model_of_v0};
use super::{Found, LogEvent, shown};
use crate::event::foreign::{ForeignFormat, ForeignUsage};
use crate::event::kind;
use crate::json::{Object, Raw};
use crate::state::upcast;

/// The model that Claude Code writes for a message that no model wrote.
const SYNTHETIC: &str = "<synthetic>";

/// Codex's lines with the folder and the model of what follows.
const CODEX_CONTEXTS: [&str; 2] = ["codex:session_meta", "codex:turn_context"];

/// Adds what an event says.
pub(super) fn read(event: &LogEvent<'_>, found: &mut Found) {
    if let Some(provenance) = event.members.get("provenance").filter(|value| value.is_object()) {
        of_record(event, provenance.to_object(), found);
        if let Some((_, usage)) = ForeignUsage::of(provenance) {
            found.answer(&usage.model, event.position);
        }
    } else if kind::canonical(event.kind) == kind::STATE_UPDATE {
        of_state_update(event, found);
    } else if event.kind.starts_with(V0_KINDS) {
        let of_metrics =
            metrics_of_v0(event.members).map(|(_, model)| model).filter(|model| !model.is_empty());
        let model = of_metrics.map(Cow::Owned).or_else(|| reply_model_of_v0(event.members));
        if let Some(model) = model {
            found.answer(&model, event.position);
        }
    }
}

/// Reads the line of another program's log. Lines of Claude Code name the folder and the model at every turn, Codex names
/// them in lines of their own.
fn of_record(event: &LogEvent<'_>, provenance: Object<'_>, found: &mut Found) {
    let is_wanted = found.workspace.is_none() || found.model.is_none();
    let Some(record) = provenance.get("record").filter(|record| is_wanted && record.is_object()) else {
        return;
    };
    let format = provenance.text("format").and_then(|format| format.parse().ok());
    let (folder, model) = match format {
        Some(ForeignFormat::ClaudeCode) => {
            let model = record.get("message").and_then(|message| message.get("model"));
            (record.get("cwd"), model.filter(|model| model.as_text().is_some_and(|name| name != SYNTHETIC)))
        }
        Some(ForeignFormat::Codex) if CODEX_CONTEXTS.contains(&event.kind) => {
            let context = record.get("payload").unwrap_or(record);
            (context.get("cwd"), context.get("model"))
        }
        Some(_) | None => return,
    };
    found.first(event.position, folder, model);
}

/// Reads a copy of the base state, or of a field of it.
fn of_state_update(event: &LogEvent<'_>, found: &mut Found) {
    let (Some(key), Some(value)) = (event.members.text("key"), event.members.get("value")) else { return };
    let (folder, model) = match &*key {
        "full_state" => (value.get("workspace"), value.get("agent")),
        "workspace" => (Some(value), None),
        "agent" => (None, Some(value)),
        _ => return,
    };
    let folder = folder.and_then(|workspace| workspace.get("working_dir"));
    if let Some(model) = model.and_then(upcast::model_of_agent) {
        found.note_model(&model, event.position);
    }
    found.first(event.position, folder, None);
}

impl Found {
    fn first(&mut self, position: i64, folder: Option<Raw<'_>>, model: Option<Raw<'_>>) {
        if self.workspace.is_none() {
            let folder = folder.and_then(Raw::as_text).and_then(|folder| shown(&folder));
            self.workspace = folder.map(|folder| (folder, position));
        }
        if let Some(model) = model.and_then(Raw::as_text) {
            self.note_model(&model, position);
        }
    }

    fn note_model(&mut self, model: &str, position: i64) {
        if self.model.is_none() {
            self.model = shown(model).map(|model| (model, position));
        }
    }

    fn answer(&mut self, model: &str, position: i64) {
        if let Some(model) = shown(model) {
            let (times, last) = self.answers.entry(model).or_default();
            *times += 1;
            *last = position;
        }
    }
}
