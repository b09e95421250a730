//! `annals branches`: the tips of a conversation's tree.

use clap::Args;

use super::print::{Output, count, one_line, row, table};
use super::select::At;
use super::{DONE, Place};
use crate::error::Result;
use crate::event::transcript::Line;
use crate::ids::EventId;
use crate::json::Object;
use crate::replay::{Moment, json};

/// List the branches of a conversation: their tips, where they fork, which one is live
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub moment: At,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = store.resolve(&command.moment.id)?;
    let moment = Moment::new(&store, &id, command.moment.point(&store, &id)?)?;
    if output.json {
        output.value(&json::branches(&moment)?)?;
        return Ok(DONE);
    }
    let tree = moment.tree()?;
    let mut rows = table(&["", "tip", "sequence", "events", "fork", "own", "ends with"], &[2, 3, 4, 5]);
    for branch in tree.branches() {
        let tip = tree.id(branch.tip).unwrap_or_default();
        let is_live = json::is_live(&moment, tree, &branch);
        let event = store.event(&id, &EventId::new(tip)?)?;
        let text = Line::read(&event.kind, &Object::of(&event.payload)).to_text();
        rows.add_row(row([
            if is_live { "●".into() } else { String::new() },
            tip.to_owned(),
            branch.tip.to_string(),
            count(branch.length as u64),
            branch.fork.map_or_else(|| "-".into(), |fork| fork.to_string()),
            count(branch.own as u64),
            format!("{}: {}", one_line(&event.kind, 40), one_line(&text, 60)),
        ]));
    }
    output.table(rows)?;
    output.remark(match moment.active_leaf() {
        Some(leaf) => format!("\nHEAD is {leaf}"),
        None => "\nHEAD is before the first event".into(),
    });
    Ok(DONE)
}
