//! Which conversations have had their time: rules, the plan they make, and carrying it out.
//!
//! A conversation and the conversations of its sub-agents are one family: they go together or not at all,
//! and the newest of them says how old they are. One that runs does not go unless that status is asked for.

use std::collections::HashMap;

use rusqlite::Row;

use super::admin::{self, ActKind, NewAct};
use super::delete::take_out;
use super::engine::Doing as _;
use super::log::conversion;
use super::{ConversationFilter, Store};
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};

const ALL: &str = "SELECT c.key, c.id, coalesce(c.title, c.first_message), c.status, c.updated_at, c.event_count, \
     c.payload_bytes, c.parent, (SELECT coalesce(sum(octet_length(b.content)), 0) FROM attachment AS a \
     JOIN blob AS b ON b.key = a.blob WHERE a.conversation = c.key) FROM conversation AS c ORDER BY c.key";

/// Which conversations go. Those that fit all of `statuses` and `tags` are looked at; of these go the ones
/// that any of the limits is against, or all of them where there is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneRules {
    /// Only these statuses; empty for all but `running`.
    pub statuses: Vec<String>,
    /// Only with all of these tags; `None` as the value fits any.
    pub tags: Vec<(String, Option<String>)>,
    /// Those that last went on before this time.
    pub older_than: Option<Timestamp>,
    /// All but this many, the newest.
    pub keep_last: Option<u64>,
    /// Those beyond this many bytes of payloads and attachments, counted from the newest.
    pub bytes_max: Option<u64>,
}

impl PruneRules {
    /// Whether they say anything at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A conversation that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// Its id.
    pub id: ConversationId,
    /// The conversation whose sub-agent it is, where it goes because that one does.
    pub with: Option<ConversationId>,
    /// Its title.
    pub title: Option<String>,
    /// How it went.
    pub status: String,
    /// When it last went on.
    pub updated_at: Timestamp,
    /// How many events it has.
    pub events: u64,
    /// Bytes of its payloads and attachments; content that several conversations share counts for each.
    pub bytes: u64,
    /// Which limits are against it: `older_than`, `keep_last`, `max_bytes`, or `filter` where there is none.
    pub because: Vec<&'static str>,
}

/// What goes, and what stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrunePlan {
    /// What goes, the oldest first; sub-agents behind the conversation they belong to.
    pub pruned: Vec<Pruned>,
    /// How many conversations stay.
    pub kept: u64,
    /// Their bytes.
    pub kept_bytes: u64,
}

impl PrunePlan {
    /// Bytes of what goes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pruned.iter().map(|one| one.bytes).sum()
    }

    /// Events of what goes.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.pruned.iter().map(|one| one.events).sum()
    }
}

/// A conversation as the rules see it.
struct Member {
    key: i64,
    parent: Option<i64>,
    pruned: Pruned,
}

/// A conversation with those of its sub-agents, theirs included, parents first.
struct Family {
    members: Vec<Member>,
    updated_at: Timestamp,
    bytes: u64,
}

impl Store {
    /// What [`Store::prune`] would delete.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn plan_pruning(&self, rules: &PruneRules) -> Result<PrunePlan> {
        let families = self.snapshot(|db| {
            let members = db
                .prepare_cached(ALL)
                .and_then(|mut s| s.query_map([], member)?.collect::<rusqlite::Result<Vec<_>>>())
                .doing("planning what to prune")?;
            Ok(families(members))
        })?;
        let looked_at = self.looked_at(rules)?;
        Ok(plan(families, rules, &|id| looked_at.contains(id)))
    }

    /// Deletes what the rules say, one transaction a conversation, and writes each into the administrative
    /// log. The bytes stay until their room is used again, or [`Store::vacuum`].
    ///
    /// # Errors
    /// What writing can meet; what was deleted before stays deleted.
    pub fn prune(
        &self,
        rules: &PruneRules,
        reason: Option<&str>,
        progress: &mut dyn FnMut(&Pruned),
    ) -> Result<PrunePlan> {
        let plan = self.plan_pruning(rules)?;
        // Sub-agents first: should it end half way, no family is left without its head.
        for one in plan.pruned.iter().rev() {
            self.write(|db| {
                let gone = take_out(db, &one.id)?;
                let mut detail = gone.detail();
                detail["because"] = one.because.as_slice().into();
                let act = NewAct {
                    act: ActKind::Prune,
                    conversation: Some(one.id.as_str()),
                    reason,
                    detail,
                    receipts: &[gone.receipt],
                };
                admin::write(db, &self.0.options.actor, &act, Timestamp::now())
            })?;
            progress(one);
        }
        Ok(plan)
    }

    /// The conversations that fit the rules' statuses and tags.
    fn looked_at(&self, rules: &PruneRules) -> Result<std::collections::HashSet<ConversationId>> {
        let filter = ConversationFilter {
            statuses: rules.statuses.clone(),
            tags: rules.tags.clone(),
            ..ConversationFilter::default()
        };
        let mut found = std::collections::HashSet::new();
        let mut after = None;
        loop {
            let page = self.conversations(&filter, super::Order::Created, after.as_ref(), super::PAGE_MAX)?;
            found.extend(page.conversations.into_iter().map(|one| one.id));
            after = page.next;
            if after.is_none() {
                return Ok(found);
            }
        }
    }
}

