//! What a program does with an open conversation beside running it: say, ask, set a goal, change settings, move, close.
//!
//! Each file is one group of methods of [`Conversation`](crate::conversation::Conversation). The room names `run` and what
//! lies below it. It does not open conversations.

mod ask;
mod close;
mod goal;
mod navigate;
mod say;
mod settings;
mod switch;
mod tool;

pub use goal::{Goal, GoalOutcome, GoalStatus};
pub use say::UserMessage;
