//! The schema of a shared log on its server: made, described and removed.

use postgres::error::SqlState;
use postgres::{Client, Row};

use super::address::Address;
use super::client;
use super::line::{connect, failed, unreachable};
use crate::chain::Digest;
use crate::error::{Error, Result, SharedError};
use crate::store::SCHEMA_VERSION;

mod embedded {
    refinery::embed_migrations!("src/shared/migrations");
}

const DESCRIBE: &str = "SELECT log_id, file_schema FROM log";
const STATUS: &str = "SELECT (SELECT entry FROM log_end), (SELECT count(*) FROM conversation AS c \
     WHERE EXISTS (SELECT 1 FROM event WHERE conversation = c.key)), (SELECT count(*) FROM event), \
     (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class \
     WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r')";

const TABLES: &str = "SELECT max(version)::bigint FROM refinery_schema_history";

/// The schemas with a log that this role may read.
const LOGS: &str = "SELECT n.nspname FROM pg_namespace AS n JOIN pg_class AS l ON l.relnamespace = n.oid AND l.relname = 'log' \
     JOIN pg_class AS e ON e.relnamespace = n.oid AND e.relname = 'log_end' \
     WHERE CASE WHEN has_schema_privilege(n.oid, 'USAGE') THEN has_table_privilege(l.oid, 'SELECT') \
     AND has_table_privilege(e.oid, 'SELECT') END \
     AND EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = l.oid AND a.attname = 'file_schema') ORDER BY n.nspname";

/// What the schema has besides a log. The schema of a log has nothing else, so that nothing else is removed with it.
const OTHERS: &str = "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace \
     AND relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT relname = ANY ($1)";

/// The tables of a log, and the view on them.
const OWN: [&str; 10] = [
    "log",
    "log_end",
    "entry",
    "conversation",
    "event",
    "other_row",
    "lease",
    "home",
    "events",
    "refinery_schema_history",
];

const DROP: &str = "DROP VIEW events; \
     DROP TABLE home, lease, other_row, event, conversation, entry, log_end, log, refinery_schema_history";

/// What a shared log holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedStatus {
    /// Its id, a UUID.
    pub log_id: String,
    /// The schema of the files that share it.
    pub file_schema: i64,
    /// The number of its entries.
    pub entries: u64,
    /// The number of conversations with events.
    pub conversations: u64,
    /// The number of events.
    pub events: u64,
    /// Its size on the server, with indexes, in bytes.
    pub bytes: u64,
}

/// Makes the log. Returns its id.
pub(super) fn make(address: &Address) -> Result<String> {
    let mut client = connect(address)?;
    let schema = address.quoted();
    client
        .batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}"))
        .map_err(failed("making a schema"))?;
    use_schema(&mut client, address)?;
    if describe(&mut client, address).is_ok() {
        return Err(SharedError::Exists { schema: address.schema.clone() }.into());
    }
    if others(&mut client)? > 0 {
        let what = format!("the schema {:?} has other tables; name one of its own", address.schema);
        return Err(SharedError::Address { what }.into());
    }
    embedded::migrations::runner()
        .set_grouped(true)
        .run(&mut client)
        .map_err(|error| unreachable("making the tables", error))?;
    let log_id = uuid::Uuid::new_v4().to_string();
    let mut transaction = client.transaction().map_err(failed("making the log"))?;
    let start = Digest::START.0.as_slice();
    let (id, version) = (&log_id, i64::from(SCHEMA_VERSION));
    transaction
        .execute("INSERT INTO log (log_id, file_schema) VALUES ($1, $2)", &[id, &version])
        .and_then(|_| transaction.execute("INSERT INTO log_end (entry, chain) VALUES (0, $1)", &[&start]))
        .and_then(|_| transaction.commit())
        .map_err(failed("making the log"))?;
    Ok(log_id)
}

/// Returns what the log holds.
pub(super) fn status(address: &Address) -> Result<SharedStatus> {
    let mut client = connect(address)?;
    use_schema(&mut client, address)?;
    held(&mut client, address)
}

