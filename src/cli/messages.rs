//! `annals messages` and `annals convert`: print what the model was sent, from a store or from a file of events.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::print::{Output, harmless};
use super::select::At;
use super::{DONE, Place};
use crate::error::{Error, InputError, Result};
use crate::event::{Content, Event, Given, Message};
use crate::ids::{EventId, Sequence};
use crate::json::Raw;
use crate::message::{self, ChatChoice, ChatFlags};
use crate::replay::{Memory, Moment, json as shape};
use crate::untrusted;
use crate::view::View;

/// Show the messages that the model would have received
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals messages 5610a7 --at 20
  annals --json messages 5610a7             as the SDK dumps them
  annals messages 5610a7 --wire chat        as a chat request has them
  annals messages 5610a7 --wire chat --caching=false
  annals messages 5610a7 --wire responses")]
pub(super) struct Messages {
    #[command(flatten)]
    pub moment: At,
    /// Use the view of a process that never stopped, instead of a rebuilt view
    #[arg(long)]
    pub live: bool,
    #[command(flatten)]
    pub wire: WireOptions,
}

/// Turn a file of events into messages, without a database
///
/// The file holds {"events": [...]}, an array of events, or one event a line, of any age; - is standard input.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals --json convert events.json
  annals convert trajectory.json --view --wire chat")]
pub(super) struct Convert {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// First apply condensations and leave out events that break the protocol, as for a model
    #[arg(long)]
    pub view: bool,
    #[command(flatten)]
    pub wire: WireOptions,
}

/// How messages are written.
#[derive(Debug, Args)]
pub(super) struct WireOptions {
    /// As JSON in the format of this model interface
    #[arg(long, value_enum)]
    pub wire: Option<Wire>,
    /// Mark where a prompt may be cached (chat); as the conversation's model had it if not given
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub caching: Option<bool>,
    /// With pictures; as the conversation's model had it if not given
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub vision: Option<bool>,
    /// Without pictures
    #[arg(long, conflicts_with = "vision")]
    pub no_vision: bool,
    /// Write one string instead of a list of parts (chat); as the conversation's model had it if not given
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub strings: Option<bool>,
    /// Include the model's reasoning (chat); as the conversation's model had it if not given
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub reasoning: Option<bool>,
}

impl WireOptions {
    /// Returns the flags for a conversation whose model has these.
    fn flags(&self, model: Option<ChatFlags>) -> ChatFlags {
        let vision = if self.no_vision { Some(false) } else { self.vision };
        ChatChoice { caching: self.caching, vision, strings: self.strings, reasoning: self.reasoning }
            .over(model)
    }
}

/// Returns how messages are sent to the model with these settings. `None` if it is not known.
#[cfg(feature = "agent")]
fn flags_of(llm: &str) -> Option<ChatFlags> {
    crate::llm::chat_flags(llm)
}

#[cfg(not(feature = "agent"))]
fn flags_of(_llm: &str) -> Option<ChatFlags> {
    None
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Wire {
    /// Chat completions
    Chat,
    /// Responses: instructions and input items
    Responses,
}

pub(super) fn run(place: &Place<'_>, command: &Messages, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = store.resolve(&command.moment.id)?;
    let moment = Moment::new(&store, &id, command.moment.point(&store, &id)?)?;
    let memory = if command.live { Memory::Live } else { Memory::Reloaded };
    let model = moment.llm()?.as_deref().and_then(flags_of);
    print(&moment.messages(memory)?, &command.wire, model, output)
}

pub(super) fn convert(_place: &Place<'_>, command: &Convert, output: &Output) -> Result<u8> {
    let events = read(command)?;
    let messages = if command.view {
        let view = View::reloaded(&events);
        message::messages(view.events())
    } else {
        message::messages(&events)
    };
    print(&messages.map_err(|source| Error::NoMessages { source })?, &command.wire, None, output)
}

/// Reads the events of a file (`-` is standard input): `{"events": [...]}`, an array, or one event per line.
fn read(command: &Convert) -> Result<Vec<Event>> {
    let path = &command.file;
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes).map_err(Error::io("reading", "standard input"))?;
    } else {
        let read = untrusted::open_named(path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(Error::io("reading", path))?;
    }
    let not_events = |what: String| Error::Input(InputError::NotEvents { path: path.clone(), what });
    let text = String::from_utf8(bytes).map_err(|_| not_events("it is not UTF-8".into()))?;
    let text = text.trim();
    let whole = Raw::parse(text);
    let list: Vec<Raw<'_>> = match whole {
        Ok(value) if value.is_array() => value.elements().collect(),
        Ok(value) => match value.get("events") {
            Some(events) => events.elements().collect(),
            None => vec![value],
        },
        Err(fault) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            lines
                .map(Raw::parse)
                .collect::<std::result::Result<_, _>>()
                .map_err(|_| not_events(fault.to_string()))?
        }
    };
    list.iter()
        .enumerate()
        .map(|(place, element)| {
            let id = EventId::new(format!("element-{place}"))?;
            let given = Given { id: Some(&id), timestamp: None };
            Event::read(element.text(), &given)
                .map_err(|source| Error::Undecodable { sequence: Sequence(place as u64), source })
        })
        .collect()
}

fn print(messages: &[Message], wire: &WireOptions, model: Option<ChatFlags>, output: &Output) -> Result<u8> {
    let flags = wire.flags(model);
    let form = match wire.wire {
        None => shape::Wire::Plain,
        Some(Wire::Chat) => shape::Wire::Chat(flags),
        Some(Wire::Responses) => shape::Wire::Responses { vision: flags.vision },
    };
    let value = shape::messages(messages, form).map_err(|source| Error::NotSent { source })?;
    if output.json || wire.wire.is_some() {
        output.value(&value)?;
        return Ok(DONE);
    }
    for message in messages {
        let name = message.name.as_deref().map_or_else(String::new, |name| format!(" {name}"));
        output.line(output.bold(&format!("{}{}", message.role.as_str(), harmless(&name))))?;
        for part in &message.content {
            let text = match part {
                Content::Text(text) => harmless(&text.text),
                Content::Image(image) => format!("[{} picture(s)]", image.image_urls.len()),
                Content::Unknown(_) => "[something unknown]".into(),
            };
            for line in text.lines() {
                output.line(format!("    {line}"))?;
            }
        }
        for call in message.tool_calls.iter().flatten() {
            output.line(format!(
                "    {} {}",
                output.styled(&harmless(&call.name), "36"),
                harmless(&call.arguments)
            ))?;
        }
    }
    Ok(DONE)
}
