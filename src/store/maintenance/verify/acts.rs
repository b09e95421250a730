//! Reads the administrative log although some of its acts are damaged.

use rusqlite::Connection;

use super::Verification;
use super::changes::described;
use crate::error::Result;
use crate::ids::ActNumber;
use crate::store::Store;
use crate::store::engine::{WhileDoing as _, is_damage};
use crate::store::options::PAGE_MAX;
use crate::store::table::admin::{self, Act};
use crate::store::table::server_key;

/// Reads only the table's keys.
const NEXT: &str = "SELECT min(number) FROM admin_act WHERE number > ?1";

/// The most acts that are reported as damaged.
const DAMAGE_MAX: usize = 100;

impl Store {
    /// Checks the chain of acts, and the keys of servers, which it records. If an act cannot be read, the chain ends there; the others that cannot be read are
    /// findings too.
    pub(super) fn verify_acts(&self, seen: &mut Verification) -> Result<()> {
        let problems = self.snapshot(admin::verify);
        match seen.bear("the administrative log", problems)? {
            Some(problems) => {
                problems.into_iter().for_each(|what| seen.of_the_file(what));
                let keys = self.snapshot(server_key::verify);
                let keys = seen.bear("the keys of servers", keys)?;
                keys.unwrap_or_default().into_iter().for_each(|what| seen.of_the_file(what));
            }
            None => {
                let damage = self.acts_after(ActNumber::START, &mut |_| Ok(true))?;
                seen.damage(damage);
            }
        }
        Ok(())
    }

    /// Calls `visit` with each act after `after` that can be read, in order, until it returns false. Returns
    /// what could not be read, in words.
    ///
    /// # Errors
    /// Any error of `visit`, and any read error, except damage.
    pub(crate) fn acts_after(
        &self,
        mut after: ActNumber,
        visit: &mut dyn FnMut(&Act) -> Result<bool>,
    ) -> Result<Vec<String>> {
        let (mut damage, mut limit) = (Vec::new(), PAGE_MAX);
        loop {
            let error = match self.audit().admin_log(after, limit) {
                Ok(acts) if acts.is_empty() => return Ok(damage),
                Ok(acts) => {
                    for act in &acts {
                        // A damaged table may have its rows in any order, and any number in them.
                        if act.number <= after || i64::try_from(act.number.0).is_err() {
                            damage.push(format!(
                                "the administrative log cannot be read after act {after}: it is out of order"
                            ));
                            return Ok(damage);
                        }
                        after = act.number;
                        if !visit(act)? {
                            return Ok(damage);
                        }
                    }
                    continue;
                }
                Err(error) if is_damage(&error) => error,
                Err(error) => return Err(error),
            };
            if limit > 1 {
                limit = 1; // to find the act that cannot be read
                continue;
            }
            match self.read(|db| next(db, after)) {
                Ok(Some(number)) if number > after && damage.len() < DAMAGE_MAX => {
                    let what = format!(
                        "act {number} of the administrative log cannot be read: {}",
                        described(&error)
                    );
                    damage.push(what);
                    (after, limit) = (number, PAGE_MAX);
                }
                Err(error) if !is_damage(&error) => return Err(error),
                Ok(_) | Err(_) => {
                    let what = format!(
                        "the administrative log cannot be read after act {after}: {}",
                        described(&error)
                    );
                    damage.push(what);
                    return Ok(damage);
                }
            }
        }
    }
}

/// Returns the number of the act that follows `after`.
fn next(db: &Connection, after: ActNumber) -> Result<Option<ActNumber>> {
    let next: Option<i64> = db
        .prepare_cached(NEXT)
        .and_then(|mut statement| statement.query_row([after.0.cast_signed()], |row| row.get(0)))
        .doing("reading the administrative log")?;
    Ok(next.and_then(|number| u64::try_from(number).ok()).map(ActNumber))
}
