//! A shop that stores its own events beside its conversations, and a mailer that resumes where it stopped.
//!
//! `cargo run --example own_events [FILE]`. If you run it twice with a file, the second run sends no mail.

use std::time::Duration;

use annals::store::EventQuery;
use annals::{ConversationId, Expected, NewEvent, Options, Store};
use serde::{Deserialize, Serialize};

const KIND: &str = "shop.shipped";

#[derive(Debug, Serialize, Deserialize)]
struct Shipped {
    /// The id of the request. A retry of the request has the same id and changes nothing.
    id: String,
    timestamp: String,
    order: u64,
    carrier: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = match std::env::args_os().nth(1) {
        Some(file) => Store::open(file)?,
        None => Store::in_memory(&Options::default())?,
    };
    for order in 17..20 {
        let talk = ConversationId::new(&format!("order-{order}"))?;
        let shipped = Shipped {
            id: format!("ship-{order}"),
            timestamp: "2026-11-23T09:00:00".into(),
            order,
            carrier: "DHL".into(),
        };
        let event = NewEvent::of(KIND, &shipped)?;
        let place = store.append(&talk, Expected::Any, &[event])?[0];
        println!(
            "order {order}: position {}{}",
            place.position,
            if place.known { ", known already" } else { "" }
        );
    }

    let query = EventQuery { kinds: vec![KIND.into()], ..EventQuery::default() };
    for event in store.events(&ConversationId::new("order-18")?, &query, 100)?.events {
        let shipped: Shipped = event.body()?;
        println!("order {} went out with {}", shipped.order, shipped.carrier);
    }

    let mut mailer = store.subscription("mailer")?.kinds([KIND]);
    loop {
        let page = mailer.next_page(2, Duration::ZERO)?;
        for event in &page {
            let shipped: Shipped = event.body()?;
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
