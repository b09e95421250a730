//! Styled text: what a drawing is made of. How a colour looks is for whoever shows it.

/// A colour, by the names that terminals give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Colour {
    /// Failures, what was taken away.
    Red,
    /// Success, what was added.
    Green,
    /// What tools answer.
    Yellow,
    /// A person paused.
    BrightYellow,
    /// What a person says.
    Gold,
    /// What the agent says and does.
    Blue,
    /// The machinery around it.
    Magenta,
    /// Labels, places in a diff.
    Cyan,
    /// What was forgotten.
    White,
    /// Thoughts, remarks.
    Grey,
}

impl Colour {
    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::BrightYellow => "bright_yellow",
            Self::Gold => "gold",
            Self::Blue => "blue",
            Self::Magenta => "magenta",
            Self::Cyan => "cyan",
            Self::White => "white",
            Self::Grey => "grey",
        }
    }
}

/// How a piece of text looks; the default is plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Its colour; `None` for that of the text around it.
    pub colour: Option<Colour>,
    /// Bold.
    pub bold: bool,
    /// Dim.
    pub dim: bool,
    /// Italic.
    pub italic: bool,
}

impl Style {
    /// Nothing special.
    pub const PLAIN: Self = Self { colour: None, bold: false, dim: false, italic: false };
    /// Bold.
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    /// Dim.
    pub const DIM: Self = Self { dim: true, ..Self::PLAIN };

    /// The same in a colour.
    #[must_use]
    pub const fn in_colour(mut self, colour: Colour) -> Self {
        self.colour = Some(colour);
        self
    }

    /// The same in italics.
    #[must_use]
    pub const fn in_italics(mut self) -> Self {
        self.italic = true;
        self
    }
}

impl From<Colour> for Style {
    fn from(colour: Colour) -> Self {
        Self::PLAIN.in_colour(colour)
    }
}

/// A piece of text in one style. It has no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The text.
    pub text: String,
    /// How it looks.
    pub style: Style,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// Its pieces, from the left.
    pub spans: Vec<Span>,
}

impl Line {
    /// A line of one piece.
    #[must_use]
    pub fn new(text: impl Into<String>, style: impl Into<Style>) -> Self {
        Self::default().with(text, style)
    }

    /// The same line with one more piece; an empty one is left out.
    #[must_use]
    pub fn with(mut self, text: impl Into<String>, style: impl Into<Style>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.spans.push(Span { text, style: style.into() });
        }
        self
    }

    /// The text alone.
    #[must_use]
    pub fn plain(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// How many columns it takes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| super::layout::columns(&span.text)).sum()
    }
}
