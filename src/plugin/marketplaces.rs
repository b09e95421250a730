//! Finds plugins by name in the marketplaces that an agent's settings register: for the plugins that a conversation
//! loads by itself, and for `POST /api/conversations/{id}/load_plugin`.

use std::fmt;

use serde_json::Value;

use super::marketplace::standalone;
use super::{Fetcher, Marketplace, PluginError, PluginProblem, PluginSource};
use crate::event::Json;
use crate::json::Raw;
use crate::skill::{Names, Skill};

/// The maximum number of marketplaces that an agent may register. Further ones are left out.
const REGISTRATIONS_MAX: usize = 100;

/// The member of an agent's `agent_context` with its registrations.
const REGISTERED: &str = "registered_marketplaces";

/// A marketplace that an agent's settings register.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registration {
    /// The name under which it is registered.
    pub name: String,
    /// The source.
    pub source: PluginSource,
    /// Which of its plugins and skills every conversation has.
    pub auto_load: AutoLoad,
}

impl Registration {
    /// Registers a source under a name. Nothing of it is loaded by itself.
    #[must_use]
    pub fn new(name: impl Into<String>, source: PluginSource) -> Self {
        Self { name: name.into(), source, auto_load: AutoLoad::Nothing }
    }
}

setters!(Registration { name, source, auto_load: AutoLoad });

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
#[derive(Clone, Default)]
pub struct Marketplaces {
    registered: Vec<Registration>,
    /// The values of the secrets in the sources of the registrations.
    hidden: Vec<String>,
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

    /// Reads the registrations in an agent's `agent_context`. Of two with the same name, the first counts. The others
    /// and invalid ones are problems, and so is a list that is too long.
    #[must_use]
    pub fn read_all(context: Raw<'_>) -> (Vec<Self>, Vec<PluginProblem>) {
        let mut list = context.get(REGISTERED).into_iter().flat_map(Raw::elements);
        let (mut registered, mut problems): (Vec<Self>, Vec<PluginProblem>) = (Vec::new(), Vec::new());
        let mut problem = |reason| problems.push(PluginProblem { path: REGISTERED.to_owned(), reason });
        for entry in list.by_ref().take(REGISTRATIONS_MAX) {
            match Self::of(&Json::from(entry).to_value()) {
                Err(reason) => problem(reason),
                Ok(registration) if registered.iter().any(|known| known.name == registration.name) => {
                    problem(format!("the name {:?} is registered twice", registration.name));
                }
                Ok(registration) => registered.push(registration),
            }
        }
        if list.next().is_some() {
            problem(format!("it has more than {REGISTRATIONS_MAX} entries, and only the first are used"));
        }
        (registered, problems)
    }

    fn wants(&self, name: &str) -> bool {
        match &self.auto_load {
            AutoLoad::Nothing => false,
            AutoLoad::Everything => true,
            AutoLoad::These(names) => names.iter().any(|wanted| wanted == name),
        }
    }
}

/// Names the registrations. Their sources may contain secrets.
impl fmt::Debug for Marketplaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.registered.iter().map(|known| &known.name)).finish()
    }
}

impl Marketplaces {
    /// Makes the object for these registrations. Secrets must be put into their sources before. Nothing is fetched yet.
    #[must_use]
    pub fn new(registered: Vec<Registration>) -> Self {
        Self { registered, ..Self::default() }
    }

    /// Sets the values of the secrets that were put into the sources. No error and no problem has one of them.
    #[must_use]
    pub fn hiding(self, secrets: Vec<String>) -> Self {
        Self { hidden: secrets, ..self }
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
        let found = self.find(reference, fetcher).await;
        found.map_err(|error| error.hiding(&self.hidden))
    }

