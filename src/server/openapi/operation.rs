//! What one operation is: its method and path, what it takes, what it answers, and how it stands to the reference.

/// An operation of the interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    /// In capitals.
    pub method: &'static str,
    /// With its parameters in braces.
    pub path: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    pub query: &'static [Parameter],
    pub body: Body,
    pub answer: Answer,
    /// Refusals besides those that all have.
    pub refusals: &'static [u16],
    pub standing: Standing,
}

/// Operations that belong together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub name: &'static str,
    pub operations: &'static [Operation],
}

/// A parameter of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    pub what: &'static str,
    pub is_required: bool,
}

/// What a parameter may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// A text; given several times for several.
    Texts,
    Flag,
    /// From, to, and what it is where it is not given.
    Number(u64, u64, u64),
    /// A whole number of 0 or more.
    Place,
    Time,
    /// One of these.
    Word(&'static [&'static str]),
}

/// What a request carries: the name of a schema.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    None,
    Json(&'static str),
    /// It may be left out.
    Optional(&'static str),
    /// A form with one file.
    File,
}

/// What a request is answered with where all is well.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    /// A schema by name.
    Json(&'static str),
    /// A new thing: 201.
    Made(&'static str),
    /// JSON, or a text of another type where it is asked for.
    Or(&'static str, &'static str),
    /// A text, or bytes, of a type.
    Text(&'static str),
}

/// How an operation stands to the reference's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// As there.
    Same,
    /// As there, and in what it is better.
    Better(&'static str),
    /// Not there: Annals' own.
    Own,
    /// Not here, and why: 501.
    Absent(&'static str),
    /// Not here, as the reference has it where it is set up like this server: 404, in which words.
    NotFound(&'static str),
}

const fn operation(method: &'static str, path: &'static str, summary: &'static str) -> Operation {
    let (query, body, answer) = (&[], Body::None, Answer::Json("Success"));
    Operation { method, path, summary, query, body, answer, refusals: &[], standing: Standing::Same }
}

pub(super) const fn get(path: &'static str, summary: &'static str) -> Operation {
    operation("GET", path, summary)
}

pub(super) const fn post(path: &'static str, summary: &'static str) -> Operation {
    operation("POST", path, summary)
}

pub(super) const fn put(path: &'static str, summary: &'static str) -> Operation {
    operation("PUT", path, summary)
}

pub(super) const fn patch(path: &'static str, summary: &'static str) -> Operation {
    operation("PATCH", path, summary)
}

pub(super) const fn delete(path: &'static str, summary: &'static str) -> Operation {
    operation("DELETE", path, summary)
}

impl Operation {
    pub const fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    pub const fn takes(self, schema: &'static str) -> Self {
        Self { body: Body::Json(schema), ..self }
    }

    pub const fn may_take(self, schema: &'static str) -> Self {
        Self { body: Body::Optional(schema), ..self }
    }

    pub const fn takes_file(self) -> Self {
        Self { body: Body::File, ..self }
    }

    pub const fn answers(self, schema: &'static str) -> Self {
        Self { answer: Answer::Json(schema), ..self }
    }

    pub const fn makes(self, schema: &'static str) -> Self {
        Self { answer: Answer::Made(schema), ..self }
    }

    pub const fn answers_or(self, schema: &'static str, other: &'static str) -> Self {
        Self { answer: Answer::Or(schema, other), ..self }
    }

    pub const fn sends(self, content_type: &'static str) -> Self {
        Self { answer: Answer::Text(content_type), ..self }
    }

    pub const fn refuses(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }

    pub const fn better(self, how: &'static str) -> Self {
        Self { standing: Standing::Better(how), ..self }
    }

    pub const fn own(self) -> Self {
        Self { standing: Standing::Own, ..self }
    }

    pub const fn absent(self, why: &'static str) -> Self {
        Self { standing: Standing::Absent(why), ..self }
    }

    pub const fn not_found(self, why: &'static str) -> Self {
        Self { standing: Standing::NotFound(why), ..self }
    }

    /// The schemas that it names.
    #[cfg(test)]
    pub fn schemas(&self) -> impl Iterator<Item = &'static str> {
        let taken = match self.body {
            Body::Json(schema) | Body::Optional(schema) => Some(schema),
            Body::None | Body::File => None,
        };
        let answered = match self.answer {
            Answer::Json(schema) | Answer::Made(schema) | Answer::Or(schema, _) => Some(schema),
            Answer::Text(_) => None,
        };
        taken.into_iter().chain(answered)
    }

    /// Whether this server has it.
    pub const fn is_served(&self) -> bool {
        !matches!(self.standing, Standing::Absent(_) | Standing::NotFound(_))
    }
}

/// A parameter that may be left out.
pub(super) const fn may(name: &'static str, kind: Kind, what: &'static str) -> Parameter {
    Parameter { name, kind, what, is_required: false }
}

/// A parameter that has to be there.
pub(super) const fn must(name: &'static str, kind: Kind, what: &'static str) -> Parameter {
    Parameter { name, kind, what, is_required: true }
}
