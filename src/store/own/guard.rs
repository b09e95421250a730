//! Keeps statements of a host's own projection to the tables of that projection.
//!
//! The engine asks an authorizer while it prepares a statement. It stays on the connection, because setting one makes the
//! engine prepare every statement again. It allows everything except while a statement of a host runs on this thread.

use std::cell::RefCell;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use crate::store::engine::functions::{JSON_TABLES, PURE, is_one};

/// Functions that such a statement may call beside the [`PURE`] ones. Their results depend only on their arguments too. Their
/// memory is not bounded by the size of the arguments, and a host's own code needs no such bound.
const BESIDE: &[&str] = &["json_patch", "unhex", "zeroblob"];

/// What the statements on this thread may do, and what they were refused.
pub(super) struct Asking {
    /// How the names of the tables begin: `own_shop_parcels`.
    pub base: Arc<str>,
    /// Whether they may write.
    pub writes: bool,
    pub refused: Option<String>,
}

thread_local! {
    /// `None` while no statement of a host runs.
    static ASKING: RefCell<Option<Asking>> = const { RefCell::new(None) };
}

/// Puts the guard on a connection on which statements of a host may run.
pub(in crate::store) fn install(db: &Connection) -> rusqlite::Result<()> {
    db.authorizer(Some(|context: AuthContext<'_>| {
        ASKING.with_borrow_mut(|asking| {
            let Some(asking) = asking else { return Authorization::Allow };
            match judge(asking, &context) {
                Ok(()) => Authorization::Allow,
                Err(what) => {
                    asking.refused.get_or_insert(what);
                    Authorization::Deny
                }
            }
        })
    }))
}

/// Runs `work`, whose statements on this thread are those of a host. Also returns the first refusal.
pub(super) fn guarded<T>(asking: Asking, work: impl FnOnce() -> T) -> (T, Option<String>) {
    /// Also after a panic: what runs next on this thread is not a host's.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            ASKING.take();
        }
    }
    ASKING.replace(Some(asking));
    let end = End;
    let done = work();
    let refused = ASKING.take().and_then(|asking| asking.refused);
    drop(end);
    (done, refused)
}

/// Returns whether a table or an index of this name belongs to the projection whose names begin with `base`.
pub(in crate::store) fn belongs(name: &str, base: &str) -> bool {
    name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

fn judge(asking: &Asking, context: &AuthContext<'_>) -> Result<(), String> {
    let own = |table: &str| {
        let in_file = context.database_name.is_none_or(|database| database == "main");
        // The accessor is a trigger or a view, and neither is the projection's.
        in_file && context.accessor.is_none() && belongs(&table.to_ascii_lowercase(), &asking.base)
    };
    match context.action {
        AuthAction::Select | AuthAction::Recursive => Ok(()),
        AuthAction::Function { function_name }
            if is_one(PURE, function_name) || is_one(BESIDE, function_name) =>
        {
            Ok(())
        }
        AuthAction::Function { function_name } => Err(format!(
            "it calls {function_name}(), which is not one of the functions whose results depend only on their arguments"
        )),
        AuthAction::Read { table_name, .. } if own(table_name) || is_one(JSON_TABLES, table_name) => Ok(()),
        AuthAction::Read { table_name, .. } => {
            Err(format!("it reads {table_name}, which is not a table of the projection"))
        }
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. } => match (asking.writes, own(table_name)) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("it writes {table_name}, which is not a table of the projection")),
            (false, _) => Err("it writes, and only OwnProjection::apply may write".into()),
        },
        _ => Err("it is not one of SELECT, INSERT, UPDATE and DELETE".into()),
    }
}