fn held(client: &mut Client, address: &Address) -> Result<SharedStatus> {
    let (log_id, file_schema) = describe(client, address)?;
    let row = client.query_one(STATUS, &[]).map_err(failed("looking at the log"))?;
    let number = |place: usize| row.get::<_, i64>(place).cast_unsigned();
    let (entries, conversations, events, bytes) = (number(0), number(1), number(2), number(3));
    Ok(SharedStatus { log_id, file_schema, entries, conversations, events, bytes })
}

/// Returns what all logs of the database hold.
pub(super) fn list(address: &Address) -> Result<Vec<(String, SharedStatus)>> {
    let mut client = connect(address)?;
    let rows = client.query(LOGS, &[]).map_err(failed("listing logs"))?;
    let mut logs = Vec::new();
    for row in rows {
        let address = Address { schema: row.get(0), ..address.clone() };
        use_schema(&mut client, &address)?;
        match held(&mut client, &address) {
            Ok(status) => logs.push((address.schema, status)),
            // It was dropped meanwhile, or its schema has tables of the same names that are no log.
            Err(Error::Shared(SharedError::None { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(logs)
}

/// Removes the log.
pub(super) fn drop_all(address: &Address) -> Result<()> {
    let mut client = connect(address)?;
    use_schema(&mut client, address)?;
    describe(&mut client, address)?;
    // What was added since, such as a view of the operator, stays; what depends on the log keeps it from being removed.
    let is_alone = others(&mut client)? == 0;
    let schema = if is_alone { format!("; DROP SCHEMA {}", address.quoted()) } else { String::new() };
    client.batch_execute(&format!("BEGIN; {DROP}{schema}; COMMIT")).map_err(failed("removing the log"))
}

/// Returns how many tables and views of others the schema has.
fn others(client: &mut Client) -> Result<i64> {
    let row = client.query_one(OTHERS, &[&OWN.as_slice()]).map_err(failed("looking at the schema"))?;
    Ok(row.get(0))
}

fn use_schema(client: &mut Client, address: &Address) -> Result<()> {
    client.batch_execute(&format!("SET search_path TO {}", address.quoted())).map_err(failed("connecting"))
}

/// Returns the id of the log, and the schema of its files.
///
/// # Errors
/// [`SharedError::None`] if there is no log.
pub(super) fn describe(client: &mut Client, address: &Address) -> Result<(String, i64)> {
    described(client.query_opt(DESCRIBE, &[]), address)
}

fn described(
    answer: std::result::Result<Option<Row>, postgres::Error>,
    address: &Address,
) -> Result<(String, i64)> {
    match answer {
        Ok(Some(row)) => Ok((row.get(0), row.get(1))),
        Ok(None) => Err(none(address)),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Err(none(address)),
        Err(error) => Err(failed("looking at the log")(error)),
    }
}

/// Returns the id of a log that this program can use: its tables are those that this program makes, and so are its files.
///
/// # Errors
/// As [`describe`], and [`SharedError::OtherVersion`].
pub(super) fn check(client: &client::Client, address: &Address) -> Result<String> {
    let (log_id, found) = described(client.query_opt(DESCRIBE, &[]), address)?;
    let row = client.query_opt(TABLES, &[]).map_err(failed("looking at the log"))?;
    let made = row.and_then(|row| row.get::<_, Option<i64>>(0)).unwrap_or(0);
    let own = embedded::migrations::runner();
    let tables = own.get_migrations().iter().map(|made| made.version()).max().map_or(0, i64::from);
    let found = [(found, i64::from(SCHEMA_VERSION)), (made, tables)];
    match found.into_iter().find(|(found, known)| found != known) {
        Some((found, known)) => Err(SharedError::OtherVersion { found, known }.into()),
        None => Ok(log_id),
    }
}

fn none(address: &Address) -> Error {
    SharedError::None { schema: address.schema.clone() }.into()
}
