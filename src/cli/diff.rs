//! `annals diff`: what is different between two points, branches or conversations.

use clap::Args;

use super::print::{Output, count, one_line, plural, width};
use super::{DONE, Place};
use crate::error::Result;
use crate::replay::diff::Mark;
use crate::replay::{Difference, Moment, Point};
use crate::store::Store;

/// The maximum number of events of each side to print.
const EVENTS_SHOWN: usize = 20;

/// Show what is different between two points, two branches or two conversations
///
/// Compares the live branches as of each point, event by event, and the states. To compare two branches,
/// name their tips; `annals branches` lists them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals diff 5610a7 10 20              two points of a conversation
  annals diff f16839 0e5e61 7c0c86      two branches, by their tips
  annals diff 5610a7 e87180@5           two conversations, one of them as of event 5")]
pub(super) struct Arguments {
    /// A conversation, or ID@POINT
    #[arg(value_name = "ID")]
    pub left: String,
    /// The first of two points, or another conversation (ID or ID@POINT)
    #[arg(value_name = "POINT|ID")]
    pub right: String,
    /// The second point
    #[arg(value_name = "POINT")]
    pub point: Option<String>,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let (left, right) = match &command.point {
        Some(point) => (
            moment(&store, &command.left, Some(&command.right))?,
            moment(&store, &command.left, Some(point))?,
        ),
        None => (named(&store, &command.left)?, named(&store, &command.right)?),
    };
    let difference = Difference::between(&left, &right)?;
    if output.json {
        output.value(&difference.value())?;
        return Ok(DONE);
    }
    print(&left, &right, &difference, output)?;
    Ok(DONE)
}

/// Reads a moment from `ID` or `ID@POINT`.
fn named<'s>(store: &'s Store, text: &str) -> Result<Moment<'s>> {
    match text.split_once('@') {
        Some((id, point)) => moment(store, id, Some(point)),
        None => moment(store, text, None),
    }
}

fn moment<'s>(store: &'s Store, id: &str, point: Option<&str>) -> Result<Moment<'s>> {
    let id = store.resolve(id)?;
    let point = point.map_or(Ok(Point::End), |text| Point::parse(store, &id, text))?;
    Moment::new(store, &id, point)
}

fn print(left: &Moment<'_>, right: &Moment<'_>, difference: &Difference, output: &Output) -> Result<()> {
    let name = |moment: &Moment<'_>| format!("{} with {}", moment.id(), plural(moment.length(), "event"));
    output.line(format!("{}  {}", output.styled("-", "31"), name(left)))?;
    output.line(format!("{}  {}", output.styled("+", "32"), name(right)))?;
    output.line(format!("\nboth branches begin with the same {}", plural(difference.common, "event")))?;
    for (sign, colour, marks) in [("-", "31", &difference.lost), ("+", "32", &difference.added)] {
        for mark in marks.iter().take(EVENTS_SHOWN) {
            output.line(output.styled(&format!("{sign} {}", event(mark)), colour))?;
        }
        if let Some(more @ 1..) = marks.len().checked_sub(EVENTS_SHOWN) {
            output.line(output.dim(&format!("{sign} and {} more", count(more as u64))))?;
        }
    }
    if !difference.fields.is_empty() {
        output.line(format!("\n{}", output.bold("State")))?;
    }
    let room = usize::from(width()).saturating_sub(4).max(40);
    for field in &difference.fields {
        output.line(format!("  {}", field.field))?;
        output.line(output.styled(&format!("  - {}", one_line(&field.left.to_string(), room)), "31"))?;
        output.line(output.styled(&format!("  + {}", one_line(&field.right.to_string(), room)), "32"))?;
    }
    let (sent, received) = difference.tokens;
    let cost = match (difference.cost, difference.estimated_cost) {
        (Some(cost), None) => format!("{cost:+.4}"),
        (Some(cost), Some(estimate)) => format!("{cost:+.4}, ≈ {estimate:+.4} (estimate)"),
        (None, Some(estimate)) => format!("≈ {estimate:+.4} (estimate)"),
        (None, None) => "unknown".to_owned(),
    };
    output.line(format!("\ntokens sent {sent:+}, received {received:+}; cost {cost}"))
}

fn event(mark: &Mark) -> String {
    format!("{:>5} {:<28} {}", mark.sequence, one_line(&mark.kind, 40), mark.id)
}
