//! A connection on which statements can be sent together: the second does not wait for the answer to the first.
//!
//! The server does them one after the other. A way to another machine costs as much as some statements, so what is asked
//! together takes half the time.

use std::future::Future;

use postgres::types::ToSql;
use postgres::{Error, NoTls, Row, SimpleQueryMessage, Statement, ToStatement};
use tokio::runtime::{Builder, Runtime};

use super::address::{Address, CONNECT_TIMEOUT};
use super::line::{failed, unreachable};
use crate::error::Result;

type Parameters<'p> = &'p [&'p (dyn ToSql + Sync)];

/// A connection. It belongs to one thread, which must not be within a runtime. Dropping it closes the connection at once.
pub(super) struct Client {
    client: tokio_postgres::Client,
    /// Dropped last: what speaks to the server runs on it, while the thread waits.
    runtime: Runtime,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`SharedError::Unreachable`](crate::error::SharedError::Unreachable).
    pub(super) fn connect(address: &Address) -> Result<Self> {
        let doing = "connecting";
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| unreachable("starting a runtime", source))?;
        let tls = address.tls()?;
        let config = &address.config;
        let connecting = async {
            let client = match tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls).await?;
                    drop(tokio::spawn(connection));
                    client
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    drop(tokio::spawn(connection));
                    client
                }
            };
            Ok(client)
        };
        // The time-out of an address ends with the first packet. A server that was stopped accepts connections, and is silent.
        let time = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        let connected = runtime.block_on(async { tokio::time::timeout(time, connecting).await });
        let client = connected.map_err(|_| unreachable(doing, "the server is silent"))?;
        Ok(Self { client: client.map_err(failed(doing))?, runtime })
    }

    /// Returns whether the connection is known to be lost.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits for `work`, which may send several statements at once.
    pub(super) fn wait<'c, F: Future>(
        &'c self,
        work: impl FnOnce(&'c tokio_postgres::Client) -> F,
    ) -> F::Output {
        self.runtime.block_on(work(&self.client))
    }

    pub(super) fn prepare(&self, sql: &str) -> std::result::Result<Statement, Error> {
        self.wait(|client| client.prepare(sql))
    }

    pub(super) fn execute<S: ?Sized + ToStatement>(
        &self,
        statement: &S,
        parameters: Parameters<'_>,
    ) -> std::result::Result<u64, Error> {
        self.wait(|client| client.execute(statement, parameters))
    }

    pub(super) fn query(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> std::result::Result<Vec<Row>, Error> {
        self.wait(|client| client.query(statement, parameters))
    }

    pub(super) fn query_one(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> std::result::Result<Row, Error> {
        self.wait(|client| client.query_one(statement, parameters))
    }

    pub(super) fn query_opt<S: ?Sized + ToStatement>(
        &self,
        statement: &S,
        parameters: Parameters<'_>,
    ) -> std::result::Result<Option<Row>, Error> {
        self.wait(|client| client.query_opt(statement, parameters))
    }

    pub(super) fn simple_query(&self, sql: &str) -> std::result::Result<Vec<SimpleQueryMessage>, Error> {
        self.wait(|client| client.simple_query(sql))
    }

    pub(super) fn batch_execute(&self, sql: &str) -> std::result::Result<(), Error> {
        self.wait(|client| client.batch_execute(sql))
    }
}
