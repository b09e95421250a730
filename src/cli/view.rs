//! `annals view`: what the model could see, at any point.

use serde_json::Value;

use super::arguments::View as Arguments;
use super::print::{Output, one_line, plural, width};
use super::{DONE, Place};
use crate::error::Result;
use crate::event::json::Object;
use crate::event::transcript::Line;
use crate::replay::{Moment, json};

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
    let waits = if view.has_unhandled_request() { "; a condensation is asked for" } else { "" };
    output.remark(format!(
        "\n{} of {} on the branch ({} in the log){waits}",
        plural(view.len() as u64, "event"),
        branch.len(),
        moment.length()
    ));
    Ok(DONE)
}
