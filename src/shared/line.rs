//! The connection to the server, on a thread of its own.
//!
//! The client runs on a small runtime, and a runtime must not be entered from within another one. So callers of any kind
//! hand their work to this thread and wait for it. A connection that was lost is made again by the next piece of work.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use postgres::{NoTls, Statement};

use super::address::Address;
use super::client::Client;
use crate::error::{Error, Result, SharedError};

/// Sessions that stop in the middle of a write give the order back after this time: a node that was stopped must not stop
/// the others.
const IDLE_IN_WRITE: &str = "60s";

/// Every statement finds its rows by an index. The server would plan some of them anew each time, which takes longer than
/// they do, and read a whole table if it believes that it is small.
const PLANS: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";

type Job = Box<dyn FnOnce(&mut Session) + Send>;

/// How much longer a caller waits for an answer than the server waits for the order: a server that was stopped never answers.
const ANSWER: u32 = 4;
const ANSWER_MIN: Duration = Duration::from_secs(2);

/// What a slow way to the server carries, in bytes a second: 1 MiB.
const BYTES_A_SECOND: usize = 1 << 20;

/// How long a caller waits for a page of a log, which the server may have to look for.
const PAGE: Duration = Duration::from_secs(600);

/// The way to the thread. If the server does not answer for too long, another thread with another connection takes its place.
pub(super) struct Line {
    jobs: Mutex<mpsc::Sender<Job>>,
    address: Address,
    /// How long a statement waits for the order.
    patience: Duration,
}

/// There was no answer in time. What was asked for may still happen, until the server has ended the transaction.
pub(super) struct Silent;

/// The connection, on its thread.
pub(super) struct Session {
    address: Address,
    /// How long a statement waits for the order, in milliseconds.
    patience_ms: u128,
    client: Option<Client>,
    statements: HashMap<&'static str, Statement>,
}

impl Line {
    /// Starts the thread. It connects with the first piece of work.
    ///
    /// # Errors
    /// [`SharedError::Unreachable`] if the system gives no further thread.
    pub(super) fn start(address: &Address, patience: Duration) -> Result<Self> {
        let jobs = Mutex::new(thread(address, patience)?);
        Ok(Self { jobs, address: address.clone(), patience })
    }

    /// Does a piece of work and waits for its result.
    ///
    /// # Errors
    /// [`SharedError::Unreachable`] if there is no answer in time. An open transaction is lost then.
    pub(super) fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ask(0, work).unwrap_or_else(|Silent| Err(no_answer()))
    }

    /// Does the same for work that reads much.
    pub(super) fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ask_within(PAGE, work).unwrap_or_else(|Silent| Err(no_answer()))
    }

    /// Sends `bytes` with a piece of work, and waits for its result for some time.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> std::result::Result<Result<T>, Silent> {
        let way = Duration::from_secs((bytes / BYTES_A_SECOND) as u64);
        self.ask_within((self.patience * ANSWER).max(ANSWER_MIN) + way, work)
    }

    fn ask_within<T: Send + 'static>(
        &self,
        time: Duration,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> std::result::Result<Result<T>, Silent> {
        let (answer, answers) = mpsc::sync_channel(1);
        self.send(move |session| {
            // If the caller has gone, nothing of what was begun may stay.
            if answer.send(work(session)).is_err() {
                session.hang_up();
            }
        });
        match answers.recv_timeout(time) {
            Ok(done) => Ok(done),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Ok(Err(unreachable("waiting for the connection", "its thread has ended")))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // The thread that waits ends as soon as it can. Without another one, the next call fails.
                if let Ok(jobs) = thread(&self.address, self.patience) {
                    *self.jobs() = jobs;
                }
                Err(Silent)
            }
        }
    }

    /// Does a piece of work after those before it. Its result does not matter.
    pub(super) fn send(&self, work: impl FnOnce(&mut Session) + Send + 'static) {
        let _thread_is_gone = self.jobs().send(Box::new(work));
    }

    fn jobs(&self) -> MutexGuard<'_, mpsc::Sender<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread. It ends when the sender of its jobs is dropped.
