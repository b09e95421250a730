//! Questions about the whole file: text search, SQL on the documented views, and named reports.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::{Form, answer};
use crate::audit::{self, REPORTS, json as shape};
use crate::error::Error;
use crate::ids::{Position, Timestamp};
use crate::server::App;
use crate::server::http::TRUNCATED;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request::{self, Params};
use crate::store::{SearchFilter, SqlAnswer, SqlLimits, SqlQuery, SqlValue};

/// The maximum number of hits in a page, and the default.
const HITS_MAX: u64 = 100;
const HITS: u64 = 20;

/// The values of `format` that a route accepts.
const JSON_OR_CSV: [(&str, Form); 2] = [("json", Form::Json), ("csv", Form::Csv)];
const FORMS: [(&str, Form); 3] = [("json", Form::Json), ("csv", Form::Csv), ("html", Form::Html)];
const JSON_OR_HTML: [(&str, Form); 2] = [("json", Form::Json), ("html", Form::Html)];

pub(super) async fn search(State(app): State<Arc<App>>, params: Params) -> Result<Json<Value>, Failure> {
    let text = params.required("q")?.to_owned();
    let limit = params.number("limit", 1, HITS_MAX, HITS)? as usize;
    let before = params.get("before").map(|_| params.number("before", 0, i64::MAX as u64, 0)).transpose()?;
    let conversation = params.get("conversation").map(str::to_owned);
    let known = |name: &str| params.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let time = |name: &str| -> Result<Option<Timestamp>, Failure> {
        let read = |text: String| match Timestamp::parse_relative(&text, Timestamp::now()) {
            Some(time) => Ok(time),
            None => Err(Error::NotATime { text }),
        };
        Ok(known(name).map(read).transpose()?)
    };
    let filter = SearchFilter {
        conversation: None,
        kinds: params.all("kind").map(str::to_owned).collect(),
        tool: params.get("tool").map(str::to_owned),
        before: before.map(Position),
        since: time("since")?,
        until: time("until")?,
        workspace: known("workspace"),
        source: known("source"),
        model: known("model"),
        started_by: known("started_by"),
        ..SearchFilter::default()
    };
    let hits = answer(&app, move |store| {
        let conversation = conversation.map(|prefix| store.resolve(&prefix)).transpose()?;
        let filter = SearchFilter { conversation, ..filter };
        Ok(shape::hits(&store.search(&text, &filter, limit, &mut |_| {})?, limit))
    });
    hits.await.map(Json)
}

/// Lists the views that a query may use.
pub(super) async fn views() -> Json<Value> {
    Json(shape::views())
}

/// Runs `{"sql": text, "parameters"?: {name: value}, "limits"?: {"rows"?, "bytes"?, "seconds"?}}`.
pub(super) async fn query(
    State(app): State<Arc<App>>,
    params: Params,
    body: Bytes,
) -> Result<Response, Failure> {
    let form = Form::of(&params, &JSON_OR_CSV)?;
    let members = request::object(&body)?;
    let sql = request::required(&members, "sql")?.to_owned();
    let parameters = parameters(&members)?;
    let limits = limits(&members)?;
    let answer =
        answer(&app, move |store| store.query(&SqlQuery { sql: &sql, parameters: &parameters, limits }))
            .await?;
    Ok(match form {
        Form::Csv => csv(&answer),
        Form::Json | Form::Html => Json(shape::answer(&answer)).into_response(),
    })
}

fn parameters(members: &Map<String, Value>) -> Result<Vec<(String, SqlValue)>, Failure> {
    let place = |name: &str| {
        Problem::new(
            "value_error",
            &["body", "parameters", name],
            "Value error, parameters are texts, numbers, booleans or null",
        )
    };
    let given = match members.get("parameters") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(given)) => given,
        Some(_) => {
            let message = "Input should be a valid dictionary";
            return Err(Problem::new("dict_type", &["body", "parameters"], message).into());
        }
    };
    given
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Null => SqlValue::Null,
                Value::Bool(flag) => SqlValue::Integer(i64::from(*flag)),
                Value::String(text) => SqlValue::Text(text.clone()),
                Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                    (Some(number), _) => SqlValue::Integer(number),
                    (None, Some(number)) => SqlValue::Real(number),
                    (None, None) => return Err(place(name).into()),
                },
                Value::Array(_) | Value::Object(_) => return Err(place(name).into()),
            };
            Ok((name.clone(), value))
        })
        .collect()
}

/// Reads the limits of a query. The library's limits are the defaults and the maximum.
fn limits(members: &Map<String, Value>) -> Result<SqlLimits, Failure> {
    let most = SqlLimits::default();
    let given = match members.get("limits") {
        None | Some(Value::Null) => return Ok(most),
        Some(Value::Object(given)) => given,
        Some(_) => {
            let message = "Input should be a valid dictionary";
            return Err(Problem::new("dict_type", &["body", "limits"], message).into());
        }
    };
    let number = |name: &str, most: u64| match given.get(name) {
        None | Some(Value::Null) => Ok(most),
        Some(value) => value.as_u64().filter(|number| (1..=most).contains(number)).ok_or_else(|| {
            let message = format!("Value error, a whole number from 1 to {most}");
            Failure::from(Problem::new("value_error", &["body", "limits", name], message))
        }),
    };
    Ok(SqlLimits {
        rows_max: number("rows", most.rows_max as u64)? as usize,
        bytes_max: number("bytes", most.bytes_max as u64)? as usize,
        time_max: Duration::from_secs(number("seconds", most.time_max.as_secs())?),
        ..most
    })
}

fn csv(answer: &SqlAnswer) -> Response {
    let mut response =
        ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], shape::csv(answer)).into_response();
    if let Some(truncated) = answer.truncated {
        response.headers_mut().insert(TRUNCATED, HeaderValue::from_static(truncated.as_str()));
    }
    response
}

/// Makes a response of an HTML page. Its content security policy allows no scripts and no loading. The page's head has
/// a policy too.
fn html(page: String) -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers, page).into_response()
}

/// Returns the query parameters that are passed to a report: all but `format`.
fn report_parameters(params: &Params) -> Vec<(String, String)> {
    params
        .pairs()
        .filter(|(name, _)| *name != "format")
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Lists the reports. As HTML, shows the results of the most important ones.
pub(super) async fn reports(State(app): State<Arc<App>>, params: Params) -> Result<Response, Failure> {
    match Form::of(&params, &JSON_OR_HTML)? {
        Form::Json | Form::Csv => {
            Ok(Json(json!({"reports": REPORTS.iter().map(shape::report).collect::<Value>()})).into_response())
        }
        Form::Html => {
            let given = report_parameters(&params);
            let page =
                answer(&app, move |store| audit::page(store, &given, SqlLimits::default(), Timestamp::now()));
            page.await.map(html)
        }
    }
}

/// Runs one report.
pub(super) async fn report(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Response, Failure> {
    let form = Form::of(&params, &FORMS)?;
    let report =
        audit::report(&name).ok_or_else(|| Failure::not_found(format!("There is no report {name:?}")))?;
    let given = report_parameters(&params);
    let asked = given.clone();
    let answer = answer(&app, move |store| audit::run(store, report, &asked, SqlLimits::default())).await?;
    Ok(match form {
        Form::Json => Json(shape::report_answer(report, &answer)).into_response(),
        Form::Csv => csv(&answer),
        Form::Html => html(audit::report_page(report, &given, &answer)),
    })
}
