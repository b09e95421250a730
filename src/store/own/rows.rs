//! The handle through which a host's own projection reads and writes its tables.

use std::cell::RefCell;

use rusqlite::{CachedStatement, Connection, params_from_iter};

use super::guard::{self, Asking};
use super::shape::{self, Shape};
use crate::error::{Error, OwnProjectionError, Result};
use crate::store::engine::{SqlValue, is_of_statement, translate};

/// The most rows that one statement of a host's own projection returns.
pub const OWN_ROWS_MAX: usize = 10_000;

const DOING: &str = "running a statement of a projection of the host's own";

/// The tables of one projection of a host's own, within one transaction.
///
/// A statement is one SELECT, INSERT, UPDATE or DELETE on tables of the projection, with values for `?1`, `?2` and so on.
/// It sees what earlier statements of the same transaction have written. It may call functions whose results depend only on
/// their arguments, such as `coalesce`, `json_extract` and `sum`, and not, for example, `random` or `datetime`. The word
/// ROLLBACK must not occur in it: the transaction is not the host's.
///
/// A statement that fails changes nothing, and the projection may go on with another one. The exception is a failure of
/// the file: then the append fails with it, whatever the projection returns.
#[derive(Debug)]
pub struct OwnRows<'a> {
    db: &'a Connection,
    shape: &'a Shape,
    /// The first error that is not the statement's own, such as a full disk.
    failure: RefCell<Option<Error>>,
}

impl<'a> OwnRows<'a> {
    pub(in crate::store) fn new(db: &'a Connection, shape: &'a Shape) -> Self {
        Self { db, shape, failure: RefCell::new(None) }
    }

    /// Runs a statement. Returns the number of rows that it inserted, changed or deleted.
    ///
    /// # Errors
    /// [`OwnProjectionError::Statement`] if the statement is not allowed, is wrong, or breaks a constraint of its table. Any write
    /// error.
    pub fn execute(&self, sql: &str, values: &[SqlValue]) -> Result<usize> {
        self.run(sql, true, |statement| {
            statement.execute(params_from_iter(values.iter().map(SqlValue::bound)))
        })
    }

    /// Runs a statement. Returns its rows, each with a value for each column, at most [`OWN_ROWS_MAX`].
    ///
    /// # Errors
    /// As [`OwnRows::execute`]. [`OwnProjectionError::Statement`] also if there are more rows.
    pub fn query(&self, sql: &str, values: &[SqlValue]) -> Result<Vec<Vec<SqlValue>>> {
        self.rows(sql, true, values)
    }

    /// Does the same for a statement that may not write.
    pub(in crate::store) fn read(&self, sql: &str, values: &[SqlValue]) -> Result<Vec<Vec<SqlValue>>> {
        self.rows(sql, false, values)
    }

    /// Takes the error of the file that a statement met, if any did.
    pub(in crate::store) fn take_failure(&self) -> Option<Error> {
        self.failure.take()
    }

    fn rows(&self, sql: &str, writes: bool, values: &[SqlValue]) -> Result<Vec<Vec<SqlValue>>> {
        let found = self.run(sql, writes, |statement| {
            let columns = statement.column_count();
            let mut rows = statement.query(params_from_iter(values.iter().map(SqlValue::bound)))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                if found.len() == OWN_ROWS_MAX {
                    return Ok(None);
                }
                let values = (0..columns).map(|column| row.get_ref(column).map(SqlValue::of));
                found.push(values.collect::<rusqlite::Result<_>>()?);
            }
            Ok(Some(found))
        })?;
        found.ok_or_else(|| {
            self.refusal(format!(
                "it returns more than {OWN_ROWS_MAX} rows; write a LIMIT, or sum in the statement"
            ))
        })
    }

    fn run<T>(
        &self,
        sql: &str,
        writes: bool,
        work: impl FnOnce(&mut CachedStatement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        if shape::rolls_back(sql) {
            return Err(self.refusal("it has the word ROLLBACK, and the transaction is not its own".into()));
        }
        // The engine checks a statement when it is prepared. With the name in front, a statement of Annals that was prepared
        // without a check is never taken for it.
        let named = format!("/* {} */ {sql}", self.shape.name);
        let asking = Asking { base: self.shape.base.clone(), writes, refused: None };
        let (done, refused) = guard::guarded(asking, || {
            let mut statement = self.db.prepare_cached(&named)?;
            work(&mut statement)
        });
        done.map_err(|error| match refused {
            Some(what) => self.refusal(what),
            None if is_of_statement(&error) => OwnProjectionError::Statement {
                name: self.shape.name.clone(),
                what: "the engine does not accept it".into(),
                source: Some(error.into()),
            }
            .into(),
            None => {
                let message = error.to_string();
                let failure = translate(error, DOING);
                let kept = Error::Storage { doing: DOING, source: message.into() };
                self.failure.borrow_mut().get_or_insert(kept);
                failure
            }
        })
    }

    fn refusal(&self, what: String) -> Error {
        OwnProjectionError::Statement { name: self.shape.name.clone(), what, source: None }.into()
    }
}
