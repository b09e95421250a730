//! The common parts of all conversations of this server.

use std::sync::Arc;
use std::time::Duration;

use super::App;
use super::metrics::Work;
use super::notice;
use super::piece;
use super::plan::Plan;
use super::secrets;
use super::watched::watched;
use crate::conversation::{Builder, Conversation, Host, ModelMaker, OnPause, StateUpdates};
use crate::ids::ConversationId;
use crate::llm::{ClientOptions, LlmError, Model, Plain, Settings, Transport};
use crate::secret::Cipher;
use crate::secret::registry::Fetch;
use crate::server::config::Config;
use crate::server::http::failure::Failure;
use crate::store::Store;
use crate::tool::Registry;

/// How long the lookup of a secret may take; the reference's value.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(30);

/// The path of the secrets that this server stores, as clients name it.
const OWN_SECRETS: &str = "/api/settings/secrets/";

/// The maximum size of a looked-up value, in bytes.
const LOOKUP_BYTES_MAX: usize = 1 << 20;

/// The parts with which every conversation of this server is opened.
pub(in crate::server) struct Opening {
    /// The store and its threads.
    pub host: Host,
    /// The cipher that seals secrets.
    pub cipher: Option<Cipher>,
    /// The tools that agents may name.
    pub registry: Registry,
    transport: Transport,
    /// The options of the models' clients.
    models: ClientOptions,
    /// Where the calls of models are counted.
    work: Arc<Work>,
    fetch: Fetch,
}

impl Opening {
    /// Makes the parts for conversations in this store. Secrets may be looked up at the configured origins only, or
    /// anywhere if no origin is configured. Secrets that this server stores may always be looked up.
    ///
    /// # Errors
    /// [`LlmError`] if no request can be sent because TLS is not available.
    pub fn new(store: Store, config: &Config, work: Arc<Work>) -> Result<Self, LlmError> {
        let transport = Transport::new()?;
        let cipher = config.cipher.clone();
        Ok(Self {
            models: ClientOptions::new(transport.clone()),
            work,
            fetch: fetch(transport.clone(), config),
            transport,
            host: Host::new(store),
            cipher,
            registry: Registry::builtin(),
        })
    }

    /// Returns the function that looks up secrets.
    pub fn fetch(&self) -> Fetch {
        Arc::clone(&self.fetch)
    }

    /// Returns the transport for requests to other servers.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Returns the client of the model that these settings name.
    ///
    /// # Errors
    /// [`LlmError`] if no provider serves such a model.
    pub fn model(&self, settings: &Settings) -> Result<Arc<dyn Model>, LlmError> {
        watched(settings, &self.models, &self.work, None)
    }

    /// Opens or creates a conversation.
    ///
    /// # Errors
    /// An error of the plan, the store or the file system.
    pub async fn open(&self, app: &App, id: &ConversationId, plan: Plan) -> Result<Conversation, Failure> {
        let (options, work, named) = (self.models.clone(), Arc::clone(&self.work), id.clone());
        let waiting = id.clone();
        let models: ModelMaker =
            Arc::new(move |settings: &Settings| watched(settings, &options, &work, Some(named.clone())));
        let mut builder: Builder = Conversation::builder()
            .host(&self.host)
            .id(id.clone())
            .keep_dir(app.config().conversations_dir.join(id.folder_name()))
            .models(models)
            .registry(self.registry.clone())
            .fetch(Arc::clone(&self.fetch))
            .on_delta(piece::publisher(app.hub(), id))
            .on_wait(Arc::new(move |reason| notice::run_waits(&waiting, reason)))
            .on_pause(OnPause::FinishStep)
            .ambient_plugins(app.config().ambient_plugins)
            .state_updates(StateUpdates::On);
        if let Some(home) = &app.config().person_dir {
            builder = builder.home(home);
        }
        if let Some(cipher) = &self.cipher {
            builder = builder.cipher(cipher.clone());
        }
        Ok(plan.set(builder)?.open().await?)
    }
}

/// Returns the function that looks up secrets. It sends a GET to an allowed origin, and the answer is the value. If the
/// URL is the path of a secret that this server stores, the secret is read from the server's own file.
fn fetch(transport: Transport, config: &Config) -> Fetch {
    let (origins, folder) = (config.lookup_origins.clone(), config.settings_dir.clone());
    let cipher = config.cipher.clone();
    Arc::new(move |url, headers| {
        let own = url.strip_prefix(OWN_SECRETS).map(str::to_owned);
        let (folder, cipher) = (folder.clone(), cipher.clone());
        let is_allowed = origins.is_empty() || origins.iter().any(|origin| is_within(&url, origin));
        let transport = transport.clone();
        Box::pin(async move {
            if let Some(name) = own {
                let read =
                    tokio::task::spawn_blocking(move || secrets::read(&folder, &name, cipher.as_ref()));
                return read.await.ok().flatten();
            }
            if !is_allowed {
                return None;
            }
            let headers: Vec<(String, String)> =
                headers.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
            let plain =
                Plain { headers, patience: LOOKUP_PATIENCE, bytes_max: LOOKUP_BYTES_MAX, ..Plain::get(url) };
            let answer = transport.send(plain).await.ok()?;
            (200..300).contains(&answer.status).then(|| String::from_utf8(answer.body).ok()).flatten()
        })
    })
}

/// Returns whether a URL belongs to an origin. Its scheme, host and port must be equal; a common prefix is not enough.
fn is_within(url: &str, origin: &str) -> bool {
    let origin = origin.trim_end_matches('/');
    let rest = url
        .get(..origin.len())
        .filter(|start| start.eq_ignore_ascii_case(origin))
        .map(|_| &url[origin.len()..]);
    // `http://host@elsewhere` and `http://host.elsewhere` have the same prefix.
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::is_within;

    #[test]
    fn an_address_with_the_prefix_of_an_origin_does_not_belong_to_it() {
        let origin = "https://vault.example:8443";
        assert!(is_within("https://vault.example:8443/v1/key?x=1", origin));
        assert!(is_within("HTTPS://Vault.example:8443", origin));
        for other in [
            "https://vault.example:84430/",
            "https://vault.example:8443@elsewhere.example/",
            "https://vault.example:8443.elsewhere.example/",
            "http://vault.example:8443/",
            "https://vault",
        ] {
            assert!(!is_within(other, origin), "{other}");
        }
    }
}
