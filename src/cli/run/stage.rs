//! Opens conversations with their agent, model, keys and secrets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::screen::Screen;
use super::way::{Folder, Remote};
use super::{Arguments, Trouble};
use crate::agent::{AgentDocument, Analyzer, Policy};
use crate::cli::Place;
use crate::cli::near;
use crate::cli::print::tell;
use crate::cli::settings::{
    Confirm, Extras, Found, Model, Origin, Settings, cipher, home, provider_key, provider_variable,
};
use crate::conversation::{
    AnyConversation, Builder, Conversation, ConversationError, Host, ModelMaker, Obstacle,
};
use crate::event::Json;
use crate::hook;
use crate::ids::{ConversationId, EventId, Sequence};
use crate::json::Raw;
use crate::llm::profiles::Profiles;
use crate::llm::{Client, ClientOptions, Settings as Llm};
use crate::plugin::PluginSource;
use crate::remote::Server;
use crate::secret::{Source, StoredSecret};
use crate::store::Options;
use crate::tool::Spec;
use crate::untrusted;

/// The usage ids of the agent's and the condenser's model calls. These are the reference's names.
const AGENT_USE: &str = "agent";
const CONDENSER_USE: &str = "condenser";

/// The number of first events that a condenser keeps. This is the reference's number.
const KEEP_FIRST: u64 = 2;

/// The database, the server and the settings that a command uses.
pub(super) struct Stage<'a> {
    place: &'a Place<'a>,
    pub host: Host,
    /// The server that runs the conversations, if they do not run here.
    server: Option<Server>,
    found: Found,
    /// Whether this command made the database.
    is_new: bool,
    /// The folder to work in, instead of the one that a conversation had.
    folder: Option<PathBuf>,
}

impl<'a> Stage<'a> {
    /// Opens the database. If it is missing, `create` makes it. For a server, an empty store in memory is used instead.
    pub(super) fn new(
        place: &'a Place<'a>,
        remote: &Remote,
        flags: &Model,
        create: bool,
    ) -> Result<Self, Trouble> {
        let found = Found::read(flags).map_err(Trouble::refused)?;
        let server = server(remote)?;
        let is_new = server.is_none() && !place.path.exists();
        let store = match &server {
            Some(_) => crate::Store::in_memory(&Options::default())?,
            None => place.open(&Options { create, ..Options::default() })?,
        };
        Ok(Self { place, host: Host::new(store), server, found, is_new, folder: None })
    }

    /// Sets the folder to work in, if one was typed.
    pub(super) fn in_folder(mut self, folder: &Folder) -> Self {
        self.folder.clone_from(&folder.workspace);
        self
    }

    fn settings(&self) -> &Settings {
        &self.found.settings
    }

    /// Makes a new conversation for a task.
    pub(super) async fn begin(
        &self,
        command: &Arguments,
        screen: Option<&Arc<Screen>>,
    ) -> Result<AnyConversation, Trouble> {
        let agent = self.new_agent()?;
        self.check_model(&self.llm()?)?;
        let mut builder = self
            .builder(&ConversationId::mint(), screen)
            .agent(agent)
            .plugins(command.plugins.iter().map(|plugin| source(plugin)))
            .confirmation_policy(policy(self.settings().confirm))
            .tags(tags(&command.tags)?);
        if let Some(analyzer) = analyzer(self.settings().confirm) {
            builder = builder.security_analyzer(analyzer);
        }
        for (name, source) in secrets(&command.secrets)? {
            builder = builder.secret(name, source);
        }
        if let Some(file) = &command.hooks {
            let text = untrusted::open_named(file)
                .and_then(std::io::read_to_string)
                .map_err(|error| Trouble::refused(format!("{} cannot be read: {error}", file.display())))?;
            builder = builder.hooks(hook::Config::parse(&text).map_err(Trouble::refused)?);
        }
        let folder = command.workspace.as_deref();
        match &self.server {
            Some(server) => {
                let server = match folder {
                    Some(folder) => server.clone().working_dir(folder.to_string_lossy()),
                    None => server.clone(),
                };
                Ok(builder.open_in(server).await?)
            }
            None => {
                let folder = folder.unwrap_or(Path::new("."));
                if let Some(warning) = near::warning(self.place.path, folder).filter(|_| self.is_new) {
                    tell(format_args!("annals: {warning}"));
                }
                Ok(builder.open_in(folder).await?)
            }
        }
    }

