//! Makes the facts of a conversation from its clues and from what stands beside its events: the base state, `meta.json`,
//! the import, the chain of changes.
//!
//! What stands beside the events comes before what events say. A base state or a file that cannot be read says nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{DOING, shown};
use crate::error::Result;
use crate::json::Raw;
use crate::state::base::BaseDocument;
use crate::state::upcast;
use crate::store::engine::{WhileDoing as _, is_damage};
use crate::store::table::{base_state, catalogue};

/// The source of a conversation that was not imported.
const ANNALS: &str = "annals";

/// The source of a conversation that was imported and is no copy of another program's log.
const OPENHANDS: &str = "openhands";

/// The file of the agent-server, and that of OpenHands V0. Larger ones than 1 MiB are not read.
const META: &str = "SELECT b.content FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
     WHERE a.conversation = ?1 AND a.path IN ('meta.json', 'metadata.json') AND octet_length(b.content) <= 1048576 \
     ORDER BY a.path";
/// The first change tells who started a conversation if it came before all events, and neither an import nor the upgrade
/// of an old file wrote it. A server writes the base state for its own process, and then `meta.json` for its caller.
const ABOUT: &str = "SELECT c.foreign_format, \
     EXISTS (SELECT 1 FROM origin AS o WHERE o.conversation = c.key), \
     EXISTS (SELECT 1 FROM arrival AS r WHERE r.conversation = c.key), \
     (SELECT coalesce((SELECT m.actor FROM change AS m WHERE m.conversation = c.key AND m.number BETWEEN 2 AND 9 \
          AND m.subject = 'attachment' AND m.name = 'meta.json' AND m.after_sequence = -1 ORDER BY m.number LIMIT 1), x.actor) \
      FROM change AS x WHERE x.conversation = c.key AND x.number = 1 AND x.after_sequence = -1 \
      AND x.subject IN ('base_state', 'created', 'title', 'tags', 'parent', 'fork') \
      AND x.recorded_at > coalesce((SELECT l.changes_since FROM log AS l), -1)) \
     FROM conversation AS c WHERE c.key = ?1 \
     AND (EXISTS (SELECT 1 FROM event AS e WHERE e.conversation = c.key) \
          OR EXISTS (SELECT 1 FROM base_state AS b WHERE b.conversation = c.key))";
const CLUE: &str = "SELECT value FROM conversation_clue WHERE conversation = ?1 AND what = ?2 \
     ORDER BY times DESC, value LIMIT 1";
const SAVE: &str = "INSERT INTO conversation_fact (conversation, workspace, source, model, started_by, is_by_calls) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (conversation) DO UPDATE SET workspace = excluded.workspace, \
     source = excluded.source, model = excluded.model, started_by = excluded.started_by, \
     is_by_calls = excluded.is_by_calls \
     WHERE (workspace, source, model, started_by, is_by_calls) IS NOT \
     (excluded.workspace, excluded.source, excluded.model, excluded.started_by, excluded.is_by_calls)";
const CLEAR: &str = "DELETE FROM conversation_fact WHERE conversation = ?1";

/// What the catalogue, the import and the chain of changes say.
struct About {
    /// The format of the log that the conversation is a copy of.
    format: Option<String>,
    is_imported: bool,
    /// Whether its import or copy is not finished.
    is_arriving: bool,
    /// Who made its first change, if that began it.
    actor: Option<String>,
}

/// Writes the facts of a conversation.
pub(in crate::store::derived::projection) fn renew(db: &Connection, conversation: i64) -> Result<()> {
    let Some(about) = about(db, conversation)? else {
        db.prepare_cached(CLEAR).and_then(|mut statement| statement.execute([conversation])).doing(DOING)?;
        return Ok(());
    };
    let document = match base_state::stored_document(db, conversation) {
        Err(error) if is_damage(&error) => None,
        document => document?,
    };
    let base = document.as_ref().map(|document| Raw::checked(document.as_str()));
    let files = files(db, conversation)?;
    let files: Vec<Raw<'_>> = files.iter().filter_map(|file| Raw::parse(file).ok()).collect();
    let of_files = |find: fn(Raw<'_>) -> Option<Cow<'_, str>>| {
        files.iter().find_map(|file| find(*file).and_then(|text| shown(&text)))
    };
    let of_base =
        |find: fn(Raw<'_>) -> Option<Cow<'_, str>>| base.and_then(find).and_then(|text| shown(&text));

    let mut workspace = of_base(upcast::working_dir_of).or_else(|| of_files(workspace_of_file));
    if workspace.is_none() {
        workspace = clue(db, conversation, "workspace")?;
    }
    let named = of_base(|base| base.get("agent").and_then(upcast::model_of_agent));
    let mut model = named.or_else(|| of_files(model_of_file));
    let is_by_calls = model.is_none();
    for what in ["answer", "model"] {
        if model.is_none() {
            model = clue(db, conversation, what)?;
        }
    }
    let model = model.or_else(|| document.as_ref().and_then(model_of_calls));
    let started_by = of_base(user).or_else(|| of_files(user)).or_else(|| about.starter());
    db.prepare_cached(SAVE)
        .and_then(|mut statement| {
            statement.execute(params![
                conversation,
                workspace,
                about.source(),
                model,
                started_by,
                is_by_calls
            ])
        })
        .doing(DOING)?;
    Ok(())
}

impl About {
    fn source(&self) -> Option<String> {
        match &self.format {
            Some(format) => shown(format),
            // What an unfinished import brings is not known yet.
            None if self.is_arriving => None,
            None if self.is_imported => Some(OPENHANDS.into()),
            None => Some(ANNALS.into()),
        }
    }

    /// Returns the user who started a conversation in Annals. Who imported one did not start it.
    fn starter(&self) -> Option<String> {
        let is_here = self.format.is_none() && !self.is_imported && !self.is_arriving;
        self.actor.as_deref().filter(|_| is_here).and_then(user_of_actor).and_then(|user| shown(&user))
    }
}

/// Returns the user in an actor such as `ada (uid 1000)@box annals 0.1.0`, or the name of a server's key. `None` if it
/// names no user, or no machine: then nothing separates the user from the program.
fn user_of_actor(actor: &str) -> Option<String> {
    if let Some((name, _)) = actor.split_once(" (server key)") {
        return Some(name.to_owned());
    }
    let (user, rest) = actor.rsplit_once('@')?;
    if rest.is_empty() || rest.starts_with(' ') {
        return None;
    }
    let is_uid = |aside: &str| aside.strip_prefix("uid ").is_some_and(|uid| uid.ends_with(')'));
    let name = user.rsplit_once(" (").filter(|(_, aside)| is_uid(aside));
    Some(name.map_or(user, |(name, _)| name).to_owned())
}

fn about(db: &Connection, conversation: i64) -> Result<Option<About>> {
    db.prepare_cached(ABOUT)
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok(About {
                    format: catalogue::text(row, 0)?,
                    is_imported: row.get(1)?,
                    is_arriving: row.get(2)?,
                    actor: catalogue::text(row, 3)?,
                })
            };
            statement.query_row([conversation], read).optional()
        })
        .doing(DOING)
}

