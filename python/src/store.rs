//! The store as the Python module sees it: pages instead of iterators, and names instead of typed ids.

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use annals::state::BaseDocument;
use annals::store::{Actor, ConversationFilter, Durability, Order, SearchFilter, SqlLimits, SqlQuery};
use annals::transfer::{Exporter, Format, ImportOptions, Importer};
use annals::{
    ConversationId, Error, EventId, EventQuery, Expected, NewEvent, Options, Position, Sequence, Timestamp,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::ends;
use crate::errors::{invalid, raised};
use crate::follow::Follower;
use crate::query;
use crate::values::{Appended, Attachment, Conversation, Event, Hit, Imported, Line, Usage, Verification};

/// An open file. `None` once it is closed.
#[pyclass(frozen, module = "annals._annals")]
pub(crate) struct Store(RwLock<Option<annals::Store>>);

impl Store {
    /// Runs `work` without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&annals::Store) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let store = self.get()?;
        py.detach(|| work(&store)).map_err(raised)
    }

    fn get(&self) -> PyResult<annals::Store> {
        let store = self.0.read().unwrap_or_else(PoisonError::into_inner);
        store.clone().ok_or_else(|| invalid("the store is closed"))
    }
}

fn id(text: &str) -> PyResult<ConversationId> {
    ConversationId::new(text).map_err(|error| raised(error.into()))
}

fn event_id(text: &str) -> PyResult<EventId> {
    EventId::new(text).map_err(|error| raised(error.into()))
}

fn time(text: Option<&str>) -> PyResult<Option<Timestamp>> {
    text.map(|text| {
        Timestamp::parse_relative(text, Timestamp::now()).ok_or_else(|| {
            invalid(format!("{text} is not a time; 2026-11-27, 2026-11-27T10:00:00Z and 7d are"))
        })
    })
    .transpose()
}

/// How long a conversation has to be, as Python names it: a number, `"any"`, `"empty"` or `"exists"`.
fn expected(given: &Bound<'_, PyAny>) -> PyResult<Expected> {
    if let Ok(count) = given.extract::<u64>() {
        return Ok(Expected::Exact(count));
    }
    match given.extract::<String>().as_deref() {
        Ok("any") => Ok(Expected::Any),
        Ok("empty") => Ok(Expected::Empty),
        Ok("exists") => Ok(Expected::Exists),
        _ => {
            let what = "a number from 0, \"any\", \"empty\" and \"exists\" are possible";
            Err(invalid(format!("expected is {given}; {what}")))
        }
    }
}

fn order(text: &str) -> PyResult<Order> {
    match text {
        "created" => Ok(Order::Created),
        "-created" => Ok(Order::CreatedDescending),
        "updated" => Ok(Order::Updated),
        "-updated" => Ok(Order::UpdatedDescending),
        _ => Err(invalid(format!("order is {text}; created, -created, updated and -updated are possible"))),
    }
}