    /// Refuses a model that cannot be asked, before anything is stored. Sends no request.
    fn check_model(&self, llm: &Llm) -> Result<(), Trouble> {
        if self.server.is_some() {
            return Ok(()); // the server may have the key, and other models
        }
        if let Some(provider) = llm.without_key() {
            let variable = provider_variable(&llm.model);
            return Err(Trouble::Refused {
                what: format!("no API key for {provider}, the provider of {}", llm.model),
                hint: Some(format!("set {variable} or LLM_API_KEY, or use a --profile that has one")),
            });
        }
        self.models(None)(llm).map_err(ConversationError::from)?;
        Ok(())
    }

    /// Returns the function that makes models. A call that is tried again is shown on the screen.
    fn models(&self, screen: Option<&Arc<Screen>>) -> ModelMaker {
        let host = self.host.clone();
        let screen = screen.map(Arc::clone);
        Arc::new(move |llm| {
            let mut options = ClientOptions::new(host.transport()?);
            if let Some(screen) = screen.clone() {
                options = options.on_retry(Arc::new(move |retry| screen.retry(retry)));
            }
            Ok(Arc::new(Client::new(llm.clone(), &options)?))
        })
    }

    /// Makes an agent of the settings.
    fn new_agent(&self) -> Result<AgentDocument, Trouble> {
        let llm = self.llm()?;
        let tools: Vec<Spec> = self.settings().tools.iter().map(|name| Spec::new(name.as_str())).collect();
        let json = |llm: &Llm| Json::from(Raw::checked(&llm.to_plain_json()));
        let mut agent = AgentDocument::new(&json(&llm), &tools);
        if self.settings().condense_at > 0 {
            let condenser = Llm { usage_id: CONDENSER_USE.into(), stream: false, ..llm };
            let text = format!(
                r#"{{"llm":{},"max_size":{},"keep_first":{KEEP_FIRST},"kind":"LLMSummarizingCondenser"}}"#,
                condenser.to_plain_json(),
                self.settings().condense_at,
            );
            agent = agent.with("condenser", Some(&Json::from(Raw::checked(&text))));
        }
        if self.settings().extras != Extras::None {
            let context = Raw::checked(
                r#"{"skills":[],"load_user_skills":true,"load_project_skills":true,"load_memory":true}"#,
            );
            agent = agent.with("agent_context", Some(&Json::from(context)));
        }
        Ok(agent)
    }

    /// Opens an existing conversation with the model of the command line, or else with its own model and a key for it.
    pub(super) async fn again(
        &self,
        prefix: &str,
        screen: Option<&Arc<Screen>>,
    ) -> Result<AnyConversation, Trouble> {
        let conversation = match &self.server {
            Some(server) => self.again_at(server, prefix, screen).await?,
            None => self.again_here(prefix, screen).await?.into(),
        };
        if self.typed("confirm") {
            let confirm = self.settings().confirm;
            // Without the analyzer, the policy would ask about every action, or trust the analyzer of another program.
            if let Some(analyzer) = analyzer(confirm) {
                conversation.set_security_analyzer(Some(analyzer)).await?;
            }
            conversation.set_confirmation_policy(policy(confirm)).await?;
        }
        Ok(conversation)
    }

