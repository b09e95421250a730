//! What every conversation of this server is opened with, whatever it is.

use std::sync::Arc;
use std::time::Duration;

use super::App;
use super::config::Config;
use super::failure::Failure;
use super::piece;
use super::plan::Plan;
use super::settings::secrets;
use crate::conversation::{Builder, Conversation, Host, ModelMaker, OnPause, StateUpdates};
use crate::ids::ConversationId;
use crate::llm::{Client, ClientOptions, LlmError, Model, Plain, Settings, Transport};
use crate::secret::Cipher;
use crate::secret::registry::Fetch;
use crate::store::Store;
use crate::tool::Registry;

/// How long looking a secret up may take; the reference's figure.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(30);

/// Where the secrets lie that this server keeps, as clients name it.
const OWN_SECRETS: &str = "/api/settings/secrets/";

/// The longest value that is looked up, in bytes.
const LOOKUP_BYTES_MAX: usize = 1 << 20;

/// What every conversation of this server is opened with.
pub(super) struct Opening {
    /// The store and its threads.
    pub host: Host,
    /// What seals secrets.
    pub cipher: Option<Cipher>,
    /// The tools that agents may name.
    pub registry: Registry,
    transport: Transport,
    /// What the clients of models are made with.
    models: ClientOptions,
    fetch: Fetch,
}

impl Opening {
    /// Of conversations in this store. Secrets may be looked up at the configured origins only, anywhere where there are
    /// none, and always among those that this server keeps.
    ///
    /// # Errors
    /// [`LlmError`] where nothing can travel: there is no TLS.
    pub fn new(store: Store, config: &Config) -> Result<Self, LlmError> {
        let transport = Transport::new()?;
        let cipher = config.cipher.clone();
        Ok(Self {
            models: ClientOptions::new(transport.clone()),
            fetch: fetch(transport.clone(), config),
            transport,
            host: Host::new(store),
            cipher,
            registry: Registry::builtin(),
        })
    }

    /// How secrets are looked up.
    pub fn fetch(&self) -> Fetch {
        Arc::clone(&self.fetch)
    }

    /// What requests to others travel by.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The client of the model that these settings name.
    ///
    /// # Errors
    /// [`LlmError`] where nobody serves such a model.
    pub fn model(&self, settings: &Settings) -> Result<Arc<dyn Model>, LlmError> {
        Ok(Arc::new(Client::new(settings.clone(), &self.models)?))
    }

    /// Opens or makes a conversation.
    ///
    /// # Errors
    /// What the plan, the store or the file system object to.
    pub async fn open(&self, app: &App, id: &ConversationId, plan: Plan) -> Result<Conversation, Failure> {
        let options = self.models.clone();
        let models: ModelMaker = Arc::new(move |settings: &Settings| -> Result<Arc<dyn Model>, LlmError> {
            Ok(Arc::new(Client::new(settings.clone(), &options)?))
        });
        let mut builder: Builder = Conversation::builder()
            .host(&self.host)
            .id(id.clone())
            .keep_dir(app.config().conversations_dir.join(id.folder_name()))
            .models(models)
            .registry(self.registry.clone())
            .fetch(Arc::clone(&self.fetch))
            .on_delta(piece::publisher(app.hub(), id))
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

/// How secrets are looked up: a GET whose answer is the value, from origins that are allowed; one that this server keeps is
/// read where it lies, under the path that clients know it by.
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

/// Whether a URL is of an origin: scheme, host and port, and not just a beginning of them.
fn is_within(url: &str, origin: &str) -> bool {
    let origin = origin.trim_end_matches('/');
    let rest = url
        .get(..origin.len())
        .filter(|start| start.eq_ignore_ascii_case(origin))
        .map(|_| &url[origin.len()..]);
    // `http://host@elsewhere` and `http://host.elsewhere` begin like it too.
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::is_within;

    #[test]
    fn an_origin_is_more_than_the_beginning_of_an_address() {
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
