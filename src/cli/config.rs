//! `annals config`: shows the settings of agents, and the origin of each.

use clap::Args;
use serde_json::json;

use super::print::{Output, row, table};
use super::settings::{Found, Model};
use super::{DONE, Place, REFUSED};
use crate::error::Result;

/// Show the settings of agents, and where each value came from
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals config
  LLM_MODEL=openai/gpt-5 annals config   the environment overrides the file
  annals config --model ollama/qwen3     the command line overrides both

The file is config.toml in the folder annals of your configuration folder, for example
  model = \"anthropic/claude-sonnet-4-5\"
  confirm = \"always\"
  max_budget = 2.50")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub model: Model,
}

pub(super) fn run(_place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let found = match Found::read(&command.model) {
        Ok(found) => found,
        Err(what) => {
            output.fault(&what, None);
            return Ok(REFUSED);
        }
    };
    let rows = found.rows();
    if output.json {
        let settings: serde_json::Map<_, _> = rows
            .into_iter()
            .map(|(name, value, from, _)| (name.to_owned(), json!({ "value": value, "from": from })))
            .collect();
        output.value(&json!({ "file": found.file, "settings": settings }))?;
        return Ok(DONE);
    }
    let mut table = table(&["setting", "value", "from", "what"], &[]);
    for (name, value, from, what) in rows {
        table.add_row(row([name.to_owned(), value.unwrap_or_default(), from, what.to_owned()]));
    }
    output.line(table.to_string())?;
    if let Some(file) = &found.file {
        let there = if file.is_file() { "" } else { " (not there)" };
        output.remark(format!("file: {}{there}", file.display()));
    }
    Ok(DONE)
}
