//! Recreates derived objects and guards with exactly the statements of the migrations, within a write transaction.

use std::collections::HashSet;

use rusqlite::Connection;

use super::{Difference, Object, ObjectKind, Role, State, compare, read, wanted};
use crate::error::{Error, Result};
use crate::store::derived::projection;
use crate::store::engine::WhileDoing as _;
use crate::store::table::guards;

const DOING: &str = "making derived objects again";

/// The objects that were recreated, in words.
type Made = Vec<String>;

/// Recreates every derived object that is missing or altered. Guards and other programs' objects stay, except unique
/// indexes on derived tables: they are dropped, and their tables are filled again.
///
/// Recreated tables are empty. The next step fills them.
///
/// # Errors
/// [`Error::LostTable`] if a table with primary data is lost. Then nothing was changed.
pub(in crate::store) fn mend(db: &Connection) -> Result<Made> {
    let wanted = wanted()?;
    let found = read(db)?;
    let differences = compare(wanted, &found);
    refuse_lost_truth(&differences)?;
    let mut again: HashSet<&str> = differences
        .iter()
        .filter(|difference| difference.is_mendable())
        .filter_map(|difference| wanted.iter().find(|object| object.id() == difference.object.id()))
        .map(|object| object.name.as_str())
        .collect();
    let in_the_way: Vec<&Object> = differences
        .iter()
        .filter(|difference| difference.is_mendable() && difference.object.keeps_rows_out())
        .map(|difference| &difference.object)
        .collect();
    if again.is_empty() && in_the_way.is_empty() {
        return Ok(Vec::new());
    }
    // The rows of these tables may have been replaced or rejected. The index may also have the name of one of ours.
    let filled: Vec<&str> = found
        .iter()
        .filter(|object| object.keeps_rows_out() && !wanted.contains(object))
        .map(|index| index.table.as_str())
        .collect();
    let is_search = |name: &str| name == projection::search::TABLE || projection::search::is_beneath(name);
    let searches = again.iter().chain(&filled).copied().any(is_search);
    let searched = searches && projection::search::was_used(db)?;
    if searches {
        // The engine creates and drops the tables of the search index together.
        again.extend(wanted.iter().map(|object| object.name.as_str()).filter(|name| is_search(name)));
    }
    let tables: Vec<&str> = wanted
        .iter()
        .filter(|object| object.kind == ObjectKind::Table && again.contains(object.name.as_str()))
        .map(|object| object.name.as_str())
        .collect();
    // Dropping a table also drops its indexes, so they are recreated with it.
    let with_table = wanted.iter().filter(|object| object.kind == ObjectKind::Index);
    again.extend(
        with_table.filter(|object| tables.contains(&&*object.table)).map(|object| object.name.as_str()),
    );
    in_the_way.iter().try_for_each(|index| drop_object(db, index))?;
    let mut work = Work { db, found: &found, wanted, foreign: Vec::new() };
    work.clear(&again)?;
    let mut made = work.make(&again)?;
    projection::remade(db, &[tables, filled].concat(), searched)?;
    made.extend(work.restore_foreign());
    made.extend(
        in_the_way.iter().map(|index| {
            format!("table {} without another program's unique index {}", index.table, index.name)
        }),
    );
    Ok(made)
}

/// Recreates guards that are missing or altered, and ends any permission to bypass them.
pub(in crate::store) fn mend_guards(db: &Connection) -> Result<Made> {
    let found = read(db)?;
    let wanted = wanted()?;
    let differences = compare(wanted, &found);
    refuse_lost_truth(&differences)?;
    let broken = differences
        .into_iter()
        .filter(|difference| difference.state != State::Strange && difference.object.role() == Role::Guard);
    let mut made = Vec::new();
    for Difference { object, .. } in broken {
        let existing = found.iter().find(|other| other.id() == object.id());
        if let Some(other) = existing {
            drop_object(db, other)?;
        }
        db.execute_batch(&object.sql).doing(DOING)?;
        made.push(format!("{} {}", object.kind.as_str(), object.name));
    }
    guards::forbid(db)?;
    Ok(made)
}

/// Rejects a file that has lost a table with primary data.
pub(super) fn refuse_lost_truth(differences: &[Difference]) -> Result<()> {
    let lost = differences
        .iter()
        .find(|difference| difference.state == State::Missing && difference.object.role() == Role::Truth);
    match lost {
        Some(lost) => Err(Error::LostTable { table: lost.object.name.clone() }),
        None => Ok(()),
    }
}

