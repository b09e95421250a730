//! Opening: what may stand at a path, who may be there at the same time, and what is left untouched.

use std::sync::Barrier;

use annals::Store;

use crate::support::Scratch;

#[test]
fn many_may_create_one_file_at_the_same_moment() {
    for _ in 0..20 {
        let scratch = Scratch::new();
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    Store::open(scratch.database()).unwrap();
                });
            }
        });
    }
}
