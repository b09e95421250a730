//! Warns of a new database: in the folder where agents work, whose commands can change and delete it, or at a path that may be mistyped.

use std::path::Path;

#[cfg(feature = "server")]
use {
    super::journal::new_database,
    crate::error::Result,
    crate::store::{NEVER_FILLED, Store},
};

/// Returns a warning if the file `database` is in `folder` or below it. `None` if one of them does not exist.
pub(super) fn warning(database: &Path, folder: &Path) -> Option<String> {
    let (file, folder) = (database.canonicalize().ok()?, folder.canonicalize().ok()?);
    file.starts_with(&folder).then(|| {
        format!(
            "the new database {} is in the folder where agents work: their commands can change and delete it; \
             --db or ANNALS_DB puts it elsewhere",
            database.display()
        )
    })
}

/// Warns of a file to which nothing was ever written, because its path may be mistyped; and if it is new, where agents work.
#[cfg(feature = "server")]
pub(super) fn warn(store: &Store, new_beside: Option<&Path>) -> Result<()> {
    if let Some(warning) = new_beside.and_then(|folder| warning(&store.path(), folder)) {
        new_database(&warning);
    }
    if store.maintenance().was_never_filled()? {
        new_database(&format!("{}: {NEVER_FILLED}", store.path().display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_database_in_the_folder_is_near() {
        let folder = tempfile::tempdir().unwrap();
        let (work, other) = (folder.path().join("work"), folder.path().join("work-too"));
        for place in [work.join("below"), other.clone()] {
            std::fs::create_dir_all(&place).unwrap();
        }
        for place in [work.join("a.db"), work.join("below/a.db"), other.join("a.db")] {
            std::fs::write(place, "").unwrap();
        }
        assert!(warning(&work.join("a.db"), &work).is_some_and(|text| text.contains("--db")));
        assert!(warning(&work.join("below/../below/a.db"), &work).is_some());
        assert_eq!(warning(&other.join("a.db"), &work), None);
        assert_eq!(warning(&work.join("missing.db"), &work), None);
    }
}
