//! Retention in the model: applies the rules, read in the simplest way, to families of conversations, the newest first.

use annals::Timestamp;
use annals::store::PruneRules;
use serde_json::Value;

use super::model::{File, Talk};

/// Removes the conversations that the rules do not keep. Returns their names, sorted.
pub fn prune(file: &mut File, rules: &PruneRules) -> Vec<String> {
    let families = families(file);
    let has_limit = rules.older_than.is_some() || rules.keep_last.is_some();
    let mut seen = 0;
    let mut removed = Vec::new();
    for (updated, members) in families {
        let talk = |name: &String| &file.talks[name];
        let is_kept = members.iter().any(|name| fits_any(talk(name), &rules.kept_tags));
        if is_kept || !fits_all(talk(&members[0]), &rules.tags) {
            continue;
        }
        seen += 1;
        let is_old =
            rules.older_than.is_some_and(|time| Timestamp::parse(&updated).is_some_and(|at| at < time));
        let is_removed = is_old || rules.keep_last.is_some_and(|count| seen > count) || !has_limit;
        if is_removed && !members.iter().any(|name| talk(name).status == "running") {
            removed.extend(members);
        }
    }
    removed.sort();
    removed.iter().for_each(|name| file.remove(name));
    removed
}

/// Returns the families, the newest first: each conversation without a parent with all conversations below it, and the
/// time of their last change.
fn families(file: &File) -> Vec<(String, Vec<String>)> {
    let mut families = Vec::new();
    for (name, talk) in file.talks.iter().filter(|(_, talk)| talk.parent.is_none()) {
        let mut members = vec![name.clone()];
        let mut next = 0;
        while let Some(above) = members.get(next).cloned() {
            let below = file.talks.iter().filter(|(_, talk)| talk.parent.as_ref() == Some(&above));
            members.extend(below.map(|(name, _)| name.clone()));
            next += 1;
        }
        let updated = members.iter().map(|name| file.talks[name].updated()).max().unwrap_or_default();
        families.push((updated, talk.born, members));
    }
    families.sort_by(|one, other| (&other.0, other.1).cmp(&(&one.0, one.1)));
    families.into_iter().map(|(updated, _, members)| (updated, members)).collect()
}

fn fits(talk: &Talk, tag: &(String, Option<String>)) -> bool {
    match (talk.tags().get(&tag.0), &tag.1) {
        (Some(Value::String(value)), Some(wanted)) => value == wanted,
        (value, wanted) => value.is_some() && wanted.is_none(),
    }
}

fn fits_all(talk: &Talk, tags: &[(String, Option<String>)]) -> bool {
    tags.iter().all(|tag| fits(talk, tag))
}

fn fits_any(talk: &Talk, tags: &[(String, Option<String>)]) -> bool {
    tags.iter().any(|tag| fits(talk, tag))
}
