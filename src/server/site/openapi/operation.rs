//! The description of an operation: its method and path, its input, its answer, and its relation to the reference.

/// An operation of the interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    /// In capital letters.
    pub method: &'static str,
    /// With its parameters in braces.
    pub path: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    pub query: &'static [Parameter],
    pub body: Body,
    pub answer: Answer,
    /// Statuses of refusals, in addition to those that all operations have.
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

/// The type of a parameter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// A text that may be given several times.
    Texts,
    Flag,
    /// A whole number: the minimum, the maximum and the default.
    Number(u64, u64, u64),
    /// A whole number of 0 or more.
    Place,
    Time,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// The body of a request. The text is the name of a schema.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    None,
    Json(&'static str),
    /// JSON that may be left out.
    Optional(&'static str),
    /// A form with one file.
    File,
}

/// The answer to a successful request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    /// JSON with the named schema.
    Json(&'static str),
    /// A new object (201), or the existing one (200).
    Made(&'static str),
    /// JSON, or a text of another type if the client asks for it.
    Or(&'static str, &'static str),
    /// A text or bytes of the given type.
    Text(&'static str),
}

/// The relation of an operation to the reference's operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The same as in the reference.
    Same,
    /// The same as in the reference, with the given improvement.
    Better(&'static str),
    /// Not in the reference: Annals' own.
    Own,
    /// Not served, for the given reason: 501.
    Absent(&'static str),
    /// Answered with 404 and the given text, like a reference server with the same configuration.
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

    /// Returns the names of the schemas that it uses.
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

    /// Returns whether this server has the operation.
    pub const fn is_served(&self) -> bool {
        !matches!(self.standing, Standing::Absent(_) | Standing::NotFound(_))
    }
}

/// Makes an optional parameter.
pub(super) const fn may(name: &'static str, kind: Kind, what: &'static str) -> Parameter {
    Parameter { name, kind, what, is_required: false }
}

/// Makes a required parameter.
pub(super) const fn must(name: &'static str, kind: Kind, what: &'static str) -> Parameter {
    Parameter { name, kind, what, is_required: true }
}
