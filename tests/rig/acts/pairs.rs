//! Two commands that start at the same moment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stage::{ACTS, Act, Kind, content, difference, fresh, keep};
use crate::random::Random;
use crate::simulation::{each_seed, setting};

/// What one order, or both at once, left: the exit codes and the content of the folder.
struct End {
    codes: [i32; 2],
    said: [String; 2],
    content: BTreeMap<String, String>,
}

fn end(folder: &Path, runs: [(i32, String); 2]) -> Result<End, String> {
    let [(one, said_one), (two, said_two)] = runs;
    Ok(End { codes: [one, two], said: [said_one, said_two], content: content(folder)? })
}

/// Runs one after the other. `first` is 0 or 1.
fn in_order(acts: [&Act; 2], first: usize) -> Result<End, String> {
    let folder = fresh();
    let mut runs = [(0, String::new()), (0, String::new())];
    for which in [first, 1 - first] {
        runs[which] = acts[which].run(folder.path());
    }
    end(folder.path(), runs)
}

/// Runs both at once. `first` is started first: 0 or 1.
fn at_once(acts: [&Act; 2], first: usize, folder: &Path) -> Result<End, String> {
    let mut runs = std::thread::scope(|scope| {
        let one = scope.spawn(|| acts[first].run(folder));
        let two = acts[1 - first].run(folder);
        [one.join().unwrap(), two]
    });
    if first == 1 {
        runs.reverse();
    }
    end(folder, runs)
}

/// All unordered pairs, each with itself too.
fn pairs() -> Vec<[&'static Act; 2]> {
    let mut pairs = Vec::new();
    for (at, one) in ACTS.iter().enumerate() {
        pairs.extend(ACTS[at..].iter().map(|two| [one, two]));
    }
    pairs
}

