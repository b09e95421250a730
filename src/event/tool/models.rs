//! Tools about models: switching models, pictures for a model without vision, guidance from a model of the user.

use crate::event::decode::{DecodeError, Mismatch};
use crate::event::message::Content;
use crate::event::model::{Field, Reading, Text, model, take, wire};
use crate::json::Raw;

model! {
    /// Switches to another model.
    SwitchLLMAction: Forbid {
        /// The profile.
        profile_name: Text,
        /// The reason.
        reason: Text,
    }
    kind "SwitchLLMAction"
}

model! {
    /// The model that is now active.
    SwitchLLMObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The profile.
        profile_name: Text,
        /// The reason.
        reason: Option<Text> = None,
        /// The model.
        active_model: Option<Text> = None,
    }
    kind "SwitchLLMObservation"
}

model! {
    /// Classifies the task and switches to the model for its class.
    ClassifyAndSwitchLLMAction: Forbid {}
    kind "ClassifyAndSwitchLLMAction"
}

model! {
    /// The model that was chosen.
    ClassifyAndSwitchLLMObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The class of the task.
        chosen_class: Option<Text> = None,
        /// The model for that class.
        model: Option<Text> = None,
        /// The model that is now active.
        active_model: Option<Text> = None,
    }
    kind "ClassifyAndSwitchLLMObservation"
}

model! {
    /// Asks a vision model about a picture.
    VisionInspectAction: Forbid {
        /// The number of the picture, 0-based.
        image_index: u64,
        /// The question.
        question: Text => read_question,
        /// The profile of the vision model.
        profile_name: Option<Text> = None,
    }
    kind "VisionInspectAction"
}

model! {
    /// The vision model's answer.
    VisionInspectObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The number of the picture, 0-based.
        image_index: i64,
        /// The question.
        question: Text,
        /// The profile of the vision model.
        profile_name: Option<Text> = None,
        /// The model's name.
        model: Option<Text> = None,
        /// The base URL of the model.
        base_url: Option<Text> = None,
        /// The answer.
        answer: Option<Text> = None,
    }
    kind "VisionInspectObservation"
}

model! {
    /// Asks for guidance about the person.
    ConsultTomAction: Forbid {
        /// The reason.
        reason: Text,
        /// Whether to ask about the person's message.
        use_user_message: bool = true,
        /// Otherwise, what to ask about.
        custom_query: Option<Text> = None,
    }
    kind "ConsultTomAction"
}

model! {
    /// Guidance about the person.
    ConsultTomObservation: Forbid {
        /// The content. The model does not read it.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The guidance.
        suggestions: Text = Text::from(""),
        /// The confidence in the guidance, 0 to 1.
        confidence: Option<f64> = None,
        /// The reasoning behind the guidance.
        reasoning: Option<Text> = None,
    }
    kind "ConsultTomObservation"
}

model! {
    /// Analyzes past conversations.
    SleeptimeComputeAction: Forbid {}
    kind "SleeptimeComputeAction"
}

model! {
    /// The result of the analysis.
    SleeptimeComputeObservation: Forbid {
        /// The content. The model does not read it.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The result, as text.
        message: Text = Text::from(""),
        /// The number of conversations that were analyzed.
        sessions_processed: i64 = 0,
    }
    kind "SleeptimeComputeObservation"
}

fn read_question(raw: Raw<'_>, reading: Reading) -> Result<Text, DecodeError> {
    let question = Text::read(raw, reading)?;
    if question.is_empty() {
        return Err(DecodeError::new(Mismatch::Bounds { bounds: "1 character or more" }));
    }
    Ok(question)
}
