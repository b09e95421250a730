//! The secrets of one conversation, by name.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Cipher, Mask, Secret, Source, SourceError, StoredSecret};
use crate::json::{Out, Raw};

/// How long to wait before a failed source is asked again. Without this, masking would ask it for every output.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Fetches the value of a [`Source::Lookup`]: takes `(url, headers)`, gives the response's body, or `None` if it fails.
///
/// It is awaited. No thread blocks on it, because callers are tasks of the runtime that the fetch itself needs.
pub type Fetch = Arc<dyn Fn(String, Vec<(String, Secret)>) -> Fetching + Send + Sync>;

/// A fetch that is under way.
pub type Fetching = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// The data of a secret that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The name.
    pub name: String,
    /// The purpose.
    pub description: Option<String>,
}

/// The secrets of one conversation. Clones share them.
#[derive(Clone)]
pub struct Registry(Arc<Mutex<Inner>>);

struct Inner {
    /// The sources by name, in the order in which they were added.
    sources: Vec<(String, Source)>,
    /// Whether the sources differ from those that were last loaded or saved.
    is_unsaved: bool,
    /// The last value of each secret, by name. The mask also has the earlier values.
    resolved: HashMap<String, Secret>,
    /// Every value that was ever resolved here.
    seen: Vec<Secret>,
    failed: HashMap<String, Instant>,
    mask: Mask,
    fetch: Option<Fetch>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Registry {
    /// Makes an empty registry. Without `fetch`, [`Source::Lookup`] secrets have no value.
    #[must_use]
    pub fn new(fetch: Option<Fetch>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            sources: Vec::new(),
            is_unsaved: false,
            resolved: HashMap::new(),
            seen: Vec::new(),
            failed: HashMap::new(),
            mask: Mask::default(),
            fetch,
        })))
    }

    /// Loads the sources of a stored registry: `{"secret_sources": {name: source}}`.
    ///
    /// # Errors
    /// [`SourceError`] for the first invalid source. Then no source is loaded.
    pub fn load(&self, raw: Raw<'_>, cipher: Option<&Cipher>) -> Result<(), SourceError> {
        let mut sources = Vec::new();
        for (name, source) in raw.get("secret_sources").iter().flat_map(|sources| sources.members()) {
            sources.push((name.clone().into_owned(), Source::read(&name, source, cipher)?));
        }
        self.update(sources);
        self.note_saved();
        Ok(())
    }

    /// Adds sources. A source replaces the one with the same name.
    pub fn update(&self, sources: impl IntoIterator<Item = (String, Source)>) {
        let mut inner = self.lock();
        for (name, source) in sources {
            inner.failed.remove(&name);
            inner.resolved.remove(&name);
            if let Source::Static { value: StoredSecret::Open(secret), .. } = &source {
                let secret = secret.clone();
                inner.learn(&name, secret);
            }
            match inner.sources.iter().position(|(known, _)| *known == name) {
                Some(at) if inner.sources[at].1 == source => {}
                Some(at) => {
                    inner.sources[at].1 = source;
                    inner.is_unsaved = true;
                }
                None => {
                    inner.sources.push((name, source));
                    inner.is_unsaved = true;
                }
            }
        }
    }

    /// Returns whether the sources differ from those that were last loaded, or noted as saved.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.lock().is_unsaved
    }

    /// Notes that the present sources are stored.
    pub(crate) fn note_saved(&self) {
        self.lock().is_unsaved = false;
    }

    /// Removes sources. Their values stay hidden in all texts.
    pub fn remove(&self, names: &[String]) {
        let mut inner = self.lock();
        let count = inner.sources.len();
        inner.sources.retain(|(known, _)| !names.contains(known));
        inner.is_unsaved |= inner.sources.len() != count;
        inner.resolved.retain(|known, _| !names.contains(known));
    }

    /// Adds only the sources whose names have no value here yet: an agent's own secrets do not replace those of the
    /// conversation.
    pub fn fill(&self, sources: impl IntoIterator<Item = (String, Source)>) {
        let lacks_value = |inner: &Inner, name: &str| match inner.source(name) {
            None | Some(Source::Static { value: StoredSecret::Lost, .. }) => true,
            Some(Source::Static { .. } | Source::Lookup { .. }) => false,
        };
        let wanted: Vec<_> = {
            let inner = self.lock();
            sources.into_iter().filter(|(name, _)| lacks_value(&inner, name)).collect()
        };
        self.update(wanted);
    }

    /// Returns names and descriptions, in the order in which the sources were added.
    #[must_use]
    pub fn infos(&self) -> Vec<Info> {
        let describe = |(name, source): &(String, Source)| Info {
            name: name.clone(),
            description: source.description().map(str::to_owned),
        };
        self.lock().sources.iter().map(describe).collect()
    }

    /// Returns whether there are no sources.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().sources.is_empty()
    }

    /// Returns the present value of that name. Fetches it if it is a [`Source::Lookup`].
    pub async fn value(&self, name: &str) -> Option<Secret> {
        let (source, fetch) = {
            let inner = self.lock();
            (inner.source(name)?.clone(), inner.fetch.clone())
        };
        // The lock is not held while a value is fetched.
        let value = match source {
            Source::Static { value, .. } => value.secret().cloned(),
            Source::Lookup { url, headers, .. } => {
                let headers: Vec<_> = headers
                    .into_iter()
                    .filter_map(|(name, held)| Some((name, held.secret()?.clone())))
                    .collect();
                match fetch {
                    Some(fetch) => fetch(url, headers).await.and_then(Secret::new),
                    None => None,
                }
            }
        };
        let mut inner = self.lock();
        match &value {
            Some(secret) => inner.learn(name, secret.clone()),
            None => {
                inner.failed.insert(name.to_owned(), Instant::now());
            }
        }
        value
    }

    /// Returns the secrets that a command gets in its environment: those whose names appear in its text, in upper or
    /// lower case, and are valid names of a shell variable. Source: `docs/reference/secrets.md#in-commands`.
    pub async fn for_command(&self, command: &str) -> Vec<(String, String)> {
        let lower = command.to_lowercase();
        let named: Vec<String> = {
            let inner = self.lock();
            let names = inner.sources.iter().map(|(name, _)| name);
            names
                .filter(|name| is_shell_name(name) && lower.contains(&name.to_lowercase()))
                .cloned()
                .collect()
        };
        let mut valued = Vec::with_capacity(named.len());
        for name in named {
            if let Some(value) = self.value(&name).await {
                valued.push((name, value.expose().to_owned()));
            }
        }
        valued
    }

    /// Resolves every source that has no known value, so that the mask includes its value. A source that failed is not
    /// asked again for a minute.
    pub async fn resolve(&self) {
        let unresolved: Vec<String> = {
            let inner = self.lock();
            let is_delayed =
                |name: &String| inner.failed.get(name).is_some_and(|at| at.elapsed() < RETRY_AFTER);
            let names = inner.sources.iter().map(|(name, _)| name);
            names.filter(|name| !inner.resolved.contains_key(*name) && !is_delayed(name)).cloned().collect()
        };
        for name in unresolved {
            let _now_in_the_mask = self.value(&name).await;
        }
    }

    /// Returns the text with every value of the registry hidden, also values that no command named. Calls [`resolve`]
    /// first.
    ///
    /// [`resolve`]: Self::resolve
    pub async fn mask(&self, text: &str) -> String {
        self.resolve().await;
        self.mask_known().apply(text).into_owned()
    }

    /// Returns a mask of the values known so far, without fetching any. For texts that are only passed on; stored texts
    /// need [`mask`](Self::mask).
    #[must_use]
    pub fn mask_known(&self) -> Mask {
        self.lock().mask.clone()
    }

    /// Returns one mask of the values that this registry and another know so far.
    #[must_use]
    pub fn mask_known_with(&self, other: &Self) -> Mask {
        let mut values = self.lock().seen.clone();
        values.extend(other.lock().seen.iter().cloned());
        Mask::new(values.iter().map(Secret::expose))
    }

    /// Returns the registry as the base state stores it: `{"secret_sources":{..}}`, sealed, or with stars if there is
    /// no cipher.
    #[must_use]
    pub fn to_json(&self, cipher: Option<&Cipher>) -> String {
        let mut out = Out::default();
        out.open("{");
        out.key("secret_sources");
        out.open("{");
        for (name, source) in &self.lock().sources {
            out.key(name);
            source.write(&mut out, cipher);
        }
        out.close("}");
        out.close("}");
        out.finish()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn source(&self, name: &str) -> Option<&Source> {
        self.sources.iter().find(|(known, _)| known == name).map(|(_, source)| source)
    }

    /// Remembers a value and hides it from now on.
    fn learn(&mut self, name: &str, secret: Secret) {
        self.failed.remove(name);
        if !self.seen.contains(&secret) {
            self.seen.push(secret.clone());
            self.mask = Mask::new(self.seen.iter().map(Secret::expose));
        }
        self.resolved.insert(name.to_owned(), secret);
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.lock().sources.iter().map(|(name, _)| name)).finish()
    }
}

