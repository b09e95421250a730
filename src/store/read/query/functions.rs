//! Replaces SQLite's LIKE, GLOB, instr, length, replace and trim by functions with the same results that check the
//! clock.
//!
//! The time of SQLite's own functions is proportional to the product of their arguments' sizes, and a call cannot be
//! interrupted: `instr` over two texts of some megabytes would keep a processor busy for hours. `length` and `trim`
//! allocate no memory, so they cannot be ended by a refused allocation either (`engine/heap.rs`).

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use memchr::memmem;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql};

use super::pattern::Pattern;
use crate::error::Result;
use crate::store::engine::{WhileDoing as _, heap};

/// The longest pattern of LIKE and GLOB, in bytes.
const PATTERN_BYTES_MAX: usize = 1_000;

/// The number of characters between two checks of the clock.
const CHECK_EVERY: usize = 1 << 16;

/// Why a function fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Failure {
    #[error("interrupted")]
    Late,
    #[error("string or blob too big")]
    TooBig,
    #[error("LIKE or GLOB pattern too complex")]
    Pattern,
    #[error("ESCAPE expression must be a single character")]
    Escape,
}

fn failure(why: Failure) -> rusqlite::Error {
    rusqlite::Error::UserFunctionError(Box::new(why))
}

/// Replaces SQLite's own functions by these on a connection for queries.
pub(super) fn replace_slow_ones(db: &Connection, value_bytes_max: usize) -> Result<()> {
    let made = || -> rusqlite::Result<()> {
        for arguments in [2, 3] {
            make(db, "like", arguments, like)?;
        }
        make(db, "glob", 2, glob)?;
        make(db, "instr", 2, instr)?;
        make(db, "length", 1, length)?;
        make(db, "replace", 3, move |context| replace(context, value_bytes_max))?;
        for arguments in [1, 2] {
            make(db, "trim", arguments, |context| trim(context, true, true))?;
            make(db, "ltrim", arguments, |context| trim(context, true, false))?;
            make(db, "rtrim", arguments, |context| trim(context, false, true))?;
        }
        Ok(())
    };
    made().doing("setting up a query")
}

/// Registers one function. Each call begins with a check of the clock.
fn make<T: ToSql>(
    db: &Connection,
    name: &str,
    arguments: i32,
    function: impl Fn(&Context<'_>) -> rusqlite::Result<T> + Send + 'static,
) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    db.create_scalar_function(name, arguments, flags, move |context| {
        heap::leniently(|| tick().map_err(failure).and_then(|()| function(context)))
    })
}

/// Fails if the statement has to end.
fn tick() -> Result<(), Failure> {
    heap::look().map_or(Ok(()), |_| Err(Failure::Late))
}

/// Returns an argument as text, converted as SQLite converts it. `None` for NULL.
fn text<'a>(context: &'a Context<'_>, index: usize) -> Option<Cow<'a, [u8]>> {
    match context.get_raw(index) {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string().into_bytes().into()),
        ValueRef::Real(number) => Some(real(number).into_bytes().into()),
        ValueRef::Text(text) => Some(text.into()),
        ValueRef::Blob(bytes) => Some(bytes.into()),
    }
}

/// Formats a number as SQLite does: with a decimal point and at most 15 digits.
fn real(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "Inf".into() } else { "-Inf".into() };
    }
    let rounded: f64 = format!("{number:.14e}").parse().unwrap_or(number);
    if rounded != 0.0 && !(1e-4..1e15).contains(&rounded.abs()) {
        let text = format!("{rounded:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let point = if digits.contains('.') { "" } else { ".0" };
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}{point}e{sign}{:02}", exponent.abs())
    } else {
        format!("{rounded:?}")
    }
}

/// Returns a text up to its first NUL, because some of SQLite's functions read no further.
fn until_nul(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

fn like(context: &Context<'_>) -> rusqlite::Result<Option<bool>> {
    let (Some(pattern), Some(subject)) = (text(context, 0), text(context, 1)) else { return Ok(None) };
    let (pattern, subject) = (until_nul(&pattern), until_nul(&subject));
    let mut escape = None;
    if context.len() == 3 {
        let Some(given) = text(context, 2) else { return Ok(None) };
        let given = String::from_utf8_lossy(&given).into_owned();
        let mut characters = given.chars();
        escape = characters.next();
        if escape.is_none() || characters.next().is_some() {
            return Err(failure(Failure::Escape));
        }
    }
    let pattern = compiled(context, pattern, |text| Pattern::like(text, escape))?;
    pattern.matches(subject, tick).map(Some).map_err(failure)
}

fn glob(context: &Context<'_>) -> rusqlite::Result<Option<bool>> {
    let (Some(pattern), Some(subject)) = (text(context, 0), text(context, 1)) else { return Ok(None) };
    let (pattern, subject) = (until_nul(&pattern), until_nul(&subject));
    let pattern = compiled(context, pattern, Pattern::glob)?;
    pattern.matches(subject, tick).map(Some).map_err(failure)
}

/// Returns the parsed pattern. SQLite caches it while the pattern of a statement stays the same.
fn compiled(
    context: &Context<'_>,
    text: &[u8],
    compile: impl FnOnce(&str) -> Pattern,
) -> rusqlite::Result<Arc<Pattern>> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err(failure(Failure::Pattern));
    }
    context.get_or_create_aux(0, |_| Ok::<_, Failure>(compile(&String::from_utf8_lossy(text))))
}

