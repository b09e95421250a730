//! Styled text, of which drawings are made. The program that shows a drawing decides how a colour looks.

/// A colour, by the names that terminals give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Colour {
    /// Failures, removals.
    Red,
    /// Success, additions.
    Green,
    /// Answers of tools.
    Yellow,
    /// A pause by a person.
    BrightYellow,
    /// Messages of a person.
    Gold,
    /// Messages and actions of the agent.
    Blue,
    /// Events around the agent.
    Magenta,
    /// Labels, places in a diff.
    Cyan,
    /// Condensations.
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
#[non_exhaustive]
pub struct Style {
    /// Its colour. `None` for the colour of the text around it.
    pub colour: Option<Colour>,
    /// Bold.
    pub bold: bool,
    /// Dim.
    pub dim: bool,
    /// Italic.
    pub italic: bool,
}

impl Style {
    /// Plain text.
    pub const PLAIN: Self = Self { colour: None, bold: false, dim: false, italic: false };
    /// Bold.
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    /// Dim.
    pub const DIM: Self = Self { dim: true, ..Self::PLAIN };

    /// Returns the same style in a colour.
    #[must_use]
    pub const fn in_colour(mut self, colour: Colour) -> Self {
        self.colour = Some(colour);
        self
    }

    /// Returns the same style in italics.
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
#[non_exhaustive]
pub struct Span {
    /// The text.
    pub text: String,
    /// How it looks.
    pub style: Style,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Line {
    /// Its pieces, from the left.
    pub spans: Vec<Span>,
}

impl Line {
    /// Returns a line of one piece.
    #[must_use]
    pub fn new(text: impl Into<String>, style: impl Into<Style>) -> Self {
        Self::default().with(text, style)
    }

    /// Returns the line with one more piece. An empty piece is left out.
    #[must_use]
    pub fn with(mut self, text: impl Into<String>, style: impl Into<Style>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.spans.push(Span { text, style: style.into() });
        }
        self
    }

    /// Returns the text without styles.
    #[must_use]
    pub fn plain(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Returns the number of columns that it takes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| super::layout::columns(&span.text)).sum()
    }
}
