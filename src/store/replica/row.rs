//! A row of the truth on its way from one file to another.

use super::check::Head;
use super::shape::Shape;
use crate::error::{Error, Result};
use crate::store::engine::SqlValue;

/// One row, as a commit left it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Its table.
    pub table: &'static str,
    /// The values of its key, in the order of the key.
    pub key: Vec<SqlValue>,
    /// The key of the conversation that it belongs to. `None` if it belongs to none, or if that is not known any more.
    pub conversation: Option<i64>,
    /// Its values, in the order of the columns. `None` if the row was removed.
    pub values: Option<Vec<SqlValue>>,
}

/// What a transaction changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Effects {
    /// The rows, each once.
    pub rows: Vec<Row>,
    /// The keys of the conversations that were removed. Their rows are not in `rows`.
    pub gone: Vec<i64>,
    /// The ends of the chains of each conversation that was changed and is still there.
    pub heads: Vec<Head>,
}

impl Effects {
    /// Returns whether nothing was changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.gone.is_empty()
    }
}

impl Row {
    /// Returns the name of a table of the truth, if there is one with this name.
    pub(crate) fn table(name: &str) -> Option<&'static str> {
        Shape::names().find(|known| *known == name)
    }

    /// Returns values as bytes; [`Row::values_of`] reads them.
    pub(crate) fn bytes_of(values: &[SqlValue]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in values {
            let (tag, content): (u8, &[u8]) = match value {
                SqlValue::Null => (0, &[]),
                SqlValue::Integer(number) => {
                    bytes.push(1);
                    bytes.extend(number.to_be_bytes());
                    continue;
                }
                SqlValue::Real(number) => {
                    bytes.push(2);
                    bytes.extend(number.to_be_bytes());
                    continue;
                }
                SqlValue::Text(text) => (3, text.as_bytes()),
                SqlValue::Blob(content) => (4, content),
            };
            bytes.push(tag);
            if tag > 0 {
                bytes.extend((content.len() as u64).to_be_bytes());
                bytes.extend(content);
            }
        }
        bytes
    }

    /// Reads values that [`Row::bytes_of`] wrote.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they are not.
    pub(crate) fn values_of(mut bytes: &[u8]) -> Result<Vec<SqlValue>> {
        let mut values = Vec::new();
        while let Some((tag, rest)) = bytes.split_first() {
            bytes = rest;
            let value = match tag {
                0 => Some(SqlValue::Null),
                1 => eight(&mut bytes).map(|eight| SqlValue::Integer(i64::from_be_bytes(eight))),
                2 => eight(&mut bytes).map(|eight| SqlValue::Real(f64::from_be_bytes(eight))),
                3 => content(&mut bytes)
                    .and_then(|text| String::from_utf8(text.to_vec()).ok())
                    .map(SqlValue::Text),
                4 => content(&mut bytes).map(|content| SqlValue::Blob(content.to_vec())),
                _ => None,
            };
            let broken = || Error::Corrupt { what: "a row of the shared log cannot be read".into() };
            values.push(value.ok_or_else(broken)?);
        }
        Ok(values)
    }
}

fn eight(bytes: &mut &[u8]) -> Option<[u8; 8]> {
    let (eight, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*eight)
}

fn content<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(u64::from_be_bytes(eight(bytes)?)).ok()?;
    let (content, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_way() {
        let values = vec![
            SqlValue::Null,
            SqlValue::Integer(i64::MIN),
            SqlValue::Real(-0.1),
            SqlValue::Text("a\0ü".into()),
            SqlValue::Text(String::new()),
            SqlValue::Blob(vec![0, 255]),
        ];
        let bytes = Row::bytes_of(&values);
        assert_eq!(Row::values_of(&bytes).unwrap(), values);
        for cut in 1..bytes.len() {
            if let Ok(read) = Row::values_of(&bytes[..cut]) {
                assert_eq!(read, values[..read.len()], "a cut never gives another value");
            }
        }
        assert!(Row::values_of(&[9]).is_err());
        assert!(Row::values_of(&[3, 255, 255, 255, 255, 255, 255, 255, 255]).is_err());
    }
}
