//! Repairs the derived objects of a file of an older schema before further migrations run. Those drop views by name,
//! and would always fail if another program has dropped one.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::mend::{drop_object, refuse_lost_truth};
use super::{Object, ObjectKind, State, compare, is_declared, read, wanted};
use crate::error::{Error, Result};
use crate::store::derived::projection;
use crate::store::engine::WhileDoing as _;

const DOING: &str = "upgrading the schema";

/// Recreates missing and altered derived objects: tables, indexes and views. `then` has the objects of a fresh file of
/// the older schema.
///
/// Another program's unique index on a derived table is dropped. Recreated tables are empty. After either, every
/// projection starts from position 0. The search index is recreated later, after the upgrade.
///
/// # Errors
/// [`Error::LostTable`] if a table is lost that cannot be recreated. [`Error::NameTaken`] if another program's object
/// has a name that Annals needs. Then nothing was changed.
pub(in super::super) fn make_whole(db: &Connection, then: &[Object]) -> Result<()> {
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate).doing(DOING)?;
    let found = read(&transaction)?;
    refuse_taken_names(then, &found)?;
    let differences = compare(then, &found);
    refuse_lost_truth(&differences)?;
    let is_search = |name: &str| name == projection::search::TABLE || projection::search::is_beneath(name);
    let mut lost: Vec<&Object> = differences
        .iter()
        .filter(|difference| difference.is_mendable() && !is_search(&difference.object.name))
        .map(|difference| &difference.object)
        .collect();
    // A dropped table takes its indexes along, so they are dropped first.
    lost.sort_by_key(|object| object.kind != ObjectKind::Index);
    if lost.is_empty() {
        return Ok(());
    }
    for object in &lost {
        if let Some(other) = found.iter().find(|other| other.id() == object.id()) {
            drop_object(&transaction, other)?;
        }
    }
    let is_table = |name: &str| lost.iter().any(|lost| lost.kind == ObjectKind::Table && lost.name == name);
    // Dropping a table also drops its indexes, so they are recreated with it.
    for object in then
        .iter()
        .filter(|object| lost.iter().any(|lost| lost.id() == object.id()) || is_table(&object.table))
    {
        if object.kind != ObjectKind::Trigger {
            transaction.execute_batch(&object.sql).doing(DOING)?;
        }
    }
    // An index that kept rows out may have had the name of one of ours.
    let kept_out = found.iter().any(|object| object.keeps_rows_out() && !then.contains(object));
    if kept_out || lost.iter().any(|object| object.kind == ObjectKind::Table) {
        projection::forget_all(&transaction)?;
    }
    transaction.commit().doing(DOING)
}

/// Rejects a file in which another program's object has the name of an object that a later migration makes, or in which
/// another program's table, which may have data, has the name of a view or an index.
fn refuse_taken_names(then: &[Object], found: &[Object]) -> Result<()> {
    let strangers = compare(then, found).into_iter().filter(|difference| difference.state == State::Strange);
    let later = strangers.map(|difference| difference.object);
    // What a projection declares is only made if it is missing, so an object that is exactly that may be there.
    let later = later.filter(|object| {
        wanted().is_ok_and(|all| all.iter().any(|wanted| wanted.id() == object.id()))
            && !is_declared(object, projection::PROJECTIONS)
    });
    let tables = found.iter().filter(|object| object.kind == ObjectKind::Table).cloned();
    let in_place =
        tables.filter(|table| then.iter().any(|ours| ours.id() == table.id() && ours.kind != table.kind));
    match later.chain(in_place).next() {
        Some(Object { kind, name, .. }) => Err(Error::NameTaken(format!("{} {name}", kind.as_str()))),
        None => Ok(()),
    }
}
