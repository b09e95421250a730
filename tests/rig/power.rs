//! Power cuts: whatever the disk may contain afterwards, no acknowledged event is lost and no commit is stored partly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals::store::Durability;
use sha2::{Digest as _, Sha256};

use crate::facts::has_event;
use crate::random::Random;
use crate::recording::{Recording, examine_image, folder, record};
use crate::vfs::disk::{Fate, Image};
use crate::vfs::scene::Op;
use crate::workload::{self, DATABASE, Workload};

/// The default number of images. `ANNALS_RIG_IMAGES` sets another number.
const IMAGES: usize = 500;

/// A large workload gets its quota of images divided by this number, because each image is as large as its writes.
const LARGE_IMAGES_SHARE: usize = 16;

/// The maximum number of rounds. More rounds of cuts are tried if too many images equal another image.
const ROUNDS_MAX: u64 = 16;

/// One power cut: the number of operations before it, the index of its fate, and its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cut {
    point: usize,
    fate: usize,
    round: u64,
}

#[derive(Default)]
struct Figures {
    points: usize,
    images: usize,
    same: usize,
    failures: Vec<String>,
    /// The first images that failed, each with the seed that makes it again.
    kept: Vec<(String, Image)>,
}

/// The number of failed images that are kept of each workload.
const KEPT: usize = 4;

/// The value of `ANNALS_RIG_SEED`: the seed of a run (`7`), or one image of it (`7/append/120/5/0`).
struct Seed {
    seed: u64,
    only: Option<(String, Cut)>,
}

impl Seed {
    fn from_environment() -> Self {
        let text = std::env::var("ANNALS_RIG_SEED").unwrap_or_else(|_| "1".to_owned());
        let mut parts = text.split('/');
        let number = |parts: &mut std::str::Split<'_, char>| -> Option<u64> { parts.next()?.parse().ok() };
        let seed = number(&mut parts).expect("ANNALS_RIG_SEED begins with a number");
        let only = parts.next().map(|name| {
            let mut next = || number(&mut parts).expect("ANNALS_RIG_SEED=seed/workload/point/fate/round");
            let cut = Cut { point: next() as usize, fate: next() as usize, round: next() };
            (name.to_owned(), cut)
        });
        Self { seed, only }
    }

    fn random(&self, workload: &Workload, cut: Cut) -> Random {
        let name =
            workload.name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(131).wrapping_add(byte.into()));
        let numbers = [name, cut.point as u64, cut.fate as u64, cut.round];
        Random::new(numbers.iter().fold(self.seed, |sum, number| Random::new(sum ^ number).next()))
    }
}

#[test]
fn after_any_power_cut_all_acknowledged_events_are_there() {
    let images = std::env::var("ANNALS_RIG_IMAGES").map_or(IMAGES, |text| text.parse().expect("a number"));
    let seed = Seed::from_environment();
    let workloads: Vec<&Workload> = workload::all()
        .filter(|workload| seed.only.as_ref().is_none_or(|(name, _)| name == workload.name))
        // A workload that only reads has nothing to lose.
        .filter(|workload| workload.name != "read")
        .filter(|workload| !workload.is_large || images > IMAGES || seed.only.is_some())
        .collect();
    assert!(!workloads.is_empty(), "ANNALS_RIG_SEED names no workload");
    let quota = images.div_ceil(workloads.iter().filter(|workload| !workload.is_large).count().max(1));
    // Some workloads leave fewer distinct images than their quota, so every quota is an eighth larger.
    let quota = quota + quota.div_ceil(8);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(workload) = workloads.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let quota = if workload.is_large { quota.div_ceil(LARGE_IMAGES_SHARE) } else { quota };
                    let figures = cut_power(workload, quota, &seed);
                    done.lock().unwrap().insert(workload.name, figures);
                }
            });
        }
    });
    report(&done.into_inner().unwrap(), &seed, if seed.only.is_some() { 1 } else { images });
}

#[test]
fn an_answer_that_comes_before_the_sync_is_caught() {
    let normal = workload::named("normal");
    let lying = Workload { promise: Durability::Full, ..*normal };
    let figures = cut_power(&lying, 60, &Seed { seed: 1, only: None });
    assert!(
        figures.failures.iter().any(|failure| failure.contains("acknowledged and lost")),
        "no lost event was found"
    );
    let figures = cut_power(normal, 60, &Seed { seed: 1, only: None });
    assert!(figures.failures.is_empty(), "{:#?}", figures.failures);
}

