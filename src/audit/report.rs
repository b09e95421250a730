//! What a report is: a question with its parameters, its columns and its SQL.

/// A named question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// What it is called.
    pub name: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// What one has to know to read the answer; "" where that is nothing.
    pub note: &'static str,
    /// What it can be told.
    pub parameters: &'static [Parameter],
    /// What it answers with, in order.
    pub columns: &'static [Column],
    /// One SELECT. A line that names a parameter which has no value is left out when it runs.
    pub sql: &'static str,
}

/// Something a report can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, in the SQL behind a colon.
    pub name: &'static str,
    /// What kind of value it takes.
    pub kind: ParameterKind,
    /// What it does.
    pub what: &'static str,
    /// Its value where none is given; without one the lines that name it are left out.
    pub default: Option<&'static str>,
}

/// What kind of value a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A conversation, by id or the beginning of one.
    Conversation,
    /// A date, or a date and a time of day.
    Time,
    /// Any text.
    Text,
    /// A pattern with `*` and `?`.
    Pattern,
    /// A whole number.
    Number,
    /// `yes` or `no`.
    YesOrNo,
}

impl ParameterKind {
    /// What to write, in a word or two.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "id",
            Self::Time => "time",
            Self::Text => "text",
            Self::Pattern => "pattern",
            Self::Number => "number",
            Self::YesOrNo => "yes or no",
        }
    }
}

/// A column of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The unit of its numbers, or what kind of text it is; "" where the name says it.
    pub unit: &'static str,
    /// What it holds; "" where the name says it.
    pub what: &'static str,
}

pub(super) const fn column(name: &'static str, unit: &'static str, what: &'static str) -> Column {
    Column { name, unit, what }
}
