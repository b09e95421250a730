//! A conversation's secrets as its tools know them.

use std::borrow::Cow;

use crate::llm::Boxed;
use crate::secret::Registry;
use crate::tool::Secrets;

/// The registry, shared with the tools.
pub(super) struct Shared(pub Registry);

impl Secrets for Shared {
    fn for_command<'a>(&'a self, command: &'a str) -> Boxed<'a, Vec<(String, String)>> {
        let (registry, command) = (self.0.clone(), command.to_owned());
        Box::pin(async move {
            if registry.is_empty() {
                return Vec::new();
            }
            // Looking a value up may take a while; a task that cannot look gets none.
            tokio::task::spawn_blocking(move || registry.for_command(&command)).await.unwrap_or_default()
        })
    }

    fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Owned(self.0.mask_known().apply(text).into_owned())
    }

    fn bytes_max(&self) -> usize {
        self.0.mask_known().bytes_max()
    }
}