    /// Opens a conversation of a server with the model of the command line, or else with its own model.
    async fn again_at(
        &self,
        server: &Server,
        id: &str,
        screen: Option<&Arc<Screen>>,
    ) -> Result<AnyConversation, Trouble> {
        let id = ConversationId::new(id).map_err(Trouble::refused)?;
        let conversation = self.builder(&id, screen).open_at(server).await;
        let conversation = conversation.map_err(|error| match error {
            // The server has no such conversation, and without an agent it makes none.
            ConversationError::NoAgent => {
                let unknown = crate::Error::UnknownConversation { conversation: id.to_string() };
                Trouble::Store(unknown)
            }
            other => other.into(),
        })?;
        if self.is_model_typed() {
            let llm = self.llm()?;
            conversation.switch_llm(&Json::from(Raw::checked(&llm.to_plain_json()))).await?;
        }
        Ok(conversation.into())
    }

    /// Opens a conversation of the database.
    pub(super) async fn again_here(
        &self,
        prefix: &str,
        screen: Option<&Arc<Screen>>,
    ) -> Result<Conversation, Trouble> {
        let id = self.host.store().resolve(prefix)?;
        self.check_runnable(&id)?;
        let state = self.host.store().base_state(&id)?;
        let document = state.as_ref().map(|state| &state.document);
        let raw = document.and_then(|document| document.field("agent"));
        let mut builder = self.builder(&id, screen);
        let agent = match raw {
            Some(raw) => {
                Some(AgentDocument::parse(raw.text()).map_err(crate::conversation::ConversationError::from)?)
            }
            None => None,
        };
        builder = match agent {
            Some(agent) => {
                let agent = self.with_keys(&agent)?;
                if let (Some(llm), Some(_)) = (agent.llm(), screen) {
                    self.check_model(&Llm::from_raw(llm).map_err(Trouble::refused)?)?;
                }
                builder.agent(agent)
            }
            // Its record names no agent, so it gets one with the typed model.
            None => builder.agent(self.new_agent()?),
        };
        let folder = document.and_then(|document| document.field("workspace"));
        if let Some(folder) = folder.and_then(|folder| folder.get("working_dir")?.as_text()) {
            builder = builder.workspace(PathBuf::from(&*folder));
        }
        if let Some(folder) = &self.folder {
            builder = builder.workspace(folder.clone());
        }
        Ok(builder.open().await?)
    }

    /// Refuses a conversation that lacks something that the command line does not give.
    fn check_runnable(&self, id: &ConversationId) -> Result<(), Trouble> {
        let mut missing = Obstacle::all(self.host.store(), id)?;
        missing.retain(|obstacle| match obstacle {
            // The store's error says what can be done with a copy.
            Obstacle::Copy(_) => false,
            Obstacle::NoAgent => !self.is_model_typed(),
            Obstacle::NoFolder(_) => self.folder.is_none(),
        });
        if missing.is_empty() {
            return Ok(());
        }
        let (what, options) = (Obstacle::describe(&missing), Obstacle::options(&missing));
        Err(Trouble::Refused {
            what: format!("{id} cannot go on as it is: {what}"),
            hint: Some(format!(
                "`annals{} resume {id} {options}` gives what is missing",
                self.place.option()
            )),
        })
    }

    /// Finds an event by its sequence or by the start of its id.
    pub(super) fn event(&self, id: &ConversationId, text: &str) -> Result<EventId, Trouble> {
        let store = self.host.store();
        if let Ok(sequence) = text.parse() {
            let mut found = None;
            store.scan(id, Sequence(sequence), |event| {
                found = Some(EventId::new(event.id)?);
                Ok(false)
            })?;
            return found.ok_or_else(|| Trouble::refused(format!("{id} has no event {text}")));
        }
        Ok(store.resolve_event(id, text)?)
    }

    fn is_model_typed(&self) -> bool {
        ["model", "profile", "base_url"].iter().any(|name| self.typed(name))
    }

    fn typed(&self, name: &str) -> bool {
        self.found.origin(name) == Origin::CommandLine
    }