/// Returns the texts of `meta.json` and `metadata.json`.
fn files(db: &Connection, conversation: i64) -> Result<Vec<String>> {
    let mut statement = db.prepare_cached(META).doing(DOING)?;
    let mut rows = statement.query([conversation]).doing(DOING)?;
    let mut texts = Vec::new();
    while let Some(row) = rows.next().doing(DOING)? {
        let content: Option<Vec<u8>> = row.get_ref(0).doing(DOING)?.as_blob().ok().map(<[u8]>::to_vec);
        texts.extend(content.and_then(|content| String::from_utf8(content).ok()));
    }
    Ok(texts)
}

/// Returns what the events say: the value that most of them name.
fn clue(db: &Connection, conversation: i64, what: &str) -> Result<Option<String>> {
    db.prepare_cached(CLUE)
        .and_then(|mut statement| {
            statement.query_row(params![conversation, what], |row| catalogue::text(row, 0)).optional()
        })
        .doing(DOING)
        .map(Option::flatten)
}

fn user(document: Raw<'_>) -> Option<Cow<'_, str>> {
    document.get("user_id").and_then(Raw::as_text)
}

fn workspace_of_file(file: Raw<'_>) -> Option<Cow<'_, str>> {
    let folder = file.get("workspace").and_then(|workspace| workspace.get("working_dir"));
    folder.or_else(|| file.get("selected_repository")).and_then(Raw::as_text)
}

fn model_of_file(file: Raw<'_>) -> Option<Cow<'_, str>> {
    let of_agent = file.get("agent").and_then(upcast::model_of_agent);
    of_agent.or_else(|| file.get("llm_model").and_then(Raw::as_text))
}

/// Returns the model that answered most of the calls in a base state.
fn model_of_calls(document: &BaseDocument) -> Option<String> {
    let usages = document.usages()?;
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for (_, metrics) in usages.members() {
        let default = metrics.get("model_name").and_then(Raw::as_text).and_then(|name| shown(&name));
        for call in metrics.get("token_usages").iter().flat_map(|list| list.elements()) {
            let model = call.get("model").and_then(Raw::as_text).and_then(|name| shown(&name));
            if let Some(model) = model.or_else(|| default.clone()) {
                *calls.entry(model).or_default() += 1;
            }
        }
    }
    // Of models with as many calls, the first by name.
    let most = calls.values().copied().max()?;
    calls.into_iter().find(|(_, count)| *count == most).map(|(model, _)| model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_an_actor_is_separate_from_the_machine_and_the_program() {
        for (actor, user) in [
            ("ada (uid 1000)@box annals 0.1.0", Some("ada")),
            ("uid 0@box annals 0.1.0", Some("uid 0")),
            ("ann (server key)@box annals 0.1.0", Some("ann")),
            ("ann@example.com (server key)@box annals 0.1.0", Some("ann@example.com")),
            ("ada (night shift)@box mill 2", Some("ada (night shift)")),
            ("@box annals 0.1.0", Some("")),
            ("annals 0.1.0", None),
            ("ada mill 2", None),
            ("ada@ mill 2", None),
        ] {
            assert_eq!(user_of_actor(actor).as_deref(), user, "{actor}");
        }
        assert_eq!(shown(""), None);
    }

    #[test]
    fn the_model_with_the_most_calls_counts_and_then_the_first_by_name() {
        let model = |usages: &str| {
            let text = format!(r#"{{"stats":{{"usage_to_metrics":{usages}}}}}"#);
            model_of_calls(&BaseDocument::parse(text).unwrap())
        };
        let calls = r#"{"a":{"model_name":"m","token_usages":[{"model":"z"},{"model":""},{}]},
            "b":{"model_name":"","token_usages":[{"model":"z"},{}]}}"#;
        assert_eq!(model(calls).as_deref(), Some("m"));
        assert_eq!(model(r#"{"a":{"model_name":"m","token_usages":[]}}"#), None);
    }
}
