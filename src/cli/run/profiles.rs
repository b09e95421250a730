//! `annals profiles`: lists, saves and removes named models.

use clap::Args;
use serde_json::json;

use super::way::{Remote, Way};
use super::{Trouble, settle, stage};
use crate::cli::print::{Output, row, table};
use crate::cli::settings::{Found, Model, cipher};
use crate::cli::{DONE, Place};
use crate::error::Result;
use crate::llm::profiles::{Keys, Profiles};

/// List named models, or save one
///
/// They are files in the folder that the reference uses too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals profiles
  annals profiles --save fast --model openai/gpt-5-mini
  annals profiles --save local --model openai/qwen3 --base-url http://localhost:8000/v1 --with-key
  annals run 'tidy up' --profile fast
  annals profiles --remove fast")]
pub(in crate::cli) struct Arguments {
    /// Save the model that the other options describe under this name
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,
    /// Save its key too: sealed with the key in OH_SECRET_KEY, or in plain text if that variable is not set
    #[arg(long, requires = "save")]
    pub with_key: bool,
    /// Remove a named model
    #[arg(long, value_name = "NAME", conflicts_with = "save")]
    pub remove: Option<String>,
    #[command(flatten)]
    pub model: Model,
}

pub(in crate::cli) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    settle(&Way::new(place, &Remote::default()), output, async {
        let found = Found::read(&command.model).map_err(Trouble::refused)?;
        let profiles = Profiles::open(&found.settings.profiles_dir).map_err(Trouble::refused)?;
        if let Some(name) = &command.save {
            let mut llm = stage::llm_of(found, place)?;
            llm.stream = false;
            llm.usage_id = "default".into();
            let cipher = cipher();
            let keys = match (command.with_key, &cipher) {
                (false, _) => Keys::None,
                (true, Some(cipher)) => Keys::Sealed(cipher),
                (true, None) => Keys::Plain,
            };
            profiles.save(name, &llm, keys, None).map_err(Trouble::refused)?;
        }
        if let Some(name) = &command.remove {
            if !profiles.list().map_err(Trouble::refused)?.contains(name) {
                return Err(Trouble::refused(format!("there is no profile {name:?}")));
            }
            profiles.delete(name).map_err(Trouble::refused)?;
        }
        let known = profiles.summaries().map_err(Trouble::refused)?;
        if output.json {
            let rows = known.iter().map(|profile| {
                json!({
                    "name": profile.name,
                    "model": profile.model,
                    "base_url": profile.base_url,
                    "api_key_set": profile.api_key_set,
                })
            });
            output.value(&json!({ "profiles": rows.collect::<Vec<_>>() }))?;
        } else if known.is_empty() {
            output.line(
                "there are no profiles: `annals profiles --save NAME --model PROVIDER/MODEL` saves one",
            )?;
        } else {
            let mut table = table(&["name", "model", "key", "address"], &[]);
            for profile in known {
                let key = if profile.api_key_set { "kept" } else { "" };
                let (model, address) =
                    (profile.model.unwrap_or_default(), profile.base_url.unwrap_or_default());
                table.add_row(row([profile.name, model, key.to_owned(), address]));
            }
            output.line(table.to_string())?;
        }
        Ok(DONE)
    })
}
