//! Finds plugins by name in the marketplaces that an agent's settings register.

use serde_json::Value;

use super::marketplace::standalone;
use super::{Fetcher, Marketplace, PluginError, PluginProblem, PluginSource};
use crate::event::Json;
use crate::json::Raw;
use crate::skill::{Names, Skill};

/// The maximum number of marketplaces that an agent may register. Further ones are ignored.
const REGISTRATIONS_MAX: usize = 100;

/// A marketplace that an agent's settings register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The name under which it is registered.
    pub name: String,
    /// The source.
    pub source: PluginSource,
    /// Which of its plugins and skills every conversation has.
    pub auto_load: AutoLoad,
}

/// Which plugins and skills of a marketplace every conversation has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AutoLoad {
    /// Nothing.
    #[default]
    Nothing,
    /// Everything.
    Everything,
    /// The plugins and skills of these names.
    These(Vec<String>),
}

/// The registered marketplaces, and a cache of those that were fetched.
#[derive(Debug, Clone, Default)]
pub struct Marketplaces {
    registered: Vec<Registration>,
    fetched: Vec<(String, Marketplace, bool)>,
}

impl Registration {
    /// Reads the reference's JSON object.
    ///
    /// # Errors
    /// The reason if the object is invalid.
    pub fn of(value: &Value) -> Result<Self, String> {
        let members = value.as_object().ok_or("a marketplace must be an object")?;
        let name = members.get("name").and_then(Value::as_str).ok_or("a marketplace needs a name")?;
        let source =
            PluginSource::of_members(members).map_err(|(member, problem)| format!("{member}: {problem}"))?;
        let auto_load = match members.get("auto_load") {
            None | Some(Value::Null | Value::Bool(false)) => AutoLoad::Nothing,
            Some(Value::Bool(true)) => AutoLoad::Everything,
            Some(Value::Array(names)) => {
                let names = names.iter().map(|name| name.as_str().map(str::to_owned));
                AutoLoad::These(names.collect::<Option<_>>().ok_or("auto_load is no list of names")?)
            }
            Some(_) => return Err("auto_load is neither a flag nor a list of names".to_owned()),
        };
        Ok(Self { name: name.to_owned(), source, auto_load })
    }

    /// Reads the registrations in an agent's `agent_context`. Invalid ones are skipped.
    #[must_use]
    pub fn read_all(context: Raw<'_>) -> Vec<Self> {
        let list = context.get("registered_marketplaces").into_iter().flat_map(Raw::elements);
        let read =
            list.take(REGISTRATIONS_MAX).filter_map(|entry| Self::of(&Json::from(entry).to_value()).ok());
        let mut registered: Vec<Self> = Vec::new();
        for registration in read {
            if registered.iter().all(|known| known.name != registration.name) {
                registered.push(registration);
            }
        }
        registered
    }

    fn wants(&self, name: &str) -> bool {
        match &self.auto_load {
            AutoLoad::Nothing => false,
            AutoLoad::Everything => true,
            AutoLoad::These(names) => names.iter().any(|wanted| wanted == name),
        }
    }
}

impl Marketplaces {
    /// Makes the object for these registrations. Secrets must be put into their sources before. Nothing is fetched yet.
    #[must_use]
    pub fn new(registered: Vec<Registration>) -> Self {
        Self { registered, fetched: Vec::new() }
    }

