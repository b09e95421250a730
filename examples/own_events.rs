//! A shop that stores its own events beside its conversations, and a mailer that resumes where it stopped.
//!
//! `cargo run --example own_events [FILE]`. If you run it twice with a file, the second run sends no mail.

use std::time::Duration;

use annals::event::{Correlation, OwnKind, OwnKinds};
use annals::store::{EventQuery, SearchFilter};
use annals::{ConversationId, Expected, NewEvent, Options, Position, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const KIND: &str = "shop.shipped";

/// Version 1 of the kind had no list of carriers.
fn to_carriers(members: &mut Map<String, Value>) -> Result<(), &'static str> {
    let carrier = members.remove("carrier").ok_or("it has no carrier")?;
    members.insert("carriers".into(), Value::Array(vec![carrier]));
    Ok(())
}

#[derive(Debug, Serialize, Deserialize)]
struct Shipped {
    /// The id of the request. A retry of the request has the same id and changes nothing.
    id: String,
    timestamp: String,
    order: u64,
    carriers: Vec<String>,
    /// The order's events have one correlation id, in whatever conversation they are.
    #[serde(flatten)]
    correlation: Correlation,
}

#[derive(Debug, Serialize, Deserialize)]
struct Billed {
    id: String,
    timestamp: String,
    sum: u64,
    #[serde(flatten)]
    correlation: Correlation,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own_kinds =
        OwnKinds::default().with(OwnKind::new(KIND).text_members(["carriers"]).upcaster(to_carriers));
    let options = Options::default().own_kinds(own_kinds);
    let store = match std::env::args_os().nth(1) {
        Some(file) => Store::open_with(file, &options)?,
        None => Store::in_memory(&options)?,
    };
    // An earlier release of the shop wrote this event, of version 1.
    let old = r#"{"id":"ship-16","timestamp":"2026-01-05T09:00:00","order":16,"carrier":"UPS","kind":"shop.shipped"}"#;
    store.append(&ConversationId::new("order-16")?, Expected::Any, &[NewEvent::parse(old)?])?;
    for order in 17..20 {
        let talk = ConversationId::new(&format!("order-{order}"))?;
        let shipped = Shipped {
            id: format!("ship-{order}"),
            timestamp: "2026-11-23T09:00:00".into(),
            order,
            carriers: vec!["DHL".into()],
            correlation: Correlation::default().correlation_id(format!("order-{order}")).causation_id(None),
        };
        let event = store.new_event(KIND, &shipped)?;
        let place = store.append(&talk, Expected::Any, &[event])?[0];
        println!(
            "order {order}: position {}{}",
            place.position,
            if place.known { ", known already" } else { "" }
        );
    }

    let query = EventQuery::default().kinds(vec![KIND.into()]);
    for order in ["order-16", "order-18"] {
        for event in store.events(&ConversationId::new(order)?, &query, 100)?.events {
            let shipped: Shipped = store.body(&event)?;
            println!("order {} went out with {}", shipped.order, shipped.carriers.join(" and "));
        }
    }

    // What follows from an event names it, also in another conversation.
    let bills = ConversationId::new("bills")?;
    for shipped in store.correlated("order-18", Position::START, 1)? {
        let billed = Billed {
            id: "bill-18".into(),
            timestamp: "2026-11-23T10:00:00".into(),
            sum: 9,
            correlation: shipped.event.as_cause(),
        };
        store.append(&bills, Expected::Any, &[NewEvent::of("shop.billed", &billed)?])?;
    }
    for event in store.correlated("order-18", Position::START, 100)? {
        println!("order 18: {} in {}", event.event.kind, event.conversation);
    }

    // Search finds the text of the members that the kind names.
    for hit in store.search("DHL", &SearchFilter::default(), 1, &mut |_| ())? {
        println!("found: {} in {}", hit.snippet, hit.conversation);
    }

    let mut mailer = store.subscription("mailer")?.kinds([KIND]);
    loop {
        let page = mailer.next_page(2, Duration::ZERO)?;
        for event in &page {
            let shipped: Shipped = store.body(&event.event)?;
            println!("mail: order {} is on its way", shipped.order);
        }
        mailer.acknowledge()?;
        if page.is_empty() {
            break;
        }
    }
    for subscription in store.subscriptions()? {
        println!("{} has read up to position {}", subscription.name, subscription.position);
    }
    Ok(())
}