/// Whether a pair ends as one of its orders. An act may also be refused with the word that it may be repeated; then the
/// files are as the other one alone leaves them.
fn try_pair(acts: [&'static Act; 2], random: &mut Random) -> Result<bool, String> {
    let name = format!("{}|{}", acts[0].name, acts[1].name);
    let named = |what: String| format!("{name}: {what}");
    let orders = [in_order(acts, 0), in_order(acts, 1)];
    let [first, second] = orders;
    let orders = [first.map_err(named)?, second.map_err(named)?];
    let started = random.below(2) as usize;
    let folder = fresh();
    let found = at_once(acts, started, folder.path());
    let found = found.map_err(|what| {
        let kept = keep(folder.path(), &format!("pair-{}-{}", acts[0].name, acts[1].name));
        format!("{name}, {started} started first: {what}; the files are in {kept:?}")
    })?;
    let may_repeat = |said: &str| {
        ["may be repeated", "is in use", "the same command again"].iter().any(|words| said.contains(words))
    };
    for (which, act) in acts.iter().enumerate() {
        let known = orders.iter().any(|order| order.codes[which] == found.codes[which]);
        if !known && !may_repeat(&found.said[which]) {
            return Err(format!(
                "{name}, {started} started first: {} ended with {}, and in the orders with {} and {}: {}",
                act.name,
                found.codes[which],
                orders[0].codes[which],
                orders[1].codes[which],
                found.said[which]
            ));
        }
    }
    if orders.iter().any(|order| order.content == found.content) {
        return Ok(true);
    }
    // An act on many conversations is an act on each: each is as one of the orders has it.
    if is_woven(&found.content, [&orders[0].content, &orders[1].content]) {
        return Ok(true);
    }
    // One was refused and may be repeated.
    for which in 0..2 {
        if found.codes[which] != 0 && may_repeat(&found.said[which]) {
            let alone = fresh();
            acts[1 - which].run(alone.path());
            if content(alone.path())? == found.content {
                return Ok(false);
            }
        }
    }
    let kept = keep(folder.path(), &format!("pair-{}-{}", acts[0].name, acts[1].name));
    Err(format!(
        "{name}, {started} started first, ended as neither order ({:?}: {:?}); the files are in {kept:?}\nwith {} first: {}\nwith {} first: {}",
        found.codes,
        found.said,
        acts[0].name,
        difference(&orders[0].content, &found.content),
        acts[1].name,
        difference(&orders[1].content, &found.content)
    ))
}

/// Whether each file has each conversation, and each act, as one of the two orders has it.
fn is_woven(found: &BTreeMap<String, String>, orders: [&BTreeMap<String, String>; 2]) -> bool {
    let parts =
        orders.map(|order| order.iter().map(|(name, text)| (name, blocks(text))).collect::<BTreeMap<_, _>>());
    let names: BTreeSet<&String> = found.keys().chain(orders[0].keys()).chain(orders[1].keys()).collect();
    names.into_iter().all(|name| {
        let Some(text) = found.get(name) else { return orders.iter().any(|order| !order.contains_key(name)) };
        let found = blocks(text);
        let [one, two] = [&parts[0], &parts[1]].map(|part| part.get(name));
        let (Some(one), Some(two)) = (one, two) else {
            return one.or(two).is_some_and(|only| *only == found);
        };
        let heads: BTreeSet<&String> = found.keys().chain(one.keys()).chain(two.keys()).collect();
        heads.into_iter().all(|head| [one, two].iter().any(|order| order.get(head) == found.get(head)))
    })
}

/// The conversations and the acts in a content, each with what it has, without positions.
fn blocks(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut blocks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut head = String::new();
    for line in text.lines() {
        match line.strip_prefix("  ") {
            Some(line) => {
                let unplaced = line.split_once(' ').filter(|(first, _)| first.parse::<u64>().is_ok());
                blocks
                    .entry(head.clone())
                    .or_default()
                    .push(unplaced.map_or(line, |(_, rest)| rest).to_owned());
            }
            None => {
                let end = if line.starts_with("act ") { " (" } else { " " };
                head = line.split(end).next().unwrap_or(line).to_owned();
                blocks.entry(head.clone()).or_default().push(line.to_owned());
            }
        }
    }
    blocks
}

#[test]
fn two_commands_at_once_end_as_one_after_the_other() {
    if let Ok(named) = std::env::var("ANNALS_RIG_PAIR") {
        let acts: Vec<&Act> =
            named.split('|').filter_map(|name| ACTS.iter().find(|act| act.name == name)).collect();
        for round in 0..setting("ANNALS_RIG_PAIRS").unwrap_or(10) {
            try_pair([acts[0], acts[1]], &mut Random::new(round)).unwrap_or_else(|what| panic!("{what}"));
        }
        return;
    }
    let all = pairs();
    let wanted = setting("ANNALS_RIG_PAIRS").unwrap_or(4);
    let first = setting("ANNALS_RIG_FIRST").unwrap_or(1);
    let (equal, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    each_seed(
        first,
        |seed| seed < first + wanted,
        |seed| {
            // A step that has no common factor with their number visits every pair once before any twice.
            let at = (seed as usize * 1009) % all.len();
            // Two that only read, or nothing that a pair could share, is not worth a sample.
            let is_equal = match all[at] {
                [one, two] if one.kind == Kind::Reads && two.kind == Kind::Reads && wanted < 1000 => {
                    return Ok(());
                }
                pair => try_pair(pair, &mut Random::new(seed))?,
            };
            match is_equal {
                true => equal.fetch_add(1, Ordering::Relaxed),
                false => refused.fetch_add(1, Ordering::Relaxed),
            };
            Ok(())
        },
    );
    println!(
        "rig: {} pairs of commands at once, each as one of the two orders; {} of them because one was refused and may be repeated",
        equal.load(Ordering::Relaxed) + refused.load(Ordering::Relaxed),
        refused.load(Ordering::Relaxed)
    );
}