fn limits(rows_max: Option<usize>, seconds_max: Option<f64>) -> PyResult<SqlLimits> {
    let mut limits = SqlLimits::default();
    if let Some(rows) = rows_max {
        limits = limits.rows_max(rows);
    }
    if let Some(seconds) = seconds_max {
        let time = Duration::try_from_secs_f64(seconds)
            .map_err(|_| invalid(format!("seconds_max is {seconds}; it has to be a positive number")))?;
        limits = limits.time_max(time);
    }
    Ok(limits)
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, *, read_only, create, durable, user))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        read_only: bool,
        create: bool,
        durable: bool,
        user: Option<String>,
    ) -> PyResult<Self> {
        let durability = if durable { Durability::Full } else { Durability::Normal };
        let mut actor = Actor::default().program("python".to_owned());
        if user.is_some() {
            actor = actor.user(user);
        }
        let options =
            Options::default().read_only(read_only).create(create).durability(durability).actor(actor);
        let store = py.detach(|| match path {
            Some(path) => annals::Store::open_with(path, &options),
            None => annals::Store::in_memory(&options),
        });
        let store = store.map_err(raised)?;
        ends::remember(&store);
        Ok(Self(RwLock::new(Some(store))))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.0.write().unwrap_or_else(PoisonError::into_inner).take();
        // Iterators, and calls of other threads, have handles of their own.
        py.detach(|| store.map_or(Ok(()), |store| store.close())).map_err(raised)
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    #[getter]
    fn path(&self) -> PyResult<Option<PathBuf>> {
        let store = self.get()?;
        Ok((!store.is_in_memory()).then(|| store.path()))
    }

    /// Whether another copy of SQLite in this process cannot harm the store.
    #[getter]
    fn locks_are_own(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |store| {
            // A store that has read nothing yet has no locks.
            store.last_position()?;
            Ok(store.maintenance().locks_are_own())
        })
    }

    #[getter]
    fn last_position(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |store| Ok(store.last_position()?.0))
    }

    #[pyo3(signature = (*, statuses, title, workspace, source, model, started_by, created_from, created_before, order_by, after, limit))]
    #[allow(clippy::too_many_arguments, reason = "the Python module passes them by name")]
    fn conversations(
        &self,
        py: Python<'_>,
        statuses: Vec<String>,
        title: Option<String>,
        workspace: Option<String>,
        source: Option<String>,
        model: Option<String>,
        started_by: Option<String>,
        created_from: Option<&str>,
        created_before: Option<&str>,
        order_by: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PyResult<(Vec<Conversation>, Option<String>)> {
        let filter = ConversationFilter::default()
            .statuses(statuses)
            .title(title)
            .workspace(workspace)
            .source(source)
            .model(model)
            .started_by(started_by)
            .created_from(time(created_from)?)
            .created_before(time(created_before)?);
        let (order, after) = (order(order_by)?, after.map(id).transpose()?);
        let page = self.with(py, |store| store.conversations(&filter, order, after.as_ref(), limit))?;
        let rows = page.conversations.into_iter().map(Conversation::from).collect();
        Ok((rows, page.next.map(|next| next.to_string())))
    }

    fn conversation(&self, py: Python<'_>, conversation: &str) -> PyResult<Conversation> {
        let id = id(conversation)?;
        Ok(self.with(py, |store| store.conversation(&id))?.into())
    }

    fn contains(&self, py: Python<'_>, conversation: &str) -> PyResult<bool> {
        let id = id(conversation)?;
        self.with(py, |store| store.contains(&id))
    }

    fn resolve(&self, py: Python<'_>, prefix: &str) -> PyResult<String> {
        self.with(py, |store| Ok(store.resolve(prefix)?.to_string()))
    }

    fn count(&self, py: Python<'_>, conversation: &str) -> PyResult<u64> {
        let id = id(conversation)?;
        self.with(py, |store| match store.find(&id)? {
            Some(row) => Ok(row.event_count),
            None => Ok(0),
        })
    }

    #[pyo3(signature = (conversation, *, start, stop, kinds, sources, tool, descending, limit))]
    #[allow(clippy::too_many_arguments, reason = "the Python module passes them by name")]
    fn events(
        &self,
        py: Python<'_>,
        conversation: &str,
        start: Option<u64>,
        stop: Option<u64>,
        kinds: Vec<String>,
        sources: Vec<String>,
        tool: Option<String>,
        descending: bool,
        limit: usize,
    ) -> PyResult<(Vec<Event>, Option<u64>)> {
        let id = id(conversation)?;
        let query = EventQuery::default()
            .from(start.map(Sequence))
            .to(stop.map(Sequence))
            .kinds(kinds)
            .sources(sources)
            .tool(tool)
            .descending(descending);
        let page = self.with(py, |store| {
            // Payloads may be large, so a page ends at 4 MiB.
            let mut bytes = 0;
            store.events_while(&id, &query, limit, |size| {
                let first = bytes == 0;
                bytes += size;
                first || bytes <= 4 << 20
            })
        })?;
        let events = page.events.into_iter().map(|event| Event::new(&id, event)).collect();
        Ok((events, page.next.map(|next| next.0)))
    }

    fn event(&self, py: Python<'_>, conversation: &str, event: &str) -> PyResult<Event> {
        let (id, event) = (id(conversation)?, event_id(event)?);
        Ok(Event::new(&id, self.with(py, |store| store.event(&id, &event))?))
    }

    /// Returns the ids of all events from `start` on.
    fn event_ids(&self, py: Python<'_>, conversation: &str, start: u64) -> PyResult<Vec<String>> {
        let id = id(conversation)?;
        self.with(py, |store| {
            let mut ids = Vec::new();
            store.scan(&id, Sequence(start), |event| {
                ids.push(event.id.to_string());
                Ok(true)
            })?;
            Ok(ids)
        })
    }

    fn append(
        &self,
        py: Python<'_>,
        conversation: &str,
        payloads: Vec<String>,
        expected_length: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Appended>> {
        let (id, expected) = (id(conversation)?, expected(expected_length)?);
        let appended = self.with(py, |store| {
            let events: Vec<NewEvent> =
                payloads.into_iter().map(NewEvent::parse).collect::<Result<_, _>>()?;
            store.append(&id, expected, &events)
        })?;
        Ok(appended.into_iter().map(Appended::from).collect())
    }

    fn append_at(
        &self,
        py: Python<'_>,
        conversation: &str,
        sequence: u64,
        event: &str,
        payload: String,
    ) -> PyResult<Appended> {
        let id = id(conversation)?;
        let new = NewEvent::parse(payload).map_err(|error| raised(error.into()))?;
        if new.id().as_str() != event {
            return Err(invalid(format!("the event has the id {} and not {event}", new.id())));
        }
        let appended = self.with(py, |store| store.append(&id, Expected::Exact(sequence), &[new]))?;
        Ok(appended.into_iter().next().ok_or_else(|| invalid("no event was appended"))?.into())
    }

    fn transcript(
        &self,
        py: Python<'_>,
        conversation: &str,
        start: u64,
        limit: usize,
    ) -> PyResult<Vec<Line>> {
        let id = id(conversation)?;
        let lines = self.with(py, |store| store.transcript(&id, Sequence(start), limit))?;
        Ok(lines.into_iter().map(Line::from).collect())
    }

    #[pyo3(signature = (text, *, conversation, kinds, tool, workspace, since, until, limit))]
    #[allow(clippy::too_many_arguments, reason = "the Python module passes them by name")]
    fn search(
        &self,
        py: Python<'_>,
        text: &str,
        conversation: Option<&str>,
        kinds: Vec<String>,
        tool: Option<String>,
        workspace: Option<String>,
        since: Option<&str>,
        until: Option<&str>,
        limit: usize,
    ) -> PyResult<Vec<Hit>> {
        let filter = SearchFilter::default()
            .conversation(conversation.map(id).transpose()?)
            .kinds(kinds)
            .tool(tool)
            .workspace(workspace)
            .since(time(since)?)
            .until(time(until)?);
        let hits = self.with(py, |store| store.search(text, &filter, limit, &mut |_| ()))?;
        Ok(hits.into_iter().map(Hit::from).collect())
    }

    /// Returns the columns, the rows, and why rows may be missing.
    #[pyo3(signature = (sql, parameters, rows_max, seconds_max))]
    #[allow(clippy::type_complexity, reason = "a tuple of Python objects")]
    fn query<'py>(
        &self,
        py: Python<'py>,
        sql: &str,
        parameters: Option<Bound<'py, PyDict>>,
        rows_max: Option<usize>,
        seconds_max: Option<f64>,
    ) -> PyResult<(Vec<String>, Vec<Bound<'py, PyTuple>>, Option<&'static str>)> {
        let parameters = parameters.as_ref().map(query::parameters).transpose()?.unwrap_or_default();
        let limits = limits(rows_max, seconds_max)?;
        let answer =
            self.with(py, |store| store.query(&SqlQuery::new(sql).parameters(&parameters).limits(limits)))?;
        let rows = answer.rows.into_iter().map(|row| {
            let values: Vec<_> =
                row.into_iter().map(|value| query::to_python(py, value)).collect::<PyResult<_>>()?;
            PyTuple::new(py, values)
        });
        Ok((answer.columns, rows.collect::<PyResult<_>>()?, answer.truncated.map(|why| why.as_str())))
    }

    fn usage(&self, py: Python<'_>, conversation: Option<&str>) -> PyResult<Vec<Usage>> {
        let id = conversation.map(id).transpose()?;
        let totals = self.with(py, |store| store.usage(id.as_ref()))?;
        Ok(totals.into_iter().map(Usage::from).collect())
    }

    fn verify(&self, py: Python<'_>, conversation: Option<&str>) -> PyResult<Verification> {
        let id = conversation.map(id).transpose()?;
        let seen = self.with(py, |store| match &id {
            Some(id) => store.audit().verify(Some(id), &mut |_| ()),
            None => store.audit().verify_whole(&mut |_| ()),
        })?;
        Ok(seen.into())
    }

    #[pyo3(signature = (*, after, conversation, kinds))]
    fn follow(
        &self,
        after: u64,
        conversation: Option<(String, Option<u64>)>,
        kinds: Vec<String>,
    ) -> PyResult<Follower> {
        let store = self.get()?;
        let follower = match conversation {
            Some((name, last)) => store.follow_conversation(&id(&name)?, last.map(Sequence)),
            None => store.follow(Position(after)),
        };
        Ok(Follower::new(follower.kinds(kinds)))
    }

    fn base_state(&self, py: Python<'_>, conversation: &str) -> PyResult<Option<String>> {
        let id = id(conversation)?;
        self.with(py, |store| Ok(store.base_state(&id)?.map(|state| state.document.into_string())))
    }

    fn put_base_state(&self, py: Python<'_>, conversation: &str, document: String) -> PyResult<u64> {
        let id = id(conversation)?;
        self.with(py, |store| Ok(store.put_base_state(&id, &BaseDocument::parse(document)?)?.0))
    }

    fn set_title(&self, py: Python<'_>, conversation: &str, title: Option<&str>) -> PyResult<()> {
        let id = id(conversation)?;
        self.with(py, |store| store.set_title(&id, title))
    }

    fn attachments(&self, py: Python<'_>, conversation: &str) -> PyResult<Vec<Attachment>> {
        let id = id(conversation)?;
        let files = self.with(py, |store| store.attachments(&id))?;
        Ok(files.into_iter().map(Attachment::from).collect())
    }

    fn attach(&self, py: Python<'_>, conversation: &str, path: &str, content: &[u8]) -> PyResult<()> {
        let id = id(conversation)?;
        self.with(py, |store| store.attach(&id, path, content))
    }

    fn detach(&self, py: Python<'_>, conversation: &str, path: &str) -> PyResult<()> {
        let id = id(conversation)?;
        self.with(py, |store| store.detach(&id, path))
    }

    fn read_attachment<'py>(
        &self,
        py: Python<'py>,
        conversation: &str,
        path: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let id = id(conversation)?;
        let content = self.with(py, |store| {
            let mut content = Vec::new();
            store.read_attachment(&id, path, &mut content)?;
            Ok(content)
        })?;
        Ok(PyBytes::new(py, &content))
    }

    fn import_path(&self, py: Python<'_>, path: PathBuf, dry_run: bool) -> PyResult<Vec<Imported>> {
        let reports = self.with(py, |store| {
            let options = ImportOptions::default().dry_run(dry_run);
            Importer::new(store, options).import(&path, &mut |_| ())
        })?;
        Ok(reports.into_iter().map(Imported::from).collect())
    }

    fn export(
        &self,
        py: Python<'_>,
        conversation: &str,
        folder: PathBuf,
        upgrade: bool,
    ) -> PyResult<PathBuf> {
        let id = id(conversation)?;
        let format = if upgrade { Format::Upgraded } else { Format::OpenHands };
        Ok(self.with(py, |store| Exporter::new(store, format).export(&id, &folder, &mut |_| ()))?.path)
    }

    fn delete(&self, py: Python<'_>, conversation: &str) -> PyResult<u64> {
        let id = id(conversation)?;
        self.with(py, |store| store.retention().delete(&id))
    }
}
