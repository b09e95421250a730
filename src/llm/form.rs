//! Which of the interfaces a model is asked through, and a reply of it in the making.

use serde_json::Value;

use super::chat::Prepared;
use super::failure::{Failure, Hidden};
use super::parsed::Parsed;
use super::provider::Protocol;
use super::setup::Setup;
use super::{Delta, LlmError, Request, anthropic, chat, gemini, responses};

/// An interface, with the reply that a stream brings.
#[derive(Debug)]
pub(super) enum Form {
    Chat(chat::Assembly),
    Responses(responses::Assembly),
    Anthropic(anthropic::Assembly),
    Gemini(gemini::Assembly),
}

impl Form {
    /// The interface that suits the model.
    pub fn of(setup: &Setup) -> Self {
        match setup.provider.protocol {
            Protocol::OpenAi if setup.features.responses => Self::Responses(responses::Assembly::default()),
            Protocol::OpenAi => Self::Chat(chat::Assembly::default()),
            Protocol::Anthropic => Self::Anthropic(anthropic::Assembly::default()),
            Protocol::Gemini => Self::Gemini(gemini::Assembly::default()),
        }
    }

    /// The request in its words.
    pub fn request(&self, setup: &Setup, request: &Request, stream: bool) -> Result<Prepared, LlmError> {
        match self {
            Self::Chat(_) => chat::request(setup, request, stream),
            Self::Responses(_) => responses::request(setup, request, stream),
            Self::Anthropic(_) => anthropic::request(setup, request, stream),
            Self::Gemini(_) => gemini::request(setup, request, stream),
        }
    }

    /// Reads a whole reply.
    pub fn parse(&self, reply: &Value) -> Result<Parsed, Failure> {
        match self {
            Self::Chat(_) => chat::parse(reply),
            Self::Responses(_) => responses::parse(reply),
            Self::Anthropic(_) => anthropic::parse(reply),
            Self::Gemini(_) => gemini::parse(reply),
        }
    }

    /// Takes a piece of a stream; answers whether nothing more is to come.
    pub fn feed(
        &mut self,
        piece: &Value,
        tell: &mut dyn FnMut(Delta),
        provider: &str,
        hidden: &Hidden,
    ) -> Result<bool, Failure> {
        match self {
            // Its usage comes after its end, and then a last word.
            Self::Chat(assembly) => assembly.feed(piece, tell),
            Self::Responses(assembly) => return assembly.feed(piece, tell, provider, hidden),
            Self::Anthropic(assembly) => return Ok(assembly.feed(piece, tell)),
            Self::Gemini(assembly) => assembly.feed(piece, tell),
        }
        Ok(false)
    }

    /// The reply, if it is whole.
    pub fn finish(self) -> Result<Parsed, Failure> {
        match self {
            Self::Chat(assembly) => assembly.finish(),
            Self::Responses(assembly) => assembly.finish(),
            Self::Anthropic(assembly) => assembly.finish(),
            Self::Gemini(assembly) => assembly.finish(),
        }
    }
}
