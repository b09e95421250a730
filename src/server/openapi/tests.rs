//! The list is held to the router, the document to its own schemas, and `docs/api.md` to the list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::operation::Standing;
use super::{build, list};
use crate::server::{App, Config, router};
use crate::store::{Options, Store};

/// The methods and paths of the router. It has no way to be asked for them but what it shows of itself.
async fn served() -> BTreeSet<(String, String)> {
    let store = Store::in_memory(&Options::default()).unwrap();
    let app = Arc::new(App::new(store, Config::default()).unwrap());
    let shown = format!("{:?}", router(app));
    let (routes, paths) =
        shown.split_once("Node { paths: {").expect("the router shows itself in another way");
    let mut by_route = BTreeMap::new();
    for part in paths.split("RouteId(").skip(1) {
        let (id, rest) = part.split_once(')').unwrap();
        if let Some(path) = rest.strip_prefix(": \"") {
            // The router of the fallback counts from 0 again, behind.
            by_route.entry(id.to_owned()).or_insert_with(|| path.split('"').next().unwrap().to_owned());
        }
    }
    assert!(by_route.len() > 50, "the router shows itself in another way");
    let mut served = BTreeSet::new();
    for part in routes.split("RouteId(").skip(1) {
        let Some((id, rest)) = part.split_once("): MethodRouter(MethodRouter { ") else { continue };
        for method in ["get", "delete", "patch", "post", "put"] {
            if !rest.contains(&format!("{method}: None,")) {
                served.insert((method.to_uppercase(), by_route[id].clone()));
            }
        }
    }
    // Sockets are told in words, and what no route fits is no operation.
    served.retain(|(_, path)| !path.starts_with("/sockets/"));
    let mut served: BTreeSet<_> =
        served.into_iter().map(|(method, path)| (method, path.replace("{*", "{"))).collect();
    // The same with a stroke at the end is the same.
    let all = served.clone();
    served.retain(|(method, path)| {
        path.strip_suffix('/').is_none_or(|path| !all.contains(&(method.clone(), path.to_owned())))
    });
    served
}

#[tokio::test]
async fn what_is_served_is_told_and_what_is_told_is_served() {
    let told: BTreeSet<(String, String)> = list::all()
        .filter(|(_, operation)| operation.is_served())
        .map(|(_, operation)| (operation.method.to_owned(), operation.path.to_owned()))
        .collect();
    let served = served().await;
    let untold: Vec<_> = served.difference(&told).collect();
    assert!(untold.is_empty(), "served, but not so in src/server/openapi/list/: {untold:#?}");
    let unserved: Vec<_> = told.difference(&served).collect();
    assert!(unserved.is_empty(), "in src/server/openapi/list/, but no route: {unserved:#?}");
}

#[test]
fn every_operation_is_told_once() {
    let mut seen = BTreeSet::new();
    for (_, operation) in list::all() {
        assert!(seen.insert((operation.method, operation.path)), "{} {}", operation.method, operation.path);
    }
    let reference = list::all().filter(|(_, operation)| operation.standing != Standing::Own);
    // The 177 of the reference's document, and its own two pages that are not in it.
    assert_eq!(reference.count(), 177 + 2);
}

/// Every schema that a value refers to.
fn references<'v>(value: &'v Value, found: &mut BTreeSet<&'v str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_document_refers_to_what_it_has_and_names_operations_apart() {
    let document = build::document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let schemas = build::schemas();
    for reference in found {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(schemas.get(name).is_some(), "there is no schema {name}");
    }
    // Those of operations that are not served yet, too.
    for (_, operation) in list::all() {
        for name in operation.schemas() {
            assert!(
                schemas.get(name).is_some(),
                "{} {}: there is no schema {name}",
                operation.method,
                operation.path
            );
        }
    }
    let ids: Vec<String> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| {
            path.as_object().unwrap().values().map(|operation| operation["operationId"].to_string())
        })
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "two operations have one id");
}

/// The table of `docs/api.md`.
fn table() -> String {
    let mut text = String::new();
    let mut group_name = "";
    for (group, operation) in list::all() {
        if group.name != group_name {
            group_name = group.name;
            let _ = write!(
                text,
                "\n### {group_name}\n\n| | route | what it does | against the reference |\n|---|---|---|---|\n"
            );
        }
        let (mark, standing) = match operation.standing {
            Standing::Same => ("=", "the same".to_owned()),
            Standing::Better(how) => ("+", format!("the same, and better: {how}")),
            Standing::Own => ("+", "Annals' own".to_owned()),
            Standing::Absent(why) => ("-", format!("left out (501): {why}")),
            Standing::NotFound(why) => ("=", format!("404, as there: {why}")),
        };
        let _ = writeln!(
            text,
            "| {mark} | `{} {}` | {} | {standing} |",
            operation.method, operation.path, operation.summary
        );
    }
    text
}

/// `UPDATE_GOLDEN=1 cargo test` writes the table anew; the diff is read in review.
#[test]
fn the_documentation_is_what_the_list_says() {
    const BEGIN: &str =
        "<!-- Written by the program from src/server/openapi/list: a test holds it to that. -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/api.md");
    let text = std::fs::read_to_string(path).unwrap();
    let before = text.split(BEGIN).next().unwrap();
    let wanted = format!("{before}{BEGIN}{}", table());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == wanted,
        "docs/api.md is not what the list says: UPDATE_GOLDEN=1"
    );
}
