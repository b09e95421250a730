//! What can be typed for `annals replay`.

use clap::Args;

use super::speed::Speed;
use crate::cli::arguments::At;

/// Step through a conversation as it happened
///
/// On a terminal events come as they came, with keys to pause, step, jump and filter; ? shows them. Elsewhere every
/// event is printed at once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals replay 5610a7                       from its beginning, at most 3 s between events
  annals replay 5610a7 --from 20 --step      from event 20 on, one at a key
  annals replay 5610a7 --only action error   what was done, and what went wrong
  annals replay 5610a7 | less -R             all of it at once
  annals --json replay 5610a7                the same, for programs

Keys: space pause and go on; n or right next; p or left previous; g jump; / filter; + - speed; e unfold; q quit")]
pub(crate) struct Replay {
    #[command(flatten)]
    pub moment: At,
    /// Begin with this event: a sequence, an event's id, or a time
    #[arg(long, value_name = "POINT")]
    pub from: Option<String>,
    /// How fast: 1x as it was, 10x ten times that, max without waiting
    #[arg(long, value_name = "SPEED", default_value_t)]
    pub speed: Speed,
    /// Begin paused: each key shows one more event
    #[arg(long)]
    pub step: bool,
    /// Only events whose kind has one of these words in it (message, action, observation, error, hook, state, ...)
    #[arg(long, value_name = "KIND", num_args = 1.., value_delimiter = ',')]
    pub only: Vec<String>,
    /// End behind the last event instead of waiting for a key
    #[arg(long)]
    pub no_pause: bool,
    /// Leave out what the person said
    #[arg(long)]
    pub skip_user_messages: bool,
    /// Fold each text to this many lines; 0 for all of them
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub lines: usize,
}
