//! The definition of a report: a question with its parameters, its columns and its SQL.

/// The name of the parameter that limits the rows of an answer.
pub(super) const LIMIT: &str = "limit";

/// A named question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The report's name.
    pub name: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// What a reader must know to understand the answer. Empty if there is nothing to know.
    pub note: &'static str,
    /// The parameters that it takes.
    pub parameters: &'static [Parameter],
    /// The columns of the answer, in order.
    pub columns: &'static [Column],
    /// One SELECT. When it runs, every line that names a parameter without a value is left out.
    pub sql: &'static str,
}

impl Report {
    /// Returns whether the report has a parameter of this name.
    #[must_use]
    pub fn has(&self, parameter: &str) -> bool {
        self.parameters.iter().any(|known| known.name == parameter)
    }
}

/// A parameter of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name. In the SQL a colon stands before the name.
    pub name: &'static str,
    /// What kind of value it takes.
    pub kind: ParameterKind,
    /// What it does.
    pub what: &'static str,
    /// The value if none is given. Without a default, the SQL lines that name the parameter are left out.
    pub default: Option<&'static str>,
}

/// What kind of value a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A conversation, by id or the beginning of one.
    Conversation,
    /// A date, a date and a time of day, an age such as `7d`, or a word such as `yesterday`.
    Time,
    /// Any text.
    Text,
    /// One of these words, in capital letters or not.
    OneOf(&'static [&'static str]),
    /// A pattern with `*` and `?`.
    Pattern,
    /// A whole number.
    Number,
    /// `yes` or `no`.
    YesOrNo,
}

impl ParameterKind {
    /// Returns the kind's name, in one to three words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "id",
            Self::Time => "time",
            Self::Text | Self::OneOf(_) => "text",
            Self::Pattern => "pattern",
            Self::Number => "number",
            Self::YesOrNo => "yes or no",
        }
    }
}

/// A column of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The unit of its numbers, or the kind of its text. Empty if the name is clear enough.
    pub unit: &'static str,
    /// What it holds. Empty if the name is clear enough.
    pub what: &'static str,
}

pub(super) const fn column(name: &'static str, unit: &'static str, what: &'static str) -> Column {
    Column { name, unit, what }
}
