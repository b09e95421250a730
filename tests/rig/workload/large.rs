//! Workloads that are too large, or differ too much between runs, to let each of their calls fail once.

use annals::{Error, Expected};

use super::{PLAIN, Stage, Workload, id, user_message};

pub const ALL: &[Workload] = &[
    Workload { name: "threads", steps: &[("all", threads)], is_parallel: true, ..PLAIN },
    Workload { name: "load", steps: &[("load", load)], is_parallel: true, is_large: true, ..PLAIN },
];

/// Several threads append at once, and share commits.
fn threads(stage: &Stage<'_>) -> Result<(), Error> {
    together(stage, 4, 12, 300)
}

/// Appends so much that the log, which restarts after 32 MiB, is moved into the file twice while appends go on.
fn load(stage: &Stage<'_>) -> Result<(), Error> {
    together(stage, 2, 36, 1 << 20)
}

fn together(stage: &Stage<'_>, threads: usize, appends: usize, bytes: usize) -> Result<(), Error> {
    let text = "x".repeat(bytes);
    let (text, store, scene) = (&text, stage.store, stage.scene);
    let append = move |thread: usize| {
        let conversation = id(if thread.is_multiple_of(2) { "talk" } else { "new" });
        for number in 0..appends {
            let name = format!("{thread}-{number}");
            store.append(&conversation, Expected::Any, &[user_message(&name, text)])?;
            scene.mark(Some(format!("{conversation} {name}")));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || append(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("the thread ends"))
    })
}