fn instr(context: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    let both_blobs =
        matches!((context.get_raw(0), context.get_raw(1)), (ValueRef::Blob(_), ValueRef::Blob(_)));
    let (Some(subject), Some(wanted)) = (text(context, 0), text(context, 1)) else { return Ok(None) };
    let Some(at) = memmem::find(&subject, &wanted) else { return Ok(Some(0)) };
    // The offset is in characters, but in bytes if both arguments are blobs.
    let before = &subject[..at];
    let characters = before.iter().filter(|byte| both_blobs || **byte & 0xc0 != 0x80).count();
    Ok(Some(characters as i64 + 1))
}

fn replace(context: &Context<'_>, bytes_max: usize) -> rusqlite::Result<Option<String>> {
    let (Some(subject), Some(old)) = (text(context, 0), text(context, 1)) else { return Ok(None) };
    let owned = |bytes: Vec<u8>| {
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    };
    if until_nul(&old).is_empty() {
        return Ok(Some(owned(subject.into_owned()))); // the third argument does not matter
    }
    let Some(new) = text(context, 2) else { return Ok(None) };
    let mut out = Vec::new();
    let mut rest = 0;
    for at in memmem::find_iter(&subject, &old) {
        out.extend_from_slice(&subject[rest..at]);
        out.extend_from_slice(&new);
        rest = at + old.len();
        if out.len() > bytes_max {
            return Err(failure(Failure::TooBig));
        }
    }
    out.extend_from_slice(&subject[rest..]);
    Ok(Some(owned(out)))
}

/// The number of characters of a text up to a NUL, of characters of a number, or of bytes of a blob.
fn length(context: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    if let ValueRef::Blob(bytes) = context.get_raw(0) {
        return Ok(Some(bytes.len() as i64));
    }
    let Some(text) = text(context, 0) else { return Ok(None) };
    Ok(Some(until_nul(&text).iter().filter(|byte| **byte & 0xc0 != 0x80).count() as i64))
}

fn trim(context: &Context<'_>, start: bool, end: bool) -> rusqlite::Result<Option<String>> {
    let Some(subject) = text(context, 0) else { return Ok(None) };
    let unwanted = if context.len() == 1 { Some(Cow::from(&b" "[..])) } else { text(context, 1) };
    let Some(unwanted) = unwanted else { return Ok(None) };
    let (subject, unwanted) =
        (String::from_utf8_lossy(&subject), String::from_utf8_lossy(until_nul(&unwanted)));
    let mut trimmed = subject.as_ref();
    if start {
        let bytes = leading_bytes(trimmed.chars(), &unwanted)?;
        trimmed = &trimmed[bytes..];
    }
    if end {
        let bytes = leading_bytes(trimmed.chars().rev(), &unwanted)?;
        trimmed = &trimmed[..trimmed.len() - bytes];
    }
    Ok(Some(trimmed.to_owned()))
}

/// Returns the size in bytes of the leading characters that are all in `wanted`.
fn leading_bytes(characters: impl Iterator<Item = char>, wanted: &str) -> rusqlite::Result<usize> {
    let one = wanted.chars().next().filter(|one| one.len_utf8() == wanted.len());
    let many: HashSet<char> = if one.is_some() { HashSet::new() } else { wanted.chars().collect() };
    let mut bytes = 0;
    for (number, character) in characters.enumerate() {
        if !one.map_or_else(|| many.contains(&character), |one| one == character) {
            break;
        }
        bytes += character.len_utf8();
        if number % CHECK_EVERY == 0 {
            tick().map_err(failure)?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::types::Value;

    use super::*;

    fn guarded() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        replace_slow_ones(&db, 1 << 20).unwrap();
        db
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            1 => Just(Value::Null),
            1 => any::<i64>().prop_map(Value::Integer),
            1 => (-1000_i64..1000).prop_map(Value::Integer),
            1 => (-100_000..100_000).prop_map(|n| Value::Real(f64::from(n) / 64.0)),
            6 => "[ab日%_1.\\- ]{0,6}".prop_map(Value::Text),
            1 => "[ a\u{0}日]{0,4}".prop_map(Value::Text),
            1 => "[ab]{0,3}".prop_map(|text| Value::Blob(text.into_bytes())),
        ]
    }

    proptest! {
        #[test]
        fn the_results_are_those_of_sqlite(a in any_value(), b in any_value(), c in any_value()) {
            let (plain, own) = (Connection::open_in_memory().unwrap(), guarded());
            for sql in [
                "SELECT instr(?1, ?2), ?3",
                "SELECT replace(?1, ?2, ?3)",
                "SELECT trim(?1, ?2) || '.' || ltrim(?1, ?2) || '.' || rtrim(?1, ?2), ?3",
                "SELECT trim(?1) || '.' || ltrim(?1) || '.' || rtrim(?1), ?2, ?3",
                "SELECT length(?1), ?2, ?3",
                "SELECT ?1 LIKE ?2, ?1 GLOB ?2, ?3",
            ] {
                let read = |db: &Connection| {
                    db.query_row(sql, (&a, &b, &c), |row| row.get::<_, Value>(0)).unwrap()
                };
                prop_assert_eq!(read(&plain), read(&own), "{} {:?} {:?} {:?}", sql, a, b, c);
            }
        }
    }

    #[test]
    fn calls_on_large_texts_end_quickly() {
        let sql = "WITH long(text) AS (SELECT printf('%.*c', 1000000, 'x'))
             SELECT instr(text, substr(text, 1, 400000) || 'y'), length(trim(text, 'abcx')) FROM long";
        let found: (i64, i64) = guarded().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(found, (0, 0));
        let error = guarded()
            .query_row(
                "SELECT replace(printf('%.*c', 100000, 'x'), 'x', printf('%.*c', 1000, 'y'))",
                [],
                |_| Ok(()),
            )
            .unwrap_err();
        assert_eq!(error.to_string(), "string or blob too big");
    }
}
