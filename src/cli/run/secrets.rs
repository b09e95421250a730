//! `annals secrets`: lists, sets and removes the secrets of a conversation, by name.

use clap::Args;
use serde_json::json;

use super::stage::{self, Stage};
use super::way::{Remote, Way};
use super::{Trouble, settle};
use crate::cli::print::{Output, row, table};
use crate::cli::settings::{Model, cipher};
use crate::cli::{DONE, Place};
use crate::error::Result;
use crate::visualizer::one_line;

/// Show which secrets a conversation has, or give it some
///
/// Values are never shown. They are stored sealed with the key in OH_SECRET_KEY; without that key none can be stored.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals secrets 5610a7                        their names
  annals secrets 5610a7 --set DEPLOY_TOKEN     the variable DEPLOY_TOKEN of your shell
  annals secrets 5610a7 --set TOKEN=GH_TOKEN   under another name
  annals secrets 5610a7 --remove TOKEN")]
pub(in crate::cli) struct Arguments {
    /// The conversation, by the start of its id
    pub id: String,
    /// Add or replace a secret: the value of the environment variable NAME, or of VARIABLE; may be given several times
    #[arg(long, value_name = "NAME[=VARIABLE]")]
    pub set: Vec<String>,
    /// Remove a secret; may be given several times
    #[arg(long, value_name = "NAME")]
    pub remove: Vec<String>,
}

pub(in crate::cli) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    settle(&Way::new(place, &Remote::default()), output, async {
        let stage = Stage::new(place, &Remote::default(), &Model::default(), false)?;
        let given = stage::secrets(&command.set)?;
        if !given.is_empty() && cipher().is_none() {
            return Err(Trouble::Refused {
                what: "without a key to seal them, secrets would be lost when this process ends".to_owned(),
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