    async fn find(&mut self, reference: &str, fetcher: &Fetcher) -> Result<PluginSource, PluginError> {
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
        let (mut sources, mut skills, mut errors) = (Vec::new(), Vec::<Skill>::new(), Vec::new());
        for known in self.registered.clone() {
            if matches!(&known.auto_load, AutoLoad::Nothing) {
                continue;
            }
            let (found, is_own) = match self.fetched(&known, fetcher).await {
                Ok((found, is_own)) => (found.clone(), is_own),
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            for plugin in found.plugins.iter().filter(|plugin| known.wants(&plugin.name)) {
                match found.source(plugin, is_own) {
                    Ok(source) => sources.push(source),
                    Err(error) => errors.push(error),
                }
            }
            for entry in found.skills.iter().filter(|entry| known.wants(&entry.name)) {
                match skill(&found, entry, fetcher).await {
                    Ok(skill) if skills.iter().any(|known| known.name == skill.name) => {}
                    Ok(skill) => skills.push(skill),
                    Err(error) => errors.push(error),
                }
            }
        }
        let problems = errors.into_iter().map(|error| PluginProblem::from(error.hiding(&self.hidden)));
        (sources, skills, problems.collect())
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
                let fetched = fetcher.fetch(&known.source, &self.hidden).await?;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::GitSettings;
    use super::*;

    fn read_all(list: &Value) -> (Vec<Registration>, Vec<PluginProblem>) {
        let context = Json::from(&json!({ REGISTERED: list }));
        Registration::read_all(context.raw())
    }

    #[test]
    fn registrations_that_are_left_out_are_problems() {
        let good = |name: &str| json!({"name": name, "source": "./m"});
        for (wrong, reason) in [
            (json!(1), "a marketplace must be an object"),
            (json!({"source": "./m"}), "a marketplace needs a name"),
            (json!({"name": "x"}), "source: Field required"),
            (json!({"name": "x", "source": 1}), "source: Input should be a valid string"),
            (json!({"name": "x", "source": "./m", "repo_path": "../up"}), "repo_path: Value error"),
            (json!({"name": "x", "source": "./m", "auto_load": "y"}), "neither a flag nor a list"),
            (json!({"name": "x", "source": "./m", "auto_load": [1]}), "no list of names"),
            (good("first"), "\"first\" is registered twice"),
        ] {
            let (registered, problems) = read_all(&json!([good("first"), wrong, good("last")]));
            let names: Vec<&str> = registered.iter().map(|known| known.name.as_str()).collect();
            assert_eq!(names, ["first", "last"], "{reason}");
            let [problem] = &problems[..] else { panic!("{problems:?}") };
            assert_eq!(problem.path, REGISTERED);
            assert!(problem.reason.contains(reason), "{problem}");
        }
        let many: Vec<Value> = (0..REGISTRATIONS_MAX).map(|number| good(&number.to_string())).collect();
        assert_eq!(read_all(&json!(many)).1, []);
        let more: Vec<Value> = many.into_iter().chain([good("more")]).collect();
        let (registered, problems) = read_all(&json!(more));
        assert_eq!((registered.len(), problems.len()), (REGISTRATIONS_MAX, 1));
        assert!(problems[0].reason.contains("more than 100 entries"), "{problems:?}");
        for nothing in [json!(null), json!([])] {
            assert_eq!(read_all(&nothing), (Vec::new(), Vec::new()));
        }
    }

    #[tokio::test]
    async fn a_list_cannot_refer_to_a_secret() {
        let scratch = tempfile::tempdir().unwrap();
        let fetcher = Fetcher { settings: GitSettings::None, ..Fetcher::of_home(scratch.path()) };
        let github =
            |repo: &str, reference: &str| json!({"source": "github", "repo": repo, "ref": reference});
        let url = |url: &str, reference: &str| json!({"source": "url", "url": url, "ref": reference});
        for source in [
            json!("http://127.0.0.1:9/${TOK}/x"),
            json!("https://${TOK}@127.0.0.1:9/x"),
            json!("https://127.0.0.1:9/${TOK:-none}/x"),
            json!("file:///nowhere/${TOK}"),
            json!("github:${TOK}/x"),
            json!("/nowhere/${TOK}"),
            json!("~/${TOK}"),
            json!("./${TOK}"),
            json!("${TOK}"),
            github("${TOK}/x", "main"),
            github("o/x", "${TOK}"),
            url("http://127.0.0.1:9/${TOK}", "main"),
            url("http://127.0.0.1:9/x", "v${TOK}"),
        ] {
            let market =
                json!({"name": "m", "owner": {"name": "o"}, "plugins": [{"name": "p", "source": source}]});
            let inner = scratch.path().join("market/.plugin");
            std::fs::create_dir_all(&inner).unwrap();
            std::fs::write(inner.join("marketplace.json"), market.to_string()).unwrap();
            let folder = scratch.path().join("market");
            let registration =
                Registration::of(&json!({"name": "m", "source": folder.to_str(), "auto_load": true}))
                    .unwrap();
            let mut markets = Marketplaces::new(vec![registration]);
            let (sources, _, problems) = markets.auto_loaded(&fetcher).await;
            assert_eq!((sources, problems.len()), (Vec::new(), 1), "{source}");
            for reference in ["p", "p@m"] {
                let error = markets.resolve(reference, &fetcher).await.unwrap_err();
                let is_refused =
                    matches!(&error, PluginError::Path { reason, .. } if reason.contains("secret"));
                assert!(is_refused, "{source}: {error}");
            }
            // A list from elsewhere has no more rights than one in a folder of this machine.
            let read = Marketplace::read(&folder, "m").unwrap();
            assert!(read.source(&read.plugins[0], false).is_err(), "{source}");
        }
    }

    #[tokio::test]
    async fn the_values_of_secrets_in_sources_are_in_no_error() {
        let scratch = tempfile::tempdir().unwrap();
        let fetcher = Fetcher { settings: GitSettings::None, ..Fetcher::of_home(scratch.path()) };
        let folder = scratch.path().join("s3cret");
        // Each fails in another place.
        let empty = scratch.path().join("s3cret-empty");
        std::fs::create_dir(&empty).unwrap();
        for source in [
            folder.to_str().unwrap(),
            empty.to_str().unwrap(),
            "s3cret",
            "github:s3cret",
            "file:///nowhere/s3cret",
            "https://x:s3cret@127.0.0.1:9/r?a=s3cret",
        ] {
            let registration =
                Registration::of(&json!({"name": "m", "source": source, "auto_load": true})).unwrap();
            let markets = Marketplaces::new(vec![registration]).hiding(vec!["s3cret".to_owned()]);
            let (_, _, problems) = markets.clone().auto_loaded(&fetcher).await;
            assert_eq!(problems.len(), 1, "{source}");
            let mut message = vec![format!("{problems:?} {}", problems[0])];
            for reference in ["p", "p@m"] {
                let error = markets.clone().resolve(reference, &fetcher).await.unwrap_err();
                message.push(format!("{error:?} {error}"));
            }
            assert!(message.iter().all(|text| !text.contains("s3cret")), "{message:?}");
        }
    }
}
