//! `annals secrets`: which secrets a conversation has, by name.

use serde_json::json;

use super::stage::{self, Stage};
use super::{Trouble, Way, settle};
use crate::cli::arguments::{Model, Remote, Secrets};
use crate::cli::print::{Output, row, table};
use crate::cli::{DONE, Place};
use crate::error::Result;
use crate::visualizer::one_line;

pub(in crate::cli) fn run(place: &Place<'_>, command: &Secrets, output: &Output) -> Result<u8> {
    settle(&Way::new(place, &Remote::default()), output, async {
        let stage = Stage::new(place, &Remote::default(), &Model::default(), false)?;
        let given = stage::secrets(&command.set)?;
        if !given.is_empty() && crate::cli::settings::cipher().is_none() {
            return Err(Trouble::Refused {
                what: "without a key to seal them with, secrets would be lost with this process".to_owned(),
                hint: Some("set OH_SECRET_KEY to a long random text, and keep it".to_owned()),
            });
        }
        let conversation = stage.again_here(&command.id, None).await?;
        let known = conversation.secrets();
        if let Some(name) = command.remove.iter().find(|name| !known.iter().any(|info| info.name == **name)) {
            return Err(Trouble::refused(format!("{} has no secret {name:?}", conversation.id())));
        }
        if !given.is_empty() {
            conversation.update_secrets(given).await?;
        }
        if !command.remove.is_empty() {
            conversation.remove_secrets(&command.remove).await?;
        }
        let known = conversation.secrets();
        if output.json {
            let rows = known.iter().map(|info| json!({ "name": info.name, "description": info.description }));
            output.value(&json!({ "secrets": rows.collect::<Vec<_>>() }))?;
        } else if known.is_empty() {
            output.line("it has no secrets")?;
        } else {
            let mut table = table(&["name", "what it is for"], &[]);
            for info in known {
                let what = info.description.unwrap_or_default();
                table.add_row(row([one_line(&info.name, 60), one_line(&what, 200)]));
            }
            output.line(table.to_string())?;
        }
        Ok(DONE)
    })
}
