//! Verifies that the file's tables, indexes, views and triggers are those of this version.

use rusqlite::Connection;

use crate::error::Result;
use crate::store::Maintenance;
use crate::store::derived::projection::hosted;
use crate::store::derived::schema::{Difference, ObjectKind, Role, State, differences};
use crate::store::table::guards;

impl Maintenance<'_> {
    /// Returns in words which of the log's guards are missing, altered or switched off. Empty if all are intact.
    ///
    /// # Errors
    /// Any read error.
    pub fn changed_guards(&self) -> Result<Vec<String>> {
        self.store.snapshot(|db| {
            let mut changed = guards::changed(db)?;
            let tables = differences(db)?.into_iter().filter(|difference| {
                difference.state != State::Strange
                    && difference.object.kind == ObjectKind::Table
                    && difference.object.role() == Role::Guard
            });
            changed.extend(
                tables.map(|table| format!("the table {} is not that of this version", table.object.name)),
            );
            Ok(changed)
        })
    }

    /// Returns the triggers that Annals did not make, each with its table.
    ///
    /// # Errors
    /// Any read error.
    pub fn strange_triggers(&self) -> Result<Vec<(String, String)>> {
        let differences = self.store.snapshot(differences)?.into_iter();
        let strange = differences.filter(|difference| {
            difference.state == State::Strange && difference.object.kind == ObjectKind::Trigger
        });
        Ok(strange.map(|Difference { object, .. }| (object.name, object.table)).collect())
    }
}

/// Returns the findings about the schema, and notes about harmless objects that Annals did not make. Tables of the
/// program's own projections, called `own`, are neither.
pub(super) fn verify(db: &Connection, own: &[&str]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut findings, mut notes) = (Vec::new(), Vec::new());
    let hosts = hosted::tables(db)?;
    for Difference { object, state } in differences(db)? {
        let (kind, name) = (object.kind.as_str(), &object.name);
        let is_reported_elsewhere = object.kind == ObjectKind::Trigger && guards::is_guard(name);
        let what = match state {
            State::Strange if object.kind == ObjectKind::Trigger => {
                findings.push(format!(
                    "the trigger {name} on {} is not of Annals' making: it may change what is written",
                    object.table
                ));
                continue;
            }
            State::Strange => {
                let host = hosts.iter().find(|table| table.name == object.table);
                match host.map(|table| &*table.projection) {
                    Some(projection) if own.contains(&projection) => {}
                    Some(projection) => notes.push(format!(
                        "the {kind} {name} is of the projection {projection} of another program"
                    )),
                    None => notes.push(format!("the {kind} {name} is not of Annals' making")),
                }
                continue;
            }
            _ if is_reported_elsewhere => continue,
            State::Missing => "is missing",
            State::Changed => "is not that of this version",
        };
        let meaning = if object.kind == ObjectKind::View { ": what it shows may be false" } else { "" };
        findings.push(format!("the {kind} {name} {what}{meaning}"));
    }
    Ok((findings, notes))
}
