//! Tools about models: going over to another one, pictures for one that cannot see, guidance from a user model.

use crate::event::decode::{DecodeError, Mismatch};
use crate::event::json::Raw;
use crate::event::message::Content;
use crate::event::model::{Field, Reading, Text, model, take, wire};

model! {
    /// Goes over to another model.
    SwitchLLMAction: Forbid {
        /// The profile.
        profile_name: Text,
        /// Why.
        reason: Text,
    }
    kind "SwitchLLMAction"
}

model! {
    /// The model now.
    SwitchLLMObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The profile.
        profile_name: Text,
        /// Why.
        reason: Option<Text> = None,
        /// The model.
        active_model: Option<Text> = None,
    }
    kind "SwitchLLMObservation"
}

model! {
    /// Has the task judged and the model chosen.
    ClassifyAndSwitchLLMAction: Forbid {}
    kind "ClassifyAndSwitchLLMAction"
}

model! {
    /// The model that was chosen.
    ClassifyAndSwitchLLMObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// What the task was judged to be.
        chosen_class: Option<Text> = None,
        /// The model that goes with it.
        model: Option<Text> = None,
        /// The model now.
        active_model: Option<Text> = None,
    }
    kind "ClassifyAndSwitchLLMObservation"
}

model! {
    /// Asks a model that can see about a picture.
    VisionInspectAction: Forbid {
        /// Which picture, 0-based.
        image_index: u64,
        /// The question.
        question: Text => read_question,
        /// Which model.
        profile_name: Option<Text> = None,
    }
    kind "VisionInspectAction"
}

model! {
    /// What that model saw.
    VisionInspectObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// Which picture, 0-based.
        image_index: i64,
        /// The question.
        question: Text,
        /// Which model.
        profile_name: Option<Text> = None,
        /// The model's name.
        model: Option<Text> = None,
        /// Where the model is.
        base_url: Option<Text> = None,
        /// What it saw.
        answer: Option<Text> = None,
    }
    kind "VisionInspectObservation"
}

model! {
    /// Asks for guidance about the person.
    ConsultTomAction: Forbid {
        /// Why.
        reason: Text,
        /// Whether it is about what the person said.
        use_user_message: bool = true,
        /// What it is about otherwise.
        custom_query: Option<Text> = None,
    }
    kind "ConsultTomAction"
}

model! {
    /// Guidance about the person.
    ConsultTomObservation: Forbid {
        /// Not what the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The guidance.
        suggestions: Text = Text::from(""),
        /// How sure it is, 0 to 1.
        confidence: Option<f64> = None,
        /// Why.
        reasoning: Option<Text> = None,
    }
    kind "ConsultTomObservation"
}

model! {
    /// Has past conversations studied.
    SleeptimeComputeAction: Forbid {}
    kind "SleeptimeComputeAction"
}

model! {
    /// What was studied.
    SleeptimeComputeObservation: Forbid {
        /// Not what the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// What came of it.
        message: Text = Text::from(""),
        /// How many conversations.
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
