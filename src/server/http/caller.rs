//! Who calls: the key of a request, its name and its role.
//!
//! A key of the configuration has no name and may do everything. A named key is in the store's file, by its SHA-256. It
//! may be added and revoked by another process; the next request notices. What is open for longer, a socket or a feed,
//! ends when its key is revoked.

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::{Choice, ConstantTimeEq};
use tokio::sync::watch;

use super::exposure;
use super::failure::Failure;
use super::roles::{self, Need};
use crate::chain::Digest;
use crate::server::Config;
use crate::store::{KeyRole, ServerKey, ServerKeys, Store};

/// How often the keys are read while something is open that must end with its key.
const REVOCATION_INTERVAL: Duration = Duration::from_millis(250);

/// The caller of a request.
#[derive(Debug, Clone)]
pub(in crate::server) struct Caller {
    who: Who,
    role: KeyRole,
    /// Whether the server changes nothing, whatever the role is.
    reads_only: bool,
}

#[derive(Debug, Clone)]
enum Who {
    /// Anyone, because the server has no keys.
    Anyone,
    /// A holder of a key of the configuration.
    Session,
    /// The holder of a named key, with the key's number.
    Named { name: Arc<str>, number: u64 },
}

impl Caller {
    /// Returns the name of the caller's key. `None` if it has none.
    pub fn name(&self) -> Option<&Arc<str>> {
        match &self.who {
            Who::Named { name, .. } => Some(name),
            Who::Anyone | Who::Session => None,
        }
    }

    /// Returns the user that records name for what the caller does. `None`: the user who runs the server.
    pub fn user(&self) -> Option<String> {
        self.name().map(|name| format!("{name} (server key)"))
    }

    /// Returns the caller's role.
    pub fn role(&self) -> KeyRole {
        self.role
    }

    /// Returns whether the server changes nothing, whatever the role is.
    pub fn reads_only(&self) -> bool {
        self.reads_only
    }

    /// Returns whether the caller has at least this role.
    pub fn may(&self, need: KeyRole) -> bool {
        self.role >= need
    }

    /// Checks whether the caller may change something that needs a role.
    ///
    /// # Errors
    /// 403 that names the key, its role and the role that is needed; 403 if the server changes nothing.
    pub fn check_change(&self, need: KeyRole) -> Result<(), Failure> {
        self.check(need)?;
        if self.reads_only {
            let text =
                "This server only reads (annals serve --read-only): it changes nothing and runs nothing.";
            return Err(Failure::Refused(StatusCode::FORBIDDEN, text.to_owned()));
        }
        Ok(())
    }

    /// Checks whether the caller may see something that needs a role.
    ///
    /// # Errors
    /// 403 that names the key, its role and the role that is needed.
    pub fn check(&self, need: KeyRole) -> Result<(), Failure> {
        if self.may(need) {
            return Ok(());
        }
        let name = self.name().map(|name| format!("{name} ")).unwrap_or_default();
        let (role, need) = (self.role.as_str(), need.as_str());
        let text = format!("The key {name}has the role {role}; this needs the role {need}.");
        Err(Failure::Refused(StatusCode::FORBIDDEN, text))
    }
}

/// The keys of a server.
pub(in crate::server) struct Keys {
    config: Arc<Config>,
    stored: Arc<ServerKeys>,
    reads_only: bool,
    /// The named keys that were read last.
    known: watch::Sender<Arc<Vec<ServerKey>>>,
}