fn member(row: &Row<'_>) -> rusqlite::Result<Member> {
    let id: String = row.get(1)?;
    let (payloads, attachments): (i64, i64) = (row.get(6)?, row.get(8)?);
    Ok(Member {
        key: row.get(0)?,
        parent: row.get(7)?,
        pruned: Pruned {
            id: ConversationId::new(&id).map_err(|error| conversion(1, error))?,
            with: None,
            title: row.get(2)?,
            status: row.get(3)?,
            updated_at: Timestamp(row.get(4)?),
            events: row.get::<_, i64>(5)?.cast_unsigned(),
            bytes: (payloads + attachments).cast_unsigned(),
            because: Vec::new(),
        },
    })
}

/// Puts sub-agents to whom they belong.
fn families(members: Vec<Member>) -> Vec<Family> {
    let mut children: HashMap<Option<i64>, Vec<Member>> = HashMap::new();
    for member in members {
        children.entry(member.parent).or_default().push(member);
    }
    let heads = children.remove(&None).unwrap_or_default();
    let gather = |head: Member| {
        let name = head.pruned.id.clone();
        let mut members = vec![head];
        let mut next = 0;
        while let Some(key) = members.get(next).map(|member| member.key) {
            let mut own = children.remove(&Some(key)).unwrap_or_default();
            own.iter_mut().for_each(|child| child.pruned.with = Some(name.clone()));
            members.append(&mut own);
            next += 1;
        }
        let newest = members.iter().map(|member| member.pruned.updated_at).max();
        Family {
            updated_at: newest.unwrap_or(Timestamp(0)),
            bytes: members.iter().map(|member| member.pruned.bytes).sum(),
            members,
        }
    };
    heads.into_iter().map(gather).collect()
}

/// Decides about each family, the newest first.
fn plan(
    mut families: Vec<Family>,
    rules: &PruneRules,
    is_looked_at: &dyn Fn(&ConversationId) -> bool,
) -> PrunePlan {
    families.sort_by_key(|family| std::cmp::Reverse((family.updated_at, family.members[0].key)));
    let has_limit = rules.older_than.is_some() || rules.keep_last.is_some() || rules.bytes_max.is_some();
    let (mut seen, mut bytes) = (0_u64, 0_u64);
    let mut plan = PrunePlan::default();
    for family in families {
        let runs = family.members.iter().any(|member| member.pruned.status == "running");
        let because = if !is_looked_at(&family.members[0].pruned.id) || (runs && rules.statuses.is_empty()) {
            Vec::new()
        } else {
            seen += 1;
            bytes = bytes.saturating_add(family.bytes);
            let limits = [
                ("older_than", rules.older_than.is_some_and(|time| family.updated_at < time)),
                ("keep_last", rules.keep_last.is_some_and(|count| seen > count)),
                ("max_bytes", rules.bytes_max.is_some_and(|most| bytes > most)),
                ("filter", !has_limit),
            ];
            limits.into_iter().filter(|(_, against)| *against).map(|(name, _)| name).collect()
        };
        if because.is_empty() {
            plan.kept += family.members.len() as u64;
            plan.kept_bytes += family.bytes;
            continue;
        }
        // Turned round below, so that the head of the family comes first.
        plan.pruned.extend(
            family
                .members
                .into_iter()
                .rev()
                .map(|member| Pruned { because: because.clone(), ..member.pruned }),
        );
    }
    plan.pruned.reverse();
    plan
}
