//! `annals profiles`: named models.

use serde_json::json;

use super::{Trouble, Way, settle, stage};
use crate::cli::arguments::{Profiles as Command, Remote};
use crate::cli::print::{Output, row, table};
use crate::cli::settings::{Found, cipher};
use crate::cli::{DONE, Place};
use crate::error::Result;
use crate::llm::profiles::{Keys, Profiles};

pub(in crate::cli) fn run(place: &Place<'_>, command: &Command, output: &Output) -> Result<u8> {
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
            output
                .line("there are none yet: `annals profiles --save NAME --model PROVIDER/MODEL` keeps one")?;
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