fn thread(address: &Address, patience: Duration) -> Result<mpsc::Sender<Job>> {
    let (jobs, work) = mpsc::channel::<Job>();
    let mut session = Session {
        address: address.clone(),
        patience_ms: patience.as_millis(),
        client: None,
        statements: HashMap::new(),
    };
    std::thread::Builder::new()
        .name("annals-shared".into())
        .spawn(move || work.into_iter().for_each(|job| job(&mut session)))
        .map_err(|source| unreachable("starting a thread", source))?;
    Ok(jobs)
}

fn no_answer() -> Error {
    unreachable("waiting for an answer", "the server is silent")
}

impl Session {
    /// Returns the connection, which may be a new one.
    ///
    /// # Errors
    /// [`SharedError::Unreachable`].
    pub(super) fn client(&mut self) -> Result<&Client> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.statements.clear();
            self.client = None;
            let client = Client::connect(&self.address)?;
            let schema = self.address.quoted();
            let settings = format!(
                "SET search_path TO {schema}; SET idle_in_transaction_session_timeout = '{IDLE_IN_WRITE}'; \
                 SET lock_timeout = {}; SET client_min_messages = warning; {PLANS}",
                self.patience_ms.clamp(1, i32::MAX as u128)
            );
            client.batch_execute(&settings).map_err(failed("connecting"))?;
            self.client = Some(client);
        }
        self.client.as_ref().ok_or_else(|| unreachable("connecting", "there is no connection"))
    }

    /// Returns the connection that there is. A transaction that was begun is on it, or it is lost.
    ///
    /// # Errors
    /// [`SharedError::Unreachable`].
    pub(super) fn same_client(&self) -> Result<&Client> {
        match &self.client {
            Some(client) if !client.is_closed() => Ok(client),
            _ => Err(unreachable("continuing a transaction", "the connection was lost")),
        }
    }

    /// Returns the connection that there is, and a statement that is prepared on it.
    pub(super) fn prepared(&mut self, sql: &'static str) -> Result<(&Client, Statement)> {
        if let Some(statement) = self.statements.get(sql).cloned() {
            return Ok((self.same_client()?, statement));
        }
        let statement = self.same_client()?.prepare(sql).map_err(failed("preparing a statement"))?;
        self.statements.insert(sql, statement.clone());
        Ok((self.same_client()?, statement))
    }

    /// Ends the transaction that is open, if any. A connection on which that fails is dropped.
    pub(super) fn rollback(&mut self) {
        if let Some(client) = &self.client
            && (client.is_closed() || client.batch_execute("ROLLBACK").is_err())
        {
            self.hang_up();
        }
    }

    /// Drops the connection.
    pub(super) fn hang_up(&mut self) {
        self.client = None;
        self.statements.clear();
    }
}

/// Does work that connects, on a thread of its own: the caller may be within a runtime.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Connects to the server. Not within a runtime.
///
/// # Errors
/// [`SharedError::Unreachable`].
pub(super) fn connect(address: &Address) -> Result<postgres::Client> {
    connect_as(address, &postgres::Config::from(address.config.clone()))
}

/// The same, with other settings.
pub(super) fn connect_as(address: &Address, config: &postgres::Config) -> Result<postgres::Client> {
    let connected = match address.tls()? {
        Some(tls) => config.connect(tls),
        None => config.connect(NoTls),
    };
    connected.map_err(failed("connecting"))
}

/// Makes the error for what the server or the network says while something is done.
pub(super) fn failed(doing: &'static str) -> impl Fn(postgres::Error) -> Error {
    move |error| {
        let code = error.code().cloned();
        if code == Some(postgres::error::SqlState::LOCK_NOT_AVAILABLE) {
            return Error::Busy { waited_ms: 0, holder: None };
        }
        // Only the server's first line: its details may have values of rows.
        match error.as_db_error() {
            Some(server) => unreachable(doing, format!("{} ({})", server.message(), server.code().code())),
            None => match std::error::Error::source(&error) {
                Some(cause) => unreachable(doing, format!("{error}: {cause}")),
                None => unreachable(doing, error),
            },
        }
    }
}

/// Makes the error for a log that cannot be used.
pub(super) fn unreachable(doing: &'static str, source: impl Into<crate::error::Source>) -> Error {
    SharedError::Unreachable { doing, source: source.into() }.into()
}
