//! Making a file of an older schema what its migrations left, before further ones run: they take views away by name, and
//! would fail for ever where another program has dropped one.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::super::engine::Doing as _;
use super::super::{database, projection};
use super::mend::{drop_object, refuse_lost_truth};
use super::{Object, ObjectKind, State, compare, read, wanted};
use crate::error::{Error, Result};

const DOING: &str = "upgrading the schema";

/// Makes derived tables, indexes and views again that the first `schema` migrations made and that are missing or altered.
/// Tables come back empty, and every projection starts afresh. The search index waits until the file is up to date.
///
/// # Errors
/// [`Error::LostTable`] where a table is gone that nothing else can make again, [`Error::NameTaken`] where another
/// program's object stands where a later migration makes one. Nothing was changed then.
pub(in super::super) fn make_whole(db: &Connection, schema: u32) -> Result<()> {
    let then = read(&database::open_fresh_at(schema)?)?;
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate).doing(DOING)?;
    let found = read(&transaction)?;
    refuse_taken_names(&then, &found)?;
    let differences = compare(&then, &found);
    refuse_lost_truth(&differences)?;
    let is_search = |name: &str| name == projection::search::TABLE || projection::search::is_beneath(name);
    let lost: Vec<&Object> = differences
        .iter()
        .filter(|difference| difference.is_mendable() && !is_search(&difference.object.name))
        .map(|difference| &difference.object)
        .collect();
    if lost.is_empty() {
        return Ok(());
    }
    for object in &lost {
        if let Some(other) = found.iter().find(|other| other.id() == object.id()) {
            drop_object(&transaction, other)?;
        }
    }
    let is_table = |name: &str| lost.iter().any(|lost| lost.kind == ObjectKind::Table && lost.name == name);
    // An index goes and comes with its table.
    for object in then
        .iter()
        .filter(|object| lost.iter().any(|lost| lost.id() == object.id()) || is_table(&object.table))
    {
        if object.kind != ObjectKind::Trigger {
            transaction.execute_batch(&object.sql).doing(DOING)?;
        }
    }
    if lost.iter().any(|object| object.kind == ObjectKind::Table) {
        projection::forget_all(&transaction)?;
    }
    transaction.commit().doing(DOING)
}

/// Refuses a file in which another program's object has the name of one that a later migration makes, or of a view or an
/// index where it is a table, which may hold something.
fn refuse_taken_names(then: &[Object], found: &[Object]) -> Result<()> {
    let strangers = compare(then, found).into_iter().filter(|difference| difference.state == State::Strange);
    let later = strangers.map(|difference| difference.object);
    let later =
        later.filter(|object| wanted().is_ok_and(|all| all.iter().any(|wanted| wanted.id() == object.id())));
    let tables = found.iter().filter(|object| object.kind == ObjectKind::Table).cloned();
    let in_place =
        tables.filter(|table| then.iter().any(|ours| ours.id() == table.id() && ours.kind != table.kind));
    match later.chain(in_place).next() {
        Some(Object { kind, name, .. }) => Err(Error::NameTaken(format!("{} {name}", kind.as_str()))),
        None => Ok(()),
    }
}
