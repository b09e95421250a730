//! A shop that keeps a table of its own beside its events: how many parcels each carrier has of each order. The table
//! changes in the transaction of each append, and refuses a second parcel with the same number.
//!
//! `cargo run --example own_projection [FILE]`

use annals::error::OwnProjectionError;
use annals::store::{OwnEvent, OwnFailure, OwnProjection, OwnProjections, OwnRows, SqlValue};
use annals::{ConversationId, Error, Expected, NewEvent, Options, Store};
use serde::{Deserialize, Serialize};

const KIND: &str = "shop.shipped";

#[derive(Debug, Serialize, Deserialize)]
struct Shipped {
    parcel: i64,
    carrier: String,
}

struct Parcels;

impl OwnProjection for Parcels {
    fn name(&self) -> &str {
        "shop.parcels"
    }

    fn version(&self) -> u32 {
        1
    }

    fn statements(&self) -> &[&str] {
        &[
            "CREATE TABLE own_shop_parcels (
                 conversation TEXT NOT NULL, parcel INTEGER NOT NULL, carrier TEXT NOT NULL, position INTEGER NOT NULL,
                 PRIMARY KEY (conversation, parcel)
             ) STRICT, WITHOUT ROWID",
            "CREATE INDEX own_shop_parcels_carrier ON own_shop_parcels (carrier)",
        ]
    }

    fn apply(&self, rows: &OwnRows<'_>, event: &OwnEvent<'_>) -> Result<(), OwnFailure> {
        if event.kind != KIND {
            return Ok(());
        }
        let shipped: Shipped = event.body()?;
        let known = rows.query(
            "SELECT 1 FROM own_shop_parcels WHERE conversation = ?1 AND parcel = ?2",
            &[event.conversation.into(), shipped.parcel.into()],
        )?;
        if !known.is_empty() {
            return Err("the parcel was sent before".into());
        }
        rows.execute(
            "INSERT INTO own_shop_parcels (conversation, parcel, carrier, position) VALUES (?1, ?2, ?3, ?4)",
            &[
                event.conversation.into(),
                shipped.parcel.into(),
                shipped.carrier.into(),
                event.position.into(),
            ],
        )?;
        Ok(())
    }
}

/// Returns options of a store with this projection.
pub fn options() -> Options {
    Options::default().own_projections(OwnProjections::default().with(Parcels))
}

/// Sends three parcels, two of them with the same number. Returns what a person should read.
pub fn send(store: &Store) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let order = ConversationId::new("order-17")?;
    let mut lines = Vec::new();
    for (parcel, carrier) in [(1, "DHL"), (2, "UPS"), (2, "DHL")] {
        let shipped = NewEvent::of(KIND, &Shipped { parcel, carrier: carrier.into() })?;
        match store.append(&order, Expected::Any, &[shipped]) {
            Ok(_) => lines.push(format!("parcel {parcel} goes with {carrier}")),
            Err(Error::OwnProjection(OwnProjectionError::Refused { source, .. })) => {
                lines.push(format!("parcel {parcel}: {source}"))
            }
            Err(error) => return Err(error.into()),
        }
    }
    let sql = "SELECT carrier, count(*) FROM own_shop_parcels WHERE conversation = ?1 GROUP BY carrier ORDER BY carrier";
    for row in store.query_own("shop.parcels", sql, &["order-17".into()])? {
        if let [SqlValue::Text(carrier), SqlValue::Integer(parcels)] = &row[..] {
            lines.push(format!("{carrier}: {parcels}"));
        }
    }
    Ok(lines)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = match std::env::args_os().nth(1) {
        Some(file) => Store::open_with(file, &options())?,
        None => Store::in_memory(&options())?,
    };
    for line in send(&store)? {
        println!("{line}");
    }
    Ok(())
}