    fn builder(&self, id: &ConversationId, screen: Option<&Arc<Screen>>) -> Builder {
        let mut builder =
            Conversation::builder().id(id.clone()).max_iterations(self.settings().max_iterations);
        if self.server.is_none() {
            let keep_dir = super::keep_dir(self.place.path).join(id.folder_name());
            builder = builder.host(&self.host).keep_dir(keep_dir).models(self.models(screen));
        }
        if let Some(budget) = self.settings().max_budget {
            builder = builder.max_budget(budget);
        }
        if let Some(cipher) = cipher() {
            builder = builder.cipher(cipher);
        }
        builder = builder.ambient_plugins(self.settings().extras.ambient_plugins());
        if let Some(home) = home().filter(|_| self.settings().extras != Extras::None) {
            builder = builder.home(home);
        }
        if let Some(screen) = screen {
            let (shown, streamed) = (Arc::clone(screen), Arc::clone(screen));
            builder = builder
                .callback(Arc::new(move |event| shown.event(event)))
                .on_delta(Arc::new(move |item, delta| streamed.delta(item, delta)));
        }
        builder
    }

    /// Returns the model that the settings name.
    fn llm(&self) -> Result<Llm, Trouble> {
        let settings = self.settings();
        // A setting overrides the profile's value, unless its origin is weaker than the origin of the profile's name.
        let overrides = |name: &str| {
            settings.profile.is_none() || self.found.origin(name) >= self.found.origin("profile")
        };
        let mut llm = match (&settings.profile, &settings.model) {
            (Some(profile), _) => Profiles::open(&settings.profiles_dir)
                .and_then(|profiles| profiles.load(profile, cipher().as_ref()))
                .map_err(Trouble::refused)?,
            (None, Some(model)) => Llm::new(model),
            (None, None) => {
                return Err(Trouble::Refused {
                    what: "which model is to be asked?".to_owned(),
                    hint: Some(
                        "use --model PROVIDER/NAME, or set it in the file that `annals config` shows"
                            .to_owned(),
                    ),
                });
            }
        };
        if let Some(model) = settings.model.as_deref().filter(|_| overrides("model")) {
            llm.model = model.into();
        }
        if let Some(url) = settings.base_url.as_deref().filter(|_| overrides("base_url")) {
            llm.base_url = Some(url.into());
        }
        if let Some(key) = settings.api_key.as_deref().filter(|_| overrides("api_key")) {
            llm.api_key = Some(StoredSecret::read(key, None));
        }
        llm.usage_id = AGENT_USE.into();
        llm.stream = true;
        Ok(with_key(llm, settings))
    }

    /// Returns the agent with the model of the command line, or else with its own model. Adds keys that are not stored.
    fn with_keys(&self, agent: &AgentDocument) -> Result<AgentDocument, Trouble> {
        let typed = self.is_model_typed();
        let Some(llm) = agent.llm() else { return Ok(agent.clone()) };
        let llm = if typed { self.llm()? } else { self.stored_llm(llm)? };
        let mut agent = agent.with("llm", Some(&Json::from(Raw::checked(&llm.to_plain_json()))));
        // Like an agent, a condenser is an object with a model.
        let condenser = agent.condenser().and_then(|condenser| AgentDocument::parse(condenser.text()).ok());
        if let Some((condenser, own)) = condenser.as_ref().and_then(|known| Some((known, known.llm()?))) {
            let own = if typed {
                Llm { usage_id: CONDENSER_USE.into(), stream: false, ..llm }
            } else {
                self.stored_llm(own)?
            };
            let condenser = condenser.with("llm", Some(&Json::from(Raw::checked(&own.to_plain_json()))));
            agent = agent.with("condenser", Some(condenser.json()));
        }
        Ok(agent)
    }