fn report(done: &BTreeMap<&str, Figures>, seed: &Seed, wanted: usize) {
    println!("power cuts, seed {}: workload, points, images, the same as another, failures", seed.seed);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, Figures { points, images, same, failures, .. }) in done {
        println!("  {name:<12} {points:>7} {images:>7} {same:>7} {:>5}", failures.len());
        for failure in failures {
            let kind = failure.split_once(": ").map_or("", |(_, what)| what);
            *kinds.entry(kind.split([':', '[']).next().unwrap_or_default()).or_default() += 1;
        }
    }
    for (replay, image) in done.values().flat_map(|figures| &figures.kept) {
        keep(replay, image);
    }
    let all: usize = done.values().map(|figures| figures.images).sum();
    let failures: Vec<&String> = done.values().flat_map(|figures| &figures.failures).collect();
    println!("power cuts: {all} images of {} workloads, {} failures {kinds:?}", done.len(), failures.len());
    let shown: Vec<&&String> = failures.iter().take(12).collect();
    assert!(failures.is_empty(), "{} images failed; the first: {shown:#?}", failures.len());
    assert!(all >= wanted, "only {all} images are distinct, {wanted} were requested");
}

/// Cuts the power of a workload until there are about `quota` distinct images, and checks each of them.
fn cut_power(workload: &Workload, quota: usize, seed: &Seed) -> Figures {
    let recording = record(workload);
    let (_kept, folder) = folder();
    let points = recording.points(workload);
    let mut figures = Figures { points: points.len(), ..Figures::default() };
    let mut seen = BTreeSet::new();
    let mut round = 0;
    while figures.images < quota && round < ROUNDS_MAX {
        let cuts = match &seed.only {
            Some((_, only)) => vec![*only],
            None => cuts(&recording, &points, quota - figures.images, round, seed.seed),
        };
        let mut disk = recording.disk();
        for cut in cuts {
            disk.advance(cut.point);
            if disk.is_certain() && cut.fate != 0 {
                continue;
            }
            let image = disk.image(Fate::ALL[cut.fate], &mut seed.random(workload, cut));
            if !seen.insert(digest(&image)) {
                figures.same += 1;
                continue;
            }
            figures.images += 1;
            for name in workload.databases {
                if let Err(what) =
                    check(workload, &recording, cut.point, name, examine_image(&folder, &image, name))
                {
                    let replay =
                        format!("{}/{}/{}/{}/{}", seed.seed, workload.name, cut.point, cut.fate, cut.round);
                    if figures.kept.len() < KEPT {
                        figures.kept.push((replay.clone(), image.clone()));
                    }
                    let fate = Fate::ALL[cut.fate];
                    figures.failures.push(format!("ANNALS_RIG_SEED={replay} ({name}, {fate:?}): {what}"));
                }
            }
        }
        if seed.only.is_some() {
            break;
        }
        round += 1;
    }
    figures
}

/// Returns about `count` cuts, in the order of their points. The first round also has a cut right after each answer.
fn cuts(recording: &Recording, points: &[usize], count: usize, round: u64, seed: u64) -> Vec<Cut> {
    let mut random = Random::new(seed ^ (round << 32));
    let mut cuts = BTreeSet::new();
    if round == 0 {
        cuts.extend(recording.marks().into_iter().map(|point| Cut { point, fate: 0, round }));
    }
    for number in 0..count {
        // Spread the cuts over the whole recording. No point is cut twice before its neighbours were cut once.
        let stratum = number * points.len() / count;
        let width = (points.len() / count).max(1) as u64;
        let point = points[(stratum + random.below(width) as usize).min(points.len() - 1)];
        let fate = random.below(Fate::ALL.len() as u64) as usize;
        cuts.insert(Cut { point, fate, round: round * 1000 + number as u64 % 1000 });
    }
    cuts.into_iter().collect()
}

/// Checks that an image has only content that it may have.
fn check(
    workload: &Workload,
    recording: &Recording,
    point: usize,
    name: &str,
    found: Result<String, String>,
) -> Result<(), String> {
    let found = found?;
    let is_durable = workload.promise == Durability::Full;
    if !workload.is_large {
        let may = recording.may_hold(name, point, is_durable);
        if !may.iter().any(|held| held.facts == found) {
            let wanted: Vec<&str> = may.iter().map(|held| &*held.facts).collect();
            let was = recording.held[name].iter().rposition(|held| held.facts == found);
            let what = match was {
                Some(_) if is_durable => "acknowledged and lost",
                _ => "never committed so",
            };
            return Err(format!("{what}: found {found}\nwanted one of {wanted:#?}"));
        }
    }
    if name == DATABASE && is_durable {
        for op in &recording.ops[..point] {
            if let Op::Mark { event: Some(event) } = op
                && !has_event(&found, event)
            {
                return Err(format!("acknowledged and lost: {event}"));
            }
        }
    }
    Ok(())
}

fn digest(image: &Image) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for (name, content) in image {
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name);
        hasher.update((content.len() as u64).to_le_bytes());
        hasher.update(content);
    }
    hasher.finalize().into()
}

/// Keeps the files of a failed image in cargo's folder for build results.
fn keep(replay: &str, image: &Image) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rig").join(replay.replace('/', "-"));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    for (name, content) in image {
        std::fs::write(folder.join(name), content).expect("the file can be written");
    }
}
