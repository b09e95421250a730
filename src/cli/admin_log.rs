//! `annals admin-log`: changes of the file that no event records, and who made them.

use clap::Args;

use super::print::{Output, count, one_line, row, table, time};
use super::{DONE, Place};
use crate::audit::json;
use crate::chain::Digest;
use crate::error::Result;
use crate::ids::ActNumber;
use crate::store::{Act, Store};

/// Show changes of the file that no event records, and who made them: deletions, redactions, archives
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only acts after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub after: u64,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
    /// Also show what each act removed
    #[arg(long)]
    pub receipts: bool,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let acts = store.audit().admin_log(ActNumber(command.after), command.limit)?;
    if output.json {
        for act in &acts {
            let mut value = json::act(act);
            if command.receipts {
                value["receipts"] = store.audit().receipts(act.number)?.iter().map(json::receipt).collect();
            }
            output.value(&value)?;
        }
        return Ok(DONE);
    }
    let mut rows = table(&["act", "at", "by", "what", "conversation", "receipts", "reason"], &[0, 5]);
    for act in &acts {
        let user = act.actor.user.as_deref().unwrap_or("-");
        let host = act.actor.host.as_deref().unwrap_or("-");
        rows.add_row(row([
            count(act.number.0),
            time(act.at),
            one_line(&format!("{user} at {host}"), 40),
            what(act),
            one_line(act.conversation.as_deref().unwrap_or("-"), 37),
            count(act.receipts),
            one_line(act.reason.as_deref().unwrap_or(""), 80),
        ]));
    }
    output.table(rows)?;
    if command.receipts {
        print_receipts(&store, &acts, output)?;
    }
    Ok(DONE)
}

/// Returns the kind of an act; for an act on a key of a server, also the key's name and role.
fn what(act: &Act) -> String {
    let detail: serde_json::Value = serde_json::from_str(&act.detail).unwrap_or_default();
    match (detail["key"].as_str(), detail["role"].as_str()) {
        (Some(key), Some(role)) => one_line(&format!("{} {key} ({role})", act.act), 90),
        _ => act.act.clone(),
    }
}

/// Prints what each act changed: the SHA-256 before, and the SHA-256 after unless the item was removed.
fn print_receipts(store: &Store, acts: &[Act], output: &Output) -> Result<()> {
    let digest = |digest: Option<Digest>| digest.map_or_else(|| "-".to_owned(), Digest::to_hex);
    for act in acts.iter().filter(|act| act.receipts > 0) {
        let mut rows = table(&["what", "name", "sha-256 before", "sha-256 after"], &[]);
        for receipt in store.audit().receipts(act.number)? {
            let (before, after) = (digest(receipt.digest), digest(receipt.new_digest));
            rows.add_row(row([receipt.part.to_string(), one_line(&receipt.name, 100), before, after]));
        }
        let title = format!("Act {}, {}", count(act.number.0), act.act);
        output.line(format!("\n{}", output.bold(&title)))?;
        output.table(rows)?;
    }
    Ok(())
}