struct Work<'a> {
    db: &'a Connection,
    found: &'a [Object],
    wanted: &'static [Object],
    /// Other programs' triggers and indexes on the objects that are recreated.
    foreign: Vec<&'a Object>,
}

impl<'a> Work<'a> {
    /// Makes the names `again` free: drops the objects that have them, but renames other programs' tables.
    fn clear(&mut self, again: &HashSet<&str>) -> Result<()> {
        let found = self.found;
        let in_the_way = |object: &&Object| {
            object.kind != ObjectKind::Trigger
                && again.iter().any(|name| name.eq_ignore_ascii_case(&object.name))
        };
        // Indexes first: the table of an index may stay.
        let mut objects: Vec<&Object> = found.iter().filter(in_the_way).collect();
        objects.sort_by_key(|object| object.kind != ObjectKind::Index);
        let (beneath, objects): (Vec<&Object>, Vec<&Object>) =
            objects.into_iter().partition(|object| projection::search::is_beneath(&object.name));
        for object in beneath.into_iter().filter(|object| object.kind != ObjectKind::Table) {
            drop_object(self.db, object)?;
        }
        if again.contains(projection::search::TABLE) {
            projection::search::make_droppable(self.db)?;
        }
        for object in objects {
            let name = object.name.to_ascii_lowercase();
            let ours = self.wanted.iter().find(|wanted| wanted.id() == (false, name.clone()));
            let is_foreign =
                object.kind == ObjectKind::Table && ours.is_some_and(|ours| ours.kind != ObjectKind::Table);
            if is_foreign {
                // Another program's table may have data, so it is renamed, not dropped.
                self.rename_aside(object)?;
                continue;
            }
            self.foreign.extend(found.iter().filter(|other| {
                matches!(other.kind, ObjectKind::Trigger | ObjectKind::Index)
                    && other.name != object.name
                    && !other.keeps_rows_out()
                    && other.table.eq_ignore_ascii_case(&object.name)
                    && !self.wanted.iter().any(|wanted| wanted.id() == other.id())
            }));
            drop_object(self.db, object)?;
        }
        if again.contains(projection::search::TABLE) {
            // If the index itself was lost, some of its internal tables may be left.
            projection::search::drop_beneath(self.db)?;
        }
        Ok(())
    }

    /// Gives a new name to another program's table that has the name of one of our objects.
    fn rename_aside(&self, object: &Object) -> Result<()> {
        let taken = |name: &str| self.found.iter().any(|other| other.name.eq_ignore_ascii_case(name));
        let name = (1..).map(|number| format!("{}_aside_{number}", object.name)).find(|name| !taken(name));
        let name = name.unwrap_or_else(|| format!("{}_aside", object.name));
        // `legacy_alter_table`: otherwise the engine would check every view, and some may be broken now.
        self.db
            .execute_batch(&format!(
                "PRAGMA legacy_alter_table = ON; ALTER TABLE {} RENAME TO {}; PRAGMA legacy_alter_table = OFF;",
                quoted(&object.name),
                quoted(&name)
            ))
            .doing(DOING)
    }

    /// Makes the objects with the names `again`, in the order of the migrations. Returns them in words.
    fn make(&self, again: &HashSet<&str>) -> Result<Made> {
        let mut made = Vec::new();
        for object in self.wanted {
            let name = object.name.as_str();
            if object.kind == ObjectKind::Trigger || !again.contains(name) {
                continue;
            }
            if !projection::search::is_beneath(name) {
                self.db.execute_batch(&object.sql).doing(DOING)?;
                made.push(format!("{} {name}", object.kind.as_str()));
            }
        }
        Ok(made)
    }

    /// Restores other programs' triggers and indexes. Returns those that could not be restored.
    fn restore_foreign(&self) -> Made {
        let refused = self.foreign.iter().filter_map(|object| {
            let error = self.db.execute_batch(&object.sql).err()?;
            let kind = object.kind.as_str();
            Some(format!("but not another program's {kind} {}, which no longer fits: {error}", object.name))
        });
        refused.collect()
    }
}

pub(super) fn drop_object(db: &Connection, object: &Object) -> Result<()> {
    // With `main`, because this connection is guarded by temporary triggers of the same names.
    db.execute_batch(&format!("DROP {} main.{}", object.kind.as_str(), quoted(&object.name))).doing(DOING)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
