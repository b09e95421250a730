//! Computes how large a single value may be in a statement: as large as the limits say, unless the statement is so
//! long that it could not be ended in time.
//!
//! The engine checks the clock at some jumps of a program and when it allocates memory. Between these points there
//! are instructions that read a whole value and allocate nothing: comparing it, reading a number from it. Thousands
//! of them in a row over a large value would run for minutes. So this module adds up the highest cost per byte of
//! all instructions (measured on one slow core). It limits the size of values so that all instructions together
//! take at most [`UNCHECKED_NS`].

use rusqlite::Connection;

use crate::store::engine::heap;

/// The longest time that a program may run without a check, in nanoseconds.
const UNCHECKED_NS: u64 = 1_500_000_000;

/// Values of this size are always allowed, because the text of a statement may contain values nearly as large.
const VALUE_BYTES_MIN: usize = 128 << 10;

/// The cost of comparing a value, in tenths of a nanosecond per byte.
const COMPARE_COST: u64 = 2;

/// The cost of reading a number from a value, in tenths of a nanosecond per byte.
const NUMBER_COST: u64 = 10;

/// The cost of finding an offset that is given in characters, in tenths of a nanosecond per byte.
const CHARACTER_COST: u64 = 30;

/// Returns the largest value, in bytes, with which `sql` can be ended in time, but at most `most`.
pub(super) fn value_bytes_max(
    db: &Connection,
    sql: &str,
    most: usize,
    memory_bytes_max: u64,
) -> rusqlite::Result<usize> {
    let mut statement = db.prepare(&format!("EXPLAIN {sql}"))?;
    let mut rows = statement.raw_query();
    let (mut tenths, mut allocating) = (0, 0);
    while let Some(row) = rows.next()? {
        let (instruction, detail): (String, Option<String>) = (row.get(1)?, row.get(5)?);
        tenths += cost_per_byte(&instruction, detail.as_deref().unwrap_or_default());
        allocating += u64::from(matches!(&*instruction, "Function" | "PureFunc" | "Concat" | "AggFinal"));
    }
    let for_time = usize::try_from(UNCHECKED_NS * 10 / tenths.max(1)).unwrap_or(usize::MAX);
    let for_memory = if heap::is_installed() {
        usize::MAX
    } else {
        // Between jumps no allocation is refused, so all values that the program creates must fit together.
        usize::try_from(memory_bytes_max / allocating.max(1)).unwrap_or(usize::MAX)
    };
    Ok(most.min(for_time.min(for_memory).max(VALUE_BYTES_MIN)))
}

/// Returns the highest cost of an instruction, in tenths of a nanosecond per byte of its values. 0 if the instruction
/// allocates as many bytes, which triggers a check, or checks the clock itself.
fn cost_per_byte(instruction: &str, detail: &str) -> u64 {
    match instruction {
        "Eq" | "Ne" | "Lt" | "Le" | "Gt" | "Ge" | "Compare" => COMPARE_COST,
        "If" | "IfNot" | "IsTrue" | "Not" | "And" | "Or" => NUMBER_COST / 2,
        "Add" | "Subtract" | "Multiply" | "Divide" | "Remainder" | "BitAnd" | "BitOr" | "BitNot"
        | "ShiftLeft" | "ShiftRight" | "Cast" | "RealAffinity" | "Affinity" | "MustBeInt" | "AggStep"
        | "AggStep1" | "AggInverse" => NUMBER_COST,
        "Function" | "PureFunc" => {
            let (name, count) = detail.split_once('(').unwrap_or((detail, "1)"));
            let arguments = count.trim_end_matches(')').parse().unwrap_or(12);
            match name {
                "substr" | "substring" => CHARACTER_COST,
                "abs" | "round" | "sign" | "max" | "min" | "nullif" | "char" | "printf" | "format" => {
                    NUMBER_COST * arguments
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
    fn only_a_program_with_unchecked_work_gets_smaller_values() {
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
