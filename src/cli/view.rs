//! `annals view`: prints the events that the model could see at any point.

use clap::Args;
use serde_json::Value;

use super::print::{Output, one_line, plural, width};
use super::select::At;
use super::{DONE, Place};
use crate::error::Result;
use crate::event::transcript::Line;
use crate::json::Object;
use crate::replay::{Memory, Moment, json};

/// Show what the model could see: the live branch after condensation
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals view 5610a7                    as it would be after a restart
  annals view 5610a7 --at 20            as it was right after event 20
  annals --json view 5610a7 --ids       the ids alone")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub moment: At,
    /// Show the view of a process that never stopped, instead of a rebuilt view
    #[arg(long)]
    pub live: bool,
    /// Only the events' ids
    #[arg(long)]
    pub ids: bool,
}

impl Arguments {
    fn memory(&self) -> Memory {
        if self.live { Memory::Live } else { Memory::Reloaded }
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = store.resolve(&command.moment.id)?;
    let moment = Moment::new(&store, &id, command.moment.point(&store, &id)?)?;
    let branch = moment.branch()?;
    let view = moment.view_of(&branch, command.memory())?;
    if output.json {
        output.value(&if command.ids {
            view.ids().map(Value::from).collect()
        } else {
            json::view(&view, &branch)
        })?;
        return Ok(DONE);
    }
    for entry in view.entries() {
        if command.ids {
            output.line(entry.id())?;
            continue;
        }
        let sequence = branch.get(entry.place).map_or_else(String::new, ToString::to_string);
        let head = format!("{sequence:>5} {:<24} ", one_line(entry.event.kind(), 40));
        let payload = entry.event.dump();
        let text = Line::read(entry.event.kind(), &Object::of(&payload)).to_text();
        let room = usize::from(width()).saturating_sub(head.chars().count()).max(20);
        output.line(format!("{}{}", output.dim(&head), one_line(&text, room)))?;
    }
    let waits = if view.has_unhandled_request() { "; a condensation is requested" } else { "" };
    output.remark(format!(
        "\n{} of {} on the branch ({} in the log){waits}",
        plural(view.len() as u64, "event"),
        branch.len(),
        moment.length()
    ));
    Ok(DONE)
}
