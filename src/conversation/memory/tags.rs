//! The rule for a conversation's tags.

use crate::conversation::error::{ConversationError, Result};

/// Checks tags by the reference's rule.
pub(in crate::conversation) fn check_tags(tags: &[(String, String)]) -> Result<()> {
    let is_valid = |(key, value): &&(String, String)| {
        let letters =
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        letters && value.chars().count() <= 256
    };
    match tags.iter().find(|tag| !is_valid(tag)) {
        Some((key, _)) => Err(ConversationError::Tag { key: key.clone() }),
        None => Ok(()),
    }
}
