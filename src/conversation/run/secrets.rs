//! A conversation's secrets, as its tools use them.

use std::borrow::Cow;

use crate::llm::Boxed;
use crate::secret::{Mask, Registry};
use crate::tool::Secrets;

/// The registries of secrets that the tools use.
pub(super) struct Shared {
    pub own: Registry,
    /// The secrets of the parent conversation. They are masked, but commands do not get them.
    pub lender: Option<Registry>,
}

impl Secrets for Shared {
    fn for_command<'a>(&'a self, command: &'a str) -> Boxed<'a, Vec<(String, String)>> {
        let (registry, command) = (self.own.clone(), command.to_owned());
        Box::pin(async move {
            if registry.is_empty() {
                return Vec::new();
            }
            registry.for_command(&command).await
        })
    }

    fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let masked = self.own.mask_known().apply(text).into_owned();
        Cow::Owned(match &self.lender {
            Some(lender) => lender.mask_known().apply(&masked).into_owned(),
            None => masked,
        })
    }

    /// A tool that has the mask masks a long output before cutting it, and keeps the whole output in a file.
    fn known(&self) -> Option<Mask> {
        Some(match &self.lender {
            Some(lender) => self.own.mask_known_with(lender),
            None => self.own.mask_known(),
        })
    }

    fn bytes_max(&self) -> usize {
        let lent = self.lender.as_ref().map_or(0, |lender| lender.mask_known().bytes_max());
        self.own.mask_known().bytes_max().max(lent)
    }
}
