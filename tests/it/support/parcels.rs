//! A host's own projection, for the tests of all of them: parcels that a shop has sent.

use annals::store::{
    Durability, OwnEvent, OwnFailure, OwnProjection, OwnProjections, OwnRows, OwnScope, SqlValue,
};
use annals::{NewEvent, Options};
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::json;

use super::events::event;
use super::{rows, without_projector};

pub const NAME: &str = "shop.parcels";

/// The projection. A carrier called `refused` is not accepted, and one called `panic` makes it panic.
#[derive(Clone, Copy)]
pub struct Parcels {
    pub version: u32,
    pub scope: OwnScope,
    /// Whether it refuses anything at all.
    pub is_strict: bool,
}

impl Default for Parcels {
    fn default() -> Self {
        Self { version: 1, scope: OwnScope::Conversation, is_strict: true }
    }
}

impl OwnProjection for Parcels {
    fn name(&self) -> &str {
        NAME
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn scope(&self) -> OwnScope {
        self.scope
    }

    fn statements(&self) -> &[&str] {
        &[
            "CREATE TABLE own_shop_parcels (conversation TEXT NOT NULL, sequence INTEGER NOT NULL,\n    \
             position INTEGER NOT NULL, id TEXT NOT NULL, note TEXT, version INTEGER NOT NULL,\n    \
             PRIMARY KEY (conversation, sequence)) STRICT, WITHOUT ROWID",
            "CREATE TABLE own_shop_parcels_carrier (conversation TEXT NOT NULL, carrier TEXT NOT NULL,\n    \
             parcels INTEGER NOT NULL, PRIMARY KEY (conversation, carrier)) STRICT",
            "CREATE INDEX own_shop_parcels_place ON own_shop_parcels (position)",
        ]
    }

    fn apply(&self, rows: &OwnRows<'_>, event: &OwnEvent<'_>) -> Result<(), OwnFailure> {
        if event.kind != "shop.shipped" {
            return Ok(());
        }
        let shipped: serde_json::Value = event.body()?;
        let carrier = shipped["carrier"].as_str().ok_or("a parcel has no carrier")?;
        rows.execute(
            "INSERT INTO own_shop_parcels (conversation, sequence, position, id, note, version) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            &[
                event.conversation.into(),
                event.sequence.into(),
                event.position.into(),
                event.id.into(),
                shipped["note"].as_str().into(),
                self.version.into(),
            ],
        )?;
        let known = rows.query(
            "SELECT parcels FROM own_shop_parcels_carrier WHERE conversation = ?1 AND carrier = ?2",
            &[event.conversation.into(), carrier.into()],
        )?;
        let parcels = match known.first().map(|row| &row[0]) {
            Some(SqlValue::Integer(parcels)) => parcels + 1,
            _ => 1,
        };
        rows.execute(
            "INSERT INTO own_shop_parcels_carrier (conversation, carrier, parcels) VALUES (?1, ?2, ?3) \
             ON CONFLICT (conversation, carrier) DO UPDATE SET parcels = excluded.parcels",
            &[event.conversation.into(), carrier.into(), parcels.into()],
        )?;
        match carrier {
            "refused" if self.is_strict => Err("this carrier is not accepted".into()),
            "panic" if self.is_strict => panic!("this carrier is a defect of the host"),
            _ => Ok(()),
        }
    }
}

/// Options with a projection, without background work and without waits for the disk.
pub fn with(projection: impl OwnProjection + 'static) -> Options {
    quick().own_projections(OwnProjections::default().with(projection))
}

/// The options of a program that does not know the projection.
pub fn quick() -> Options {
    without_projector().durability(Durability::Normal)
}

pub fn shipped(id: &str, carrier: &str, note: &str) -> NewEvent {
    event(id, "shop.shipped", json!({"source": "environment", "carrier": carrier, "note": note}))
}

/// All rows of the projection, as another program reads them.
pub fn dump(db: &Connection) -> [Vec<Vec<Value>>; 2] {
    [
        rows(db, "SELECT * FROM own_shop_parcels ORDER BY conversation, sequence"),
        rows(db, "SELECT * FROM own_shop_parcels_carrier ORDER BY conversation, carrier"),
    ]
}

/// The rows that the log of the file gives, by plain SQL.
pub fn wanted(db: &Connection, version: u32) -> [Vec<Vec<Value>>; 2] {
    let of_log = "FROM events WHERE kind = 'shop.shipped'";
    let carrier = "json_extract(payload, '$.carrier')";
    [
        rows(
            db,
            &format!(
                "SELECT conversation_id, sequence, position, event_id, json_extract(payload, '$.note'), {version} \
                 {of_log} ORDER BY conversation_id, sequence"
            ),
        ),
        rows(
            db,
            &format!("SELECT conversation_id, {carrier}, count(*) {of_log} GROUP BY 1, 2 ORDER BY 1, 2"),
        ),
    ]
}