fn is_shell_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn registry(json: &str, cipher: Option<&Cipher>) -> Registry {
        let registry = Registry::default();
        registry.load(Raw::parse(json).unwrap(), cipher).unwrap();
        registry
    }

    const TWO: &str = r#"{"secret_sources":{"TOK":{"description":"d","value":"s3cret","kind":"StaticSecret"},"not-a-name":{"value":"hidden","kind":"StaticSecret"}}}"#;

    #[tokio::test]
    async fn a_command_gets_what_it_names_and_every_value_is_hidden() {
        let registry = registry(TWO, None);
        assert_eq!(
            registry.for_command("echo $tok; not-a-name").await,
            [("TOK".to_owned(), "s3cret".to_owned())]
        );
        assert_eq!(registry.for_command("ls").await, []);
        assert_eq!(registry.mask("s3cret and hidden").await, "<secret-hidden> and <secret-hidden>");
        assert_eq!(format!("{registry:?}"), r#"["TOK", "not-a-name"]"#);
    }

    #[tokio::test]
    async fn a_value_that_was_replaced_is_still_hidden() {
        let registry = registry(TWO, None);
        registry.update([("TOK".to_owned(), Source::given("newer"))]);
        assert_eq!(registry.mask("s3cret newer").await, "<secret-hidden> <secret-hidden>");
    }

    #[tokio::test]
    async fn without_a_key_stars_are_stored_and_a_token_stays_a_token() {
        let plain = registry(TWO, None);
        let stars = TWO.replace("s3cret", "**********").replace("hidden", "**********");
        assert_eq!(plain.to_json(None), stars);
        let cipher = Cipher::new("right", &[]);
        let sealed = plain.to_json(Some(&cipher));
        assert!(!sealed.contains("s3cret") && sealed.contains("gAAAAA"));
        // Without a key or with a wrong key, the token is kept and is not used as the value.
        for wrong in [None, Some(Cipher::new("wrong", &[]))] {
            let kept = registry(&sealed, wrong.as_ref());
            assert_eq!(kept.to_json(wrong.as_ref()), sealed);
            assert_eq!(kept.value("TOK").await, None);
        }
        let opened = registry(&sealed, Some(&cipher));
        assert_eq!(opened.value("TOK").await, Secret::new("s3cret"));
        let lost = registry(&stars, Some(&cipher));
        assert_eq!(lost.value("TOK").await, None);
        lost.fill([("TOK".to_owned(), Source::given("again")), ("NEW".to_owned(), Source::given("n"))]);
        opened.fill([("TOK".to_owned(), Source::given("ignored"))]);
        assert_eq!(
            (lost.value("TOK").await, opened.value("TOK").await),
            (Secret::new("again"), Secret::new("s3cret"))
        );
    }

    #[tokio::test]
    async fn a_looked_up_value_is_fetched_with_its_headers_and_a_failed_one_is_not_asked_again() {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let fetch: Fetch = Arc::new(move |url, headers| {
            counted.fetch_add(1, Ordering::SeqCst);
            assert_eq!((headers[0].0.as_str(), headers[0].1.expose()), ("X-Token", "t"));
            Box::pin(std::future::ready(url.ends_with("good").then(|| "fetched".to_owned())))
        });
        let registry = Registry::new(Some(fetch));
        let json = r#"{"secret_sources":{"A":{"url":"http://h/good","headers":{"X-Token":"t","Accept":"x"},"kind":"LookupSecret"},"B":{"url":"http://h/bad","headers":{"X-Token":"t"},"kind":"LookupSecret"}}}"#;
        registry.load(Raw::parse(json).unwrap(), None).unwrap();
        assert_eq!(registry.mask("a fetched b").await, "a <secret-hidden> b");
        assert_eq!(registry.mask("fetched").await, "<secret-hidden>");
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        assert_eq!(registry.to_json(None), json.replace(r#""t""#, r#""**********""#));
    }

    #[test]
    fn an_invalid_source_is_named_without_its_value() {
        for (json, message) in [
            (r#"{"secret_sources":{"A":5}}"#, "secret \"A\": expected a string or an object"),
            (
                r#"{"secret_sources":{"A":{"kind":"Other"}}}"#,
                "secret \"A\": unknown kind \"Other\"; StaticSecret and LookupSecret are known",
            ),
            (r#"{"secret_sources":{"A":{"kind":"LookupSecret"}}}"#, "secret \"A\": url has to be a string"),
            (r#"{"secret_sources":{"A":{"value":7}}}"#, "secret \"A\": value has to be a string"),
        ] {
            let error = Registry::default().load(Raw::parse(json).unwrap(), None).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
