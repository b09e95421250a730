//! Compares the list with the router, the document with its own schemas, and `docs/api.md` with the list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::operation::Standing;
use super::{build, list};
use crate::server::http::roles;
use crate::server::{App, Config, router};
use crate::store::{Options, Store};

/// Returns the methods and paths of the router. They are read from its debug output, because it has no other way to
/// list them.
async fn all_served() -> BTreeSet<(String, String)> {
    let store = Store::in_memory(&Options::default()).unwrap();
    let app = Arc::new(App::new(store, Config::default()).unwrap());
    let shown = format!("{:?}", router(app));
    let (routes, paths) = shown.split_once("Node { paths: {").expect("the router has another debug output");
    let mut by_route = BTreeMap::new();
    for part in paths.split("RouteId(").skip(1) {
        let (id, rest) = part.split_once(')').unwrap();
        if let Some(path) = rest.strip_prefix(": \"") {
            // The fallback's router comes later, and counts from 0 again.
            by_route.entry(id.to_owned()).or_insert_with(|| path.split('"').next().unwrap().to_owned());
        }
    }
    assert!(by_route.len() > 50, "the router has another debug output");
    let mut served = BTreeSet::new();
    for part in routes.split("RouteId(").skip(1) {
        let Some((id, rest)) = part.split_once("): MethodRouter(MethodRouter { ") else { continue };
        let methods = ["get", "delete", "patch", "post", "put"];
        let mut methods: Vec<&str> =
            methods.into_iter().filter(|method| !rest.contains(&format!("{method}: None,"))).collect();
        if methods.is_empty() {
            // A route that takes every method: a socket, which is opened with GET.
            methods.push("get");
        }
        for method in methods {
            served.insert((method.to_uppercase(), by_route[id].clone()));
        }
    }
    let mut served: BTreeSet<_> =
        served.into_iter().map(|(method, path)| (method, path.replace("{*", "{"))).collect();
    // A path with a slash at its end is the same operation as the path without it.
    let all = served.clone();
    served.retain(|(method, path)| {
        path.strip_suffix('/').is_none_or(|path| !all.contains(&(method.clone(), path.to_owned())))
    });
    served
}

/// Returns the methods and paths of the router that are operations. Sockets are left out: the document describes them in
/// words.
async fn served() -> BTreeSet<(String, String)> {
    let mut served = all_served().await;
    served.retain(|(_, path)| !path.starts_with("/sockets/"));
    served
}

#[tokio::test]
async fn the_list_and_the_router_have_the_same_operations() {
    let listed: BTreeSet<(String, String)> = list::all()
        .filter(|(_, operation)| operation.is_served())
        .map(|(_, operation)| (operation.method.to_owned(), operation.path.to_owned()))
        .collect();
    let served = served().await;
    let unlisted: Vec<_> = served.difference(&listed).collect();
    assert!(unlisted.is_empty(), "served, but not so in src/server/site/openapi/list/: {unlisted:#?}");
    let unserved: Vec<_> = listed.difference(&served).collect();
    assert!(unserved.is_empty(), "in src/server/site/openapi/list/, but no route: {unserved:#?}");
}

#[tokio::test]
async fn every_route_has_one_role() {
    let mut seen = BTreeSet::new();
    for (method, path, _) in roles::table() {
        let route = (method.to_owned(), path.to_owned());
        assert!(seen.insert(route), "{method} {path} is twice in src/server/http/roles.rs");
    }
    let served = all_served().await;
    let without: Vec<_> = served.difference(&seen).collect();
    assert!(without.is_empty(), "served, but not in src/server/http/roles.rs: {without:#?}");
    let unserved: Vec<_> = seen.difference(&served).collect();
    assert!(unserved.is_empty(), "in src/server/http/roles.rs, but no route: {unserved:#?}");
}

#[test]
fn every_operation_is_listed_once() {
    let mut seen = BTreeSet::new();
    for (_, operation) in list::all() {
        assert!(seen.insert((operation.method, operation.path)), "{} {}", operation.method, operation.path);
    }
    let reference = list::all().filter(|(_, operation)| operation.standing != Standing::Own);
    // The 177 of the reference's document, and its own two pages that are not in it.
    assert_eq!(reference.count(), 177 + 2);
}

/// Collects the schemas that a value refers to.
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
fn the_document_has_all_schemas_that_it_refers_to_and_unique_operation_ids() {
    let document = build::document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let schemas = build::schemas();
    for reference in found {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(schemas.get(name).is_some(), "there is no schema {name}");
    }
    // The schemas of operations that are not served must exist, too.
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

/// Returns the table of `docs/api.md`.
fn table() -> String {
    let mut text = String::new();
    let mut group_name = "";
    for (group, operation) in list::all() {
        if group.name != group_name {
            group_name = group.name;
            let _ = write!(
                text,
                "\n### {group_name}\n\n| | route | role | what it does | against the reference |\n|---|---|---|---|---|\n"
            );
        }
        let (mark, standing) = match operation.standing {
            Standing::Same => ("=", "the same".to_owned()),
            Standing::Better(how) => ("+", format!("the same, and better: {how}")),
            Standing::Own => ("+", "Annals' own".to_owned()),
            Standing::Absent(why) => ("-", format!("left out (501): {why}")),
            Standing::NotFound(why) => ("=", format!("404, as there: {why}")),
        };
        let role = match build::role(operation) {
            Some(role) if operation.is_served() => role.as_str(),
            Some(_) | None => "",
        };
        let _ = writeln!(
            text,
            "| {mark} | `{} {}` | {role} | {} | {standing} |",
            operation.method, operation.path, operation.summary
        );
    }
    text
}

/// `UPDATE_GOLDEN=1 cargo test` rewrites the table. The difference is checked in the review.
#[test]
fn the_documentation_has_the_table_of_the_list() {
    const BEGIN: &str =
        "<!-- Written by the program from src/server/site/openapi/list: a test holds it to that. -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/api.md");
    let text = std::fs::read_to_string(path).unwrap();
    let before = text.split(BEGIN).next().unwrap();
    let wanted = format!("{before}{BEGIN}{}", table());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == wanted,
        "docs/api.md differs from the list: update it with UPDATE_GOLDEN=1"
    );
}
