//! A conversation at a point: its state, the model's view, the messages and the branches. Also the differences between
//! two such moments.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::Value;

use super::ask;
use crate::error::{Error, Result};
use crate::llm;
use crate::message::ChatChoice;
use crate::replay::{Difference, Memory, Moment, Point, json};
use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::request::Params;
use crate::store::Store;

type Answer = std::result::Result<Json<Value>, Failure>;

/// Answers with the conversation of the path at the point that the parameter `at` names. The default is its end.
async fn at(
    app: &App,
    id: String,
    params: &Params,
    answer: impl FnOnce(&Moment<'_>) -> Result<Value> + Send + 'static,
) -> Answer {
    let point = params.get("at").map(str::to_owned);
    ask(app, move |store| answer(&moment(store, &id, point.as_deref())?)).await.map(Json)
}

fn moment<'s>(store: &'s Store, id: &str, point: Option<&str>) -> Result<Moment<'s>> {
    let id = store.resolve(id)?;
    let point = point.map_or(Ok(Point::End), |text| Point::parse(store, &id, text))?;
    Moment::new(store, &id, point)
}

fn memory(params: &Params) -> std::result::Result<Memory, Failure> {
    Ok(if params.flag("live")? { Memory::Live } else { Memory::Reloaded })
}

pub(super) async fn state(State(app): State<Arc<App>>, Path(id): Path<String>, params: Params) -> Answer {
    let is_brief = params.flag("brief")?;
    // `branches` has the ids of the branch as ranges.
    let answer = move |moment: &Moment<'_>| {
        if is_brief { moment.brief_state_value() } else { moment.state_value() }
    };
    at(&app, id, &params, answer).await
}

pub(super) async fn view(State(app): State<Arc<App>>, Path(id): Path<String>, params: Params) -> Answer {
    let (memory, ids) = (memory(&params)?, params.flag("ids")?);
    let answer = move |moment: &Moment<'_>| {
        let branch = moment.branch()?;
        let view = moment.view_of(&branch, memory)?;
        Ok(if ids { view.ids().map(Value::from).collect() } else { json::view(&view, &branch) })
    };
    at(&app, id, &params, answer).await
}

pub(super) async fn messages(State(app): State<Arc<App>>, Path(id): Path<String>, params: Params) -> Answer {
    let (memory, wire) = (memory(&params)?, wire(&params)?);
    let mut choice = ChatChoice::default();
    choice.caching = params.choice("caching")?;
    choice.vision = params.choice("no_vision")?.map(|no_vision| !no_vision);
    choice.strings = params.choice("strings")?;
    choice.reasoning = params.choice("reasoning")?;
    let answer = move |moment: &Moment<'_>| {
        let flags = choice.over(moment.llm()?.as_deref().and_then(llm::chat_flags));
        let wire = match wire {
            Form::Plain => json::Wire::Plain,
            Form::Chat => json::Wire::Chat(flags),
            Form::Responses => json::Wire::Responses { vision: flags.vision },
        };
        json::messages(&moment.messages(memory)?, wire).map_err(|source| Error::NotSent { source })
    };
    at(&app, id, &params, answer).await
}

/// The format of messages that was asked for.
#[derive(Clone, Copy)]
enum Form {
    Plain,
    Chat,
    Responses,
}

/// Reads the format of the messages from the parameters.
fn wire(params: &Params) -> std::result::Result<Form, Failure> {
    let words = [("plain", Form::Plain), ("chat", Form::Chat), ("responses", Form::Responses)];
    Ok(params.word("wire", &words)?.unwrap_or(Form::Plain))
}

pub(super) async fn branches(State(app): State<Arc<App>>, Path(id): Path<String>, params: Params) -> Answer {
    at(&app, id, &params, json::branches).await
}

/// Compares the conversations `left` and `right`. Each may have a point after an `@`; the default is its end.
pub(super) async fn diff(State(app): State<Arc<App>>, params: Params) -> Answer {
    let (left, right) = (params.required("left")?.to_owned(), params.required("right")?.to_owned());
    let difference = ask(&app, move |store| {
        let named = |text: &str| match text.split_once('@') {
            Some((id, point)) => moment(store, id, Some(point)),
            None => moment(store, text, None),
        };
        Ok(Difference::between(&named(&left)?, &named(&right)?)?.value())
    });
    difference.await.map(Json)
}
