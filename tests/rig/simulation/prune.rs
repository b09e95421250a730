//! What retention takes from the model: families, the newest first, by the plainest reading of the rules.

use annals::Timestamp;
use annals::store::PruneRules;
use serde_json::Value;

use super::model::{File, Talk};

/// Takes out what the rules are against; answers what went, sorted.
pub fn prune(file: &mut File, rules: &PruneRules) -> Vec<String> {
    let families = families(file);
    let has_limit = rules.older_than.is_some() || rules.keep_last.is_some();
    let mut seen = 0;
    let mut gone = Vec::new();
    for (updated, members) in families {
        let talk = |name: &String| &file.talks[name];
        let is_kept = members.iter().any(|name| fits_any(talk(name), &rules.kept_tags));
        if is_kept || !fits_all(talk(&members[0]), &rules.tags) {
            continue;
        }
        seen += 1;
        let is_old =
            rules.older_than.is_some_and(|time| Timestamp::parse(&updated).is_some_and(|at| at < time));
        let goes = is_old || rules.keep_last.is_some_and(|count| seen > count) || !has_limit;
        if goes && !members.iter().any(|name| talk(name).status == "running") {
            gone.extend(members);
        }
    }
    gone.sort();
    gone.iter().for_each(|name| file.remove(name));
    gone
}

/// Each conversation that is nobody's sub-agent's with all that are below it, and its age; the newest first.
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
        (told, wanted) => told.is_some() && wanted.is_none(),
    }
}

fn fits_all(talk: &Talk, tags: &[(String, Option<String>)]) -> bool {
    tags.iter().all(|tag| fits(talk, tag))
}

fn fits_any(talk: &Talk, tags: &[(String, Option<String>)]) -> bool {
    tags.iter().any(|tag| fits(talk, tag))
}
