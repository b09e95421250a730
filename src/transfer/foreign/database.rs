//! Reads the new rows of one conversation of another program's database.
//!
//! A row is identified by its table, its number and the digest of its values. If a row was deleted or replaced in the
//! database, the imported row stays as it was. The replacement is added after it.
//!
//! A redaction removes the table and the digest from an event, because both may tell what was removed. What stays is the
//! number of the row and the id of the event. A row that may be the redacted one is left out: its text must not come back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::importer::{self, ForeignImporter, Others, Records, Rows, has};
use super::kept::{self, Place};
use super::translation::{self, Arriving, Translation, Translator, place_id};
use super::{Read, records, row};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::event::foreign::{ForeignFormat, Record};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::json::{Out, Raw};
use crate::store::{Container, ForeignDatabase, ForeignTable, Store};
use crate::transfer::import::Intake;
use crate::transfer::pages::Pages;

/// The table name of the record that holds a database's schema.
pub(super) const SCHEMA: &str = "sqlite_schema";

/// The number of stored rows that are compared with a file to decide whether they came from it.
const SHARED_ROWS: usize = 50;

/// Returns the conversations of a database in the wanted formats, each with its format and key. Empty for a database
/// of another program.
///
/// # Errors
/// [`Error::Io`] if the database cannot be read.
pub(in crate::transfer) fn conversations(
    path: &Path,
    is_wanted: impl Fn(ForeignFormat) -> bool,
) -> Result<Vec<(ForeignFormat, String)>> {
    let db = ForeignDatabase::open(path)?;
    let tables = db.tables()?;
    let mut found = Vec::new();
    for importer in importer::all().filter(|importer| is_wanted(importer.format)) {
        let Records::Rows(rows) = &importer.records else { continue };
        let mut seen = HashSet::new();
        for table in tables.iter().filter(|table| rows.names_conversations(table)) {
            for key in db.keys(table, rows.key)? {
                if seen.insert(key.clone()) {
                    found.push((importer.format, key));
                }
            }
        }
    }
    db.finish()?;
    Ok(found)
}

/// One conversation of a database.
pub(super) struct Session<'a> {
    pub path: &'a Path,
    /// The file's name, without its folder.
    pub name: &'a str,
    pub importer: &'static ForeignImporter,
    pub rows: &'static Rows,
    pub key: &'a str,
}

/// A row of the database: the index of its table, and its number.
type RowPlace = (usize, i64);

/// The rows that were imported before.
#[derive(Default)]
struct Known {
    /// The table, the number and the digest of each.
    rows: HashSet<(String, i64, Digest)>,
    /// The events of the rows whose table and digest a redaction removed, by the number of the row.
    redacted: HashMap<i64, Vec<EventId>>,
}

/// Whether a row is one that was redacted here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redacted {
    No,
    /// It has the number of a redacted row. The event's id does not tell the table.
    Maybe,
    Yes,
}

impl Known {
    /// Compares a row with those that were redacted. `is_place` tells whether an id is that of a row of any table at its
    /// place.
    fn redacted(&self, row: &Arriving<'_>, is_place: impl Fn(&EventId) -> bool) -> Redacted {
        let Some(same) = self.redacted.get(&row.place) else { return Redacted::No };
        if same.contains(&place_id(row)) {
            Redacted::Yes
        } else if same.iter().all(is_place) {
            Redacted::No
        } else {
            Redacted::Maybe
        }
    }
}