    /// Reads a stored model and opens or adds its key.
    fn stored_llm(&self, llm: Raw<'_>) -> Result<Llm, Trouble> {
        let mut llm = Llm::from_raw(llm).map_err(Trouble::refused)?;
        if let Some(cipher) = cipher() {
            llm.open(&cipher);
        }
        Ok(with_key(llm, self.settings()))
    }
}

/// Adds a key to a model without one, if the settings or the provider's variable have a key.
fn with_key(mut llm: Llm, settings: &Settings) -> Llm {
    if llm.api_key.as_ref().is_none_or(|key| key.secret().is_none()) {
        let key = settings.api_key.clone().or_else(|| provider_key(&llm.model).map(|(_, key)| key));
        llm.api_key = key.map(|key| StoredSecret::read(&key, None)).or(llm.api_key);
    }
    llm
}

/// Returns the server of the command line, with the key of the given variable.
fn server(remote: &Remote) -> Result<Option<Server>, Trouble> {
    let Some(address) = &remote.server else { return Ok(None) };
    let server = Server::new(address).map_err(Trouble::refused)?;
    Ok(Some(server.key(&std::env::var(&remote.api_key).unwrap_or_default())))
}

fn policy(confirm: Confirm) -> Policy {
    match confirm {
        Confirm::Never => Policy::Never,
        Confirm::Risky => Policy::risky(),
        Confirm::Always => Policy::Always,
    }
}

/// Returns the analyzer that a policy needs. `None` if the policy does not depend on the risk.
fn analyzer(confirm: Confirm) -> Option<Analyzer> {
    if confirm != Confirm::Risky {
        return None;
    }
    // A model may give no risk. But if the patterns cannot judge a command, the model's word does not do.
    let known =
        Analyzer::Ensemble { analyzers: vec![Analyzer::Pattern, Analyzer::Llm], propagate_unknown: false };
    Some(Analyzer::Ensemble { analyzers: vec![Analyzer::Pattern, known], propagate_unknown: true })
}

/// Returns a plugin's source as the user typed it. The text after the `#` of a repository is its branch, tag or commit.
fn source(text: &str) -> PluginSource {
    let is_folder = text.starts_with(['/', '.', '~']);
    match text
        .rsplit_once('#')
        .filter(|(source, reference)| !is_folder && !source.is_empty() && !reference.is_empty())
    {
        Some((source, reference)) => {
            PluginSource { reference: Some(reference.to_owned()), ..PluginSource::new(source) }
        }
        None => PluginSource::new(text),
    }
}

fn tags(given: &[String]) -> Result<Vec<(String, String)>, Trouble> {
    let tag = |text: &String| {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| Trouble::refused(format!("a tag must be TAG=VALUE, not {text}")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    given.iter().map(tag).collect()
}

/// Reads secrets from environment variables: `NAME`, or `NAME=VARIABLE`.
pub(super) fn secrets(given: &[String]) -> Result<Vec<(String, Source)>, Trouble> {
    let secret = |text: &String| {
        let (name, variable) = text.split_once('=').unwrap_or((text, text));
        let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| Trouble::refused(format!("the variable {variable} is not set")))?;
        Ok((name.to_owned(), Source::given(&value)))
    };
    given.iter().map(secret).collect()
}

/// Returns the model that the settings name, to save it as a profile.
pub(super) fn llm_of(found: Found, place: &Place<'_>) -> Result<Llm, Trouble> {
    let host = Host::new(crate::Store::in_memory(&Options::default())?);
    Stage { place, host, server: None, found, is_new: false, folder: None }.llm()
}

/// Returns the task of the command line. If it is `-`, reads the task from standard input.
pub(super) fn task(typed: &str) -> Result<String, Trouble> {
    let text = if typed == "-" {
        std::io::read_to_string(std::io::stdin()).map_err(crate::Error::io("reading", "standard input"))?
    } else {
        typed.to_owned()
    };
    if text.trim().is_empty() { Err(Trouble::refused("the task is empty")) } else { Ok(text) }
}
