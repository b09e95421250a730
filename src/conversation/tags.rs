//! Which tags a conversation may have.

use super::{ConversationError, Result};

/// The reference's rule for tags.
pub(super) fn check_tags(tags: &[(String, String)]) -> Result<()> {
    let is_fine = |(key, value): &&(String, String)| {
        let letters =
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        letters && value.chars().count() <= 256
    };
    match tags.iter().find(|tag| !is_fine(tag)) {
        Some((key, _)) => Err(ConversationError::Tag { key: key.clone() }),
        None => Ok(()),
    }
}