impl Session<'_> {
    /// Returns the tables that may have rows of this conversation.
    fn tables(&self, db: &ForeignDatabase) -> Result<Vec<ForeignTable>> {
        Ok(db.tables()?.into_iter().filter(|table| self.rows.reads(table)).collect())
    }

    /// Returns whether a stored conversation has rows of this one. Also true if it has no rows to compare.
    pub(super) fn is_of(&self, store: &Store, id: &ConversationId) -> Result<bool> {
        let db = ForeignDatabase::open(self.path)?;
        let tables = self.tables(&db)?;
        let mut stored = Pages::new(store, id, Some(Sequence(0)));
        let mut seen = 0;
        while seen < SHARED_ROWS
            && let Some(known) = kept::next(&mut stored)?
        {
            let Some(place) = known.place else { continue };
            let Some(table) = tables.iter().find(|table| Some(&table.name) == place.table.as_ref()) else {
                continue;
            };
            seen += 1;
            let values = db.row(table, place.place)?;
            let digest = values.map(|values| Digest::of(row::to_json(&table.columns, &values).as_bytes()));
            if digest == Some(place.digest) {
                return Ok(true);
            }
        }
        Ok(seen == 0)
    }

    /// Returns the rows of this conversation, in the order of their import.
    fn order(&self, db: &ForeignDatabase, tables: &[ForeignTable]) -> Result<Vec<RowPlace>> {
        let Rows { key, is_main, others, .. } = self.rows;
        let mut indexes: Vec<Vec<(i64, String)>> = Vec::new();
        for table in tables {
            let mark = match others {
                Others::AfterSame(column) if has(table, column) => column,
                Others::AfterSame(_) | Others::First => key,
            };
            indexes.push(db.index(table, key, self.key, mark)?);
        }
        let rows_of = |place: usize| indexes[place].iter().map(move |(rowid, mark)| ((place, *rowid), mark));
        let (main, other): (Vec<usize>, Vec<usize>) =
            (0..tables.len()).partition(|place| is_main(&tables[*place]));
        let Others::AfterSame(column) = others else {
            return Ok(other.into_iter().chain(main).flat_map(rows_of).map(|(row, _)| row).collect());
        };
        let mut order = Vec::new();
        let mut by_mark: BTreeMap<&str, Vec<RowPlace>> = BTreeMap::new();
        let mut rest = Vec::new();
        for place in other {
            for (row, mark) in rows_of(place) {
                if has(&tables[place], column) {
                    by_mark.entry(mark).or_default().push(row);
                } else {
                    rest.push(row);
                }
            }
        }
        for (row, mark) in main.into_iter().flat_map(rows_of) {
            order.push(row);
            order.extend(by_mark.remove(mark.as_str()).unwrap_or_default());
        }
        order.extend(by_mark.into_values().flatten());
        order.extend(rest);
        Ok(order)
    }

    /// Passes on the new rows.
    pub(super) fn read(&self, intake: &mut Intake<'_>, on_record: &mut dyn FnMut(u64)) -> Result<Read> {
        let mut translator = (self.importer.translator)();
        let known = self.remember(translator.as_mut(), intake)?;
        let db = ForeignDatabase::open(self.path)?;
        let tables = self.tables(&db)?;
        let mut missing: u64 = known.rows.len() as u64;
        let schema = schema(&tables);
        let mut take = |table: &str, rowid: i64, json: &str| {
            on_record(json.len() as u64);
            let digest = Digest::of(json.as_bytes());
            if known.rows.contains(&(table.to_owned(), rowid, digest)) {
                missing -= 1;
                return Ok(());
            }
            let arriving = self.arriving(Some(table), rowid, json, digest, None);
            let at = |table: &str| place_id(&self.arriving(Some(table), rowid, json, digest, None));
            let redacted = known.redacted(&arriving, |id| tables.iter().any(|table| at(&table.name) == *id));
            if redacted != Redacted::No {
                intake.counts.records += 1;
                if redacted == Redacted::Maybe {
                    let what = "a row with this number was redacted here, and this may be it";
                    intake.tell(records::place_of(&arriving), what.to_owned(), "left out");
                }
                return Ok(());
            }
            let translation = self.translate(translator.as_mut(), &arriving, Raw::checked(json));
            let encoded = translation::encode(&arriving, &translation);
            if let Some(path) = &encoded.attachment {
                let source = std::io::Error::other("a row is larger than an event may be");
                return Err(Error::Io { doing: "reading", path: path.into(), source });
            }
            records::count(intake, &arriving, &translation.when_stored(encoded.is_unread));
            records::take(intake, encoded)
        };
        take(SCHEMA, 0, &schema)?;
        for (place, rowid) in self.order(&db, &tables)? {
            let table = &tables[place];
            if let Some(values) = db.row(table, rowid)? {
                take(&table.name, rowid, &row::to_json(&table.columns, &values))?;
            }
        }
        db.finish()?;
        if missing > 0 {
            intake.tell(
                self.name.to_owned(),
                format!("{missing} of the rows that were imported are not in the file any more"),
                "kept here",
            );
        }
        Ok(Read {
            files: Vec::new(),
            about: translator.about(self.key),
            container: Some(Container { file: self.name.to_owned(), glue: None }),
        })
    }

    /// Translates the stored records again, so that new ones can follow them. Returns the stored records.
    fn remember(&self, translator: &mut dyn Translator, intake: &mut Intake<'_>) -> Result<Known> {
        let mut known = Known::default();
        while let Some(record) = kept::next(&mut intake.stored)? {
            intake.count_matched(record.events);
            let (is_unread, stored) = (record.is_unread, record.stored());
            intake.problems.extend(record.problems);
            let Some(Place { table: Some(table), place, digest, record: json }) = record.place else {
                if let Some(row) = record.row {
                    known.redacted.entry(row).or_default().push(record.id);
                }
                continue;
            };
            if let Some(Record::Json(json)) = json {
                let arriving = self.arriving(Some(&table), place, &json, digest, Some(stored));
                let translation = self.translate(translator, &arriving, Raw::checked(&json));
                records::count(intake, &arriving, &translation.when_stored(is_unread));
            }
            known.rows.insert((table, place, digest));
        }
        Ok(known)
    }

    fn translate(
        &self,
        translator: &mut dyn Translator,
        arriving: &Arriving<'_>,
        record: Raw<'_>,
    ) -> Translation {
        let mut translation = match arriving.table {
            Some(SCHEMA) => Translation::unread("schema"),
            _ => translator.translate(arriving, record),
        };
        if translation.events.is_empty() && translation.id.is_none() {
            let place = place_id(arriving);
            translation.id = Some(translator.memory().id(place.as_str(), arriving));
        }
        translation
    }

    fn arriving<'r>(
        &'r self,
        table: Option<&'r str>,
        rowid: i64,
        json: &'r str,
        digest: Digest,
        stored: Option<u64>,
    ) -> Arriving<'r> {
        Arriving {
            format: self.importer.format,
            file: self.name,
            table,
            place: rowid,
            before: None,
            bytes: json.as_bytes(),
            digest,
            stored,
        }
    }
}

/// Returns a record with the statements that create the tables.
fn schema(tables: &[ForeignTable]) -> String {
    let mut out = Out::default();
    out.open("{");
    out.key("statements");
    out.open("[");
    for statement in tables.iter().flat_map(|table| &table.statements) {
        out.next();
        out.text(statement);
    }
    out.close("]");
    out.close("}");
    out.finish()
}
