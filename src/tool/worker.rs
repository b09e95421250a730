//! Runs blocking work on tokio's thread pool.

use tokio_util::sync::CancellationToken;

use super::ToolError;

/// Runs `work` on a thread that may block. `work` receives the token and checks it wherever it may take long. The call
/// does not end before `work` ends, so that nothing is written after the answer.
///
/// # Errors
/// [`ToolError::Cancelled`] if the call was cancelled before it began, [`ToolError::Internal`] if `work` panicked, and
/// the errors of `work`.
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
