//! The list is held to the router, the document to its own references, and `docs/api.md` to both.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::list;
use super::operation::{Answer, Body, Standing};
use crate::server::{App, Config, router};
use crate::store::{Options, Store};

#[test]
fn look() {
    let store = Store::in_memory(&Options::default()).unwrap();
    let app = Arc::new(App::new(store, Config::default()).unwrap());
    let text = format!("{:?}", router(app));
    std::fs::write("/tmp/router.txt", text).unwrap();
}
