//! How large a single value may be in a statement: as large as the limits say, unless the statement is so long that
//! it could not be ended in time.
//!
//! The engine looks at the clock at some jumps of a program, and where it takes memory. In between stand instructions
//! that read a value from end to end and take nothing: comparing it, reading a number from it. Thousands of those in
//! a row over a large value would go on for minutes. So the instructions of the program are counted, each by what it
//! takes at the most for a byte (measured, on one slow core), and values are held to a size at which all of them
//! together take [`UNSEEN_NS`].

use rusqlite::Connection;

use super::heap;

/// How long a program may go on unseen, in nanoseconds.
const UNSEEN_NS: u64 = 1_500_000_000;

/// Values of this size are always admitted: a statement may say as much by itself.
const VALUE_BYTES_MIN: usize = 128 << 10;

/// What comparing takes for a byte, in tenths of a nanosecond.
const COMPARES: u64 = 2;

/// What reading a number takes for a byte, in tenths of a nanosecond.
const READS_A_NUMBER: u64 = 10;

/// What finding a place that is counted in characters takes for a byte, in tenths of a nanosecond.
const COUNTS_CHARACTERS: u64 = 30;

/// The largest value, in bytes, with which `sql` can be ended in time; `most` at the most.
pub(super) fn value_bytes_max(
    db: &Connection,
    sql: &str,
    most: usize,
    memory_bytes_max: u64,
) -> rusqlite::Result<usize> {
    let mut statement = db.prepare(&format!("EXPLAIN {sql}"))?;
    let mut rows = statement.raw_query();
    let (mut tenths, mut takers) = (0, 0);
    while let Some(row) = rows.next()? {
        let (instruction, detail): (String, Option<String>) = (row.get(1)?, row.get(5)?);
        tenths += slowness(&instruction, detail.as_deref().unwrap_or_default());
        takers += u64::from(matches!(&*instruction, "Function" | "PureFunc" | "Concat" | "AggFinal"));
    }
    let seen = usize::try_from(UNSEEN_NS * 10 / tenths.max(1)).unwrap_or(usize::MAX);
    let held = if heap::is_installed() {
        usize::MAX
    } else {
        // Nothing refuses memory to a program that goes straight on, so all that it makes has to fit together.
        usize::try_from(memory_bytes_max / takers.max(1)).unwrap_or(usize::MAX)
    };
    Ok(most.min(seen.min(held).max(VALUE_BYTES_MIN)))
}

/// What an instruction takes for a byte of its values at the most, in tenths of a nanosecond; 0 for one that takes
/// as much memory, and so is seen, or looks at the clock itself.
fn slowness(instruction: &str, detail: &str) -> u64 {
    match instruction {
        "Eq" | "Ne" | "Lt" | "Le" | "Gt" | "Ge" | "Compare" => COMPARES,
        "If" | "IfNot" | "IsTrue" | "Not" | "And" | "Or" => READS_A_NUMBER / 2,
        "Add" | "Subtract" | "Multiply" | "Divide" | "Remainder" | "BitAnd" | "BitOr" | "BitNot"
        | "ShiftLeft" | "ShiftRight" | "Cast" | "RealAffinity" | "Affinity" | "MustBeInt" | "AggStep"
        | "AggStep1" | "AggInverse" => READS_A_NUMBER,
        "Function" | "PureFunc" => {
            let (name, count) = detail.split_once('(').unwrap_or((detail, "1)"));
            let arguments = count.trim_end_matches(')').parse().unwrap_or(12);
            match name {
                "substr" | "substring" => COUNTS_CHARACTERS,
                "abs" | "round" | "sign" | "max" | "min" | "nullif" | "char" | "printf" | "format" => {
                    READS_A_NUMBER * arguments
                }
                _ => 0,
            }
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(sql: &str) -> usize {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (a, b)").unwrap();
        value_bytes_max(&db, sql, 65 << 20, u64::MAX).unwrap()
    }

    #[test]
    fn only_a_program_that_goes_on_unseen_holds_its_values_smaller() {
        assert_eq!(
            allowed("SELECT a, upper(b), b LIKE '%x%' FROM t WHERE a > 5 AND length(b) > 5"),
            65 << 20
        );
        for one in ["a + b", "a = b", "abs(a)", "max(a, b, 1)", "substr(a, 5)", "CASE WHEN a THEN b END"] {
            let wide = |count: usize| {
                allowed(&format!("SELECT count(*) FROM t WHERE {}", vec![one; count].join(" OR ")))
            };
            assert!(wide(150) < wide(2), "{one}: {} {}", wide(150), wide(2));
            assert!(wide(150) >= VALUE_BYTES_MIN);
        }
    }
}
