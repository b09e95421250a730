//! Work that blocks, on a thread of tokio's pool for it.

use tokio_util::sync::CancellationToken;

use super::ToolError;

/// Runs `work` on a thread that may block. It is handed the token and looks at it wherever it may take long;
/// until it ends, the call has not ended, so that nothing is written after a call was answered.
///
/// # Errors
/// [`ToolError::Cancelled`] where the call was cancelled before it began, what `work` answers, and
/// [`ToolError::Internal`] where it panicked.
pub async fn blocking<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let token = cancel.clone();
    match tokio::task::spawn_blocking(move || work(&token)).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_cancelled() => Err(ToolError::Cancelled),
        Err(_) => Err(ToolError::Internal("the tool broke off".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_a_cancelled_call_does_not_begin() {
        let cancel = CancellationToken::new();
        let outcome = blocking::<()>(&cancel, |_| panic!("the tool's own")).await;
        assert_eq!(outcome, Err(ToolError::Internal("the tool broke off".to_owned())));
        assert_eq!(blocking(&cancel, |_| Ok(3)).await, Ok(3));
        cancel.cancel();
        assert_eq!(blocking(&cancel, |_| Ok(3)).await, Err(ToolError::Cancelled));
    }
}
