//! A command that is killed at one of its writing system calls, and is then repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

use super::stage::{ACTS, Act, Kind, content, difference, fresh, keep};
use super::trace::{Ended, run};
use crate::random::Random;
use crate::simulation::{each_seed, setting};

/// A command that ran to its end: the number of its writing calls, and what it left.
struct Undisturbed {
    calls: u64,
    content: BTreeMap<String, String>,
}

static ENDS: LazyLock<Mutex<BTreeMap<&'static str, &'static Undisturbed>>> = LazyLock::new(Mutex::default);

fn undisturbed(act: &Act) -> Result<&'static Undisturbed, String> {
    let mut ends = ENDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(end) = ends.get(act.name) {
        return Ok(end);
    }
    let folder = fresh();
    let ended = run(act.command(folder.path()), None).map_err(|error| format!("{}: {error}", act.name))?;
    let Ended::Itself { calls, code } = ended else { return Err(format!("{} was killed", act.name)) };
    if code != 0 && act.name != "repair" {
        return Err(format!("{} ends with {code}: {}", act.name, act.run(fresh().path()).1));
    }
    let end: &'static Undisturbed =
        Box::leak(Box::new(Undisturbed { calls, content: content(folder.path())? }));
    ends.insert(act.name, end);
    Ok(end)
}

/// Kills an act at a call, repeats it, and compares. Returns whether it was killed.
fn kill(act: &Act, at: u64) -> Result<bool, String> {
    let end = undisturbed(act)?;
    let folder = fresh();
    let ended =
        run(act.command(folder.path()), Some(at)).map_err(|error| format!("{}: {error}", act.name))?;
    let again = act.run(folder.path());
    let after = content(folder.path());
    let failed = |what: String| {
        let kept = keep(folder.path(), &format!("kill-{}-{at}", act.name));
        format!(
            "{} killed at call {at} of {}, and repeated ({}): {what}; the files are in {kept:?}\n\
             ANNALS_RIG_KILL={}/{at} cargo test --test rig acts:: -- --nocapture",
            act.name, end.calls, again.0, act.name
        )
    };
    let after = after.map_err(failed)?;
    // The killed act may have been done, and then its repeat is one more.
    let is_there = match act.kind {
        Kind::Repeats => has_all(&after, &end.content),
        _ => after == end.content,
    };
    if !is_there {
        return Err(failed(format!("{}\n{}", again.1, difference(&end.content, &after))));
    }
    Ok(ended == Ended::Killed)
}

/// Whether a content has all that another has, and maybe more.
fn has_all(content: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    let what = |line: &str| line.split(" (").next().unwrap_or(line).to_owned();
    content.keys().eq(wanted.keys())
        && wanted.iter().all(|(name, text)| {
            let there: BTreeSet<String> = content[name].lines().map(what).collect();
            text.lines().all(|line| line.starts_with("  ") || there.contains(&what(line)))
        })
}

#[test]
fn a_command_that_was_killed_and_repeated_ends_as_undisturbed() {
    if let Ok(named) = std::env::var("ANNALS_RIG_KILL") {
        let (name, at) = named.split_once('/').unwrap_or((&named, ""));
        let act = ACTS.iter().find(|act| act.name == name).expect("ANNALS_RIG_KILL=name/call");
        kill(act, at.parse().expect("a number")).unwrap_or_else(|what| panic!("{what}"));
        return;
    }
    let writing: Vec<&Act> = ACTS.iter().filter(|act| act.kind != Kind::Reads).collect();
    let wanted = setting("ANNALS_RIG_KILLED_ACTS").unwrap_or(6);
    let first = setting("ANNALS_RIG_FIRST").unwrap_or(1);
    let (kills, places) = (AtomicU64::new(0), AtomicU64::new(0));
    each_seed(
        first,
        |seed| seed < first + wanted,
        |seed| {
            let act = writing[seed as usize % writing.len()];
            let calls = undisturbed(act)?.calls;
            if calls == 0 {
                return Err(format!("{} writes nothing", act.name));
            }
            places.fetch_add(1, Ordering::Relaxed);
            let at = Random::new(seed).below(calls);
            kills.fetch_add(u64::from(kill(act, at)?), Ordering::Relaxed);
            Ok(())
        },
    );
    println!(
        "rig: {} commands killed at a writing system call and repeated, {} of {} places reached, each as undisturbed",
        kills.load(Ordering::Relaxed),
        kills.load(Ordering::Relaxed),
        places.load(Ordering::Relaxed)
    );
}