impl Keys {
    /// Makes the keys of a server on this store. Must be called within a tokio runtime.
    pub fn start(store: &Store, config: &Arc<Config>) -> Arc<Self> {
        let keys = Arc::new(Self {
            config: Arc::clone(config),
            stored: Arc::new(ServerKeys::new(store)),
            reads_only: store.is_read_only(),
            known: watch::Sender::default(),
        });
        tokio::spawn(look_for_revocations(Arc::downgrade(&keys)));
        keys
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the named keys, also those that were revoked. A change by another process is noticed at once.
    async fn named(&self) -> Result<Arc<Vec<ServerKey>>, Failure> {
        let keys = match self.stored.known()? {
            Some(keys) => keys,
            None => {
                let stored = Arc::clone(&self.stored);
                let read = tokio::task::spawn_blocking(move || stored.read()).await;
                read.map_err(|_| Failure::internal("a worker ended unexpectedly"))??
            }
        };
        self.known.send_if_modified(|known| {
            let is_new = !Arc::ptr_eq(known, &keys) && *known != keys;
            if is_new {
                *known = Arc::clone(&keys);
            }
            is_new
        });
        Ok(keys)
    }

    /// Returns whether everyone may call, because there is no key at all. A revoked key counts as a key.
    pub async fn are_missing(&self) -> bool {
        self.config.session_keys.is_empty() && self.named().await.is_ok_and(|named| named.is_empty())
    }

    /// Returns the caller who gave these keys, of which one has to be right. `None` if none is, or if none is given and
    /// one is needed. The time that this takes reveals only the number of the keys, and the lengths of those of the
    /// configuration.
    ///
    /// # Errors
    /// An error of reading the named keys.
    pub async fn caller(&self, given: &[&str]) -> Result<Option<Caller>, Failure> {
        let caller = |who, role| Some(Caller { who, role, reads_only: self.reads_only });
        let session = &self.config.session_keys;
        for key in given {
            let is_equal = |known: &String| known.as_bytes().ct_eq(key.as_bytes());
            let is_one = session.iter().fold(Choice::from(0), |found, known| found | is_equal(known));
            if bool::from(is_one) {
                return Ok(caller(Who::Session, KeyRole::Admin));
            }
        }
        let named = self.named().await?;
        if session.is_empty() && named.is_empty() {
            return Ok(caller(Who::Anyone, KeyRole::Admin));
        }
        for key in given {
            let digest = Digest::of(key.as_bytes());
            let mut found = None;
            // All are compared, whichever it is.
            for one in named.iter().filter(|one| one.is_in_use()) {
                if bool::from(one.digest.0.ct_eq(&digest.0)) {
                    found = one.role.map(|role| (one, role));
                }
            }
            if let Some((one, role)) = found {
                let who = Who::Named { name: one.name.as_str().into(), number: one.number };
                return Ok(caller(who, role));
            }
        }
        Ok(None)
    }

    /// Returns the names of the named keys that may be used.
    pub async fn names(&self) -> Result<Vec<String>, Failure> {
        let named = self.named().await?;
        Ok(named.iter().filter(|key| key.is_in_use()).map(|key| key.name.clone()).collect())
    }

    /// Completes when the caller may no longer use the server: its key was revoked, or it has none and one is needed
    /// now.
    pub async fn revoked(&self, caller: &Caller) {
        let mut known = self.known.subscribe();
        loop {
            let is_over = {
                let keys = known.borrow_and_update();
                match &caller.who {
                    Who::Session => false,
                    Who::Anyone => !keys.is_empty(),
                    Who::Named { number, .. } => {
                        !keys.iter().any(|key| key.number == *number && key.is_in_use())
                    }
                }
            };
            if is_over {
                return;
            }
            if known.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// Reads the keys from time to time while something waits for a revocation, until the server is gone.
async fn look_for_revocations(keys: Weak<Keys>) {
    let mut rounds = tokio::time::interval(REVOCATION_INTERVAL);
    loop {
        rounds.tick().await;
        let Some(keys) = keys.upgrade() else { return };
        if keys.known.receiver_count() > 0 {
            // If they cannot be read now, the next round reads them.
            let _unread = keys.named().await;
        }
    }
}

/// Passes a request on if one of the given keys has the role that the route needs.
///
/// The caller is an extension of the request, for handlers, and of the response, for metrics. Rejects others with 401,
/// and callers whose role is too small with 403.
pub(in crate::server) async fn admit(
    keys: &Keys,
    given: &[&str],
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match keys.caller(given).await {
        Ok(Some(caller)) => caller,
        Ok(None) => {
            return Failure::Refused(StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()).into_response();
        }
        Err(failure) => return failure.into_response(),
    };
    let path = request.extensions().get::<MatchedPath>();
    // An unknown path needs no role: the answer is 404.
    let need = path.map_or(Need::Nothing, |path| roles::need(request.method(), path.as_str()));
    let checked = check(&caller, need, request.method(), request.headers());
    let mut response = match checked {
        Ok(()) => {
            request.extensions_mut().insert(caller.clone());
            next.run(request).await
        }
        Err(failure) => failure.into_response(),
    };
    response.extensions_mut().insert(caller);
    response
}

fn check(caller: &Caller, need: Need, method: &Method, headers: &HeaderMap) -> Result<(), Failure> {
    let Need::Role(role) = need else { return Ok(()) };
    if exposure::is_asked(headers) {
        caller.check(KeyRole::Admin)?;
    }
    // What only needs the right to read changes nothing, whatever its method is.
    let changes = role > KeyRole::Read && !matches!(*method, Method::GET | Method::HEAD);
    if changes { caller.check_change(role) } else { caller.check(role) }
}