    /// Returns whether no marketplace is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    /// Finds the source of a plugin by its reference: `name`, or `name@marketplace`.
    ///
    /// # Errors
    /// [`PluginError::Ambiguous`] if several marketplaces have it or the reference is invalid,
    /// [`PluginError::NotFound`], [`PluginError::NoMarketplace`], and the errors of fetching.
    pub async fn resolve(&mut self, reference: &str, fetcher: &Fetcher) -> Result<PluginSource, PluginError> {
        if reference.is_empty() {
            return Err(PluginError::Ambiguous("Plugin reference must not be empty".to_owned()));
        }
        if let Some((name, marketplace)) = reference.rsplit_once('@') {
            if name.is_empty() || marketplace.is_empty() {
                let problem = "Plugin reference must use 'plugin-name@marketplace-name'";
                return Err(PluginError::Ambiguous(problem.to_owned()));
            }
            let known = self.registered.iter().find(|known| known.name == marketplace).cloned();
            let known = known.ok_or_else(|| PluginError::NoMarketplace(marketplace.to_owned()))?;
            let (found, is_own) = self.fetched(&known, fetcher).await?;
            let not_found =
                || PluginError::NotFound(format!("Plugin '{name}' not found in marketplace '{marketplace}'"));
            return found.source(found.plugin(name).ok_or_else(not_found)?, is_own);
        }
        let (mut matches, mut failures, mut searched) = (Vec::new(), Vec::new(), 0);
        for known in self.registered.clone() {
            match self.fetched(&known, fetcher).await {
                Ok((found, is_own)) => {
                    searched += 1;
                    if let Some(plugin) = found.plugin(reference) {
                        matches.push((known.name, found.source(plugin, is_own)?));
                    }
                }
                Err(error) => failures.push(format!("{}: {error}", known.name)),
            }
        }
        match matches.as_slice() {
            [(_, source)] => Ok(source.clone()),
            [] if searched == 0 && !failures.is_empty() => Err(PluginError::NotFound(format!(
                "Plugin '{reference}' not found; marketplace fetch failed: {}",
                failures.join("; ")
            ))),
            [] => Err(PluginError::NotFound(format!(
                "Plugin '{reference}' not found in any registered marketplace"
            ))),
            several => {
                let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
                Err(PluginError::Ambiguous(format!(
                    "Plugin '{reference}' is ambiguous; found in multiple marketplaces: {}. Use \
                     '{reference}@<marketplace-name>'.",
                    names.join(", ")
                )))
            }
        }
    }

    /// Returns the plugins and skills that every conversation has. A marketplace that cannot be fetched or read is a
    /// problem, and so is an invalid plugin or skill.
    pub async fn auto_loaded(
        &mut self,
        fetcher: &Fetcher,
    ) -> (Vec<PluginSource>, Vec<Skill>, Vec<PluginProblem>) {
        let (mut sources, mut skills, mut problems) = (Vec::new(), Vec::<Skill>::new(), Vec::new());
        for known in self.registered.clone() {
            if matches!(&known.auto_load, AutoLoad::Nothing) {
                continue;
            }
            let (found, is_own) = match self.fetched(&known, fetcher).await {
                Ok((found, is_own)) => (found.clone(), is_own),
                Err(error) => {
                    problems.push(error.into());
                    continue;
                }
            };
            for plugin in found.plugins.iter().filter(|plugin| known.wants(&plugin.name)) {
                match found.source(plugin, is_own) {
                    Ok(source) => sources.push(source),
                    Err(error) => problems.push(error.into()),
                }
            }
            for entry in found.skills.iter().filter(|entry| known.wants(&entry.name)) {
                match skill(&found, entry, fetcher).await {
                    Ok(skill) if skills.iter().any(|known| known.name == skill.name) => {}
                    Ok(skill) => skills.push(skill),
                    Err(error) => problems.push(error.into()),
                }
            }
        }
        (sources, skills, problems)
    }

    /// Returns a marketplace, and whether it is a folder of this machine. Fetches it only once.
    async fn fetched(
        &mut self,
        known: &Registration,
        fetcher: &Fetcher,
    ) -> Result<(&Marketplace, bool), PluginError> {
        let place = match self.fetched.iter().position(|(name, ..)| *name == known.name) {
            Some(place) => place,
            None => {
                let fetched = fetcher.fetch(&known.source, &[]).await?;
                let marketplace = Marketplace::read(&fetched.folder, &known.name)?;
                self.fetched.push((known.name.clone(), marketplace, fetched.commit.is_none()));
                self.fetched.len() - 1
            }
        };
        let (_, marketplace, is_own) = &self.fetched[place];
        Ok((marketplace, *is_own))
    }
}

/// Fetches and reads a skill of a marketplace.
async fn skill(
    marketplace: &Marketplace,
    entry: &super::SkillEntry,
    fetcher: &Fetcher,
) -> Result<Skill, PluginError> {
    let not_found =
        || PluginError::Skill(format!("{}: there is no such folder with a SKILL.md", entry.source));
    let (folder, root) = match entry.repository() {
        Some(source) => {
            let folder = fetcher.fetch(&source, &[]).await?.folder;
            (folder.clone(), folder)
        }
        None => (entry.folder(&marketplace.folder).ok_or_else(not_found)?, marketplace.folder.clone()),
    };
    let read = standalone(&folder, &root, Names::Loose).ok_or_else(not_found)?;
    read.map_err(|problem| PluginError::Skill(problem.to_string()))
}
