//! Prunes old conversations: the rules, the plan made from them, and its execution.
//!
//! A conversation and the conversations of its sub-agents are one family: all of them are deleted, or none. The newest
//! member gives the age of the family. A family with a running member stays unless the rules name that status. A family
//! that changed after the plan was made stays too.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Row};

use super::delete::take_out;
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use crate::store::Retention;
use crate::store::engine::WhileDoing as _;
use crate::store::options::PAGE_MAX;
use crate::store::read::list::{ConversationFilter, Order};
use crate::store::table::admin::{self, ActKind, NewAct};
use crate::store::table::catalogue;
use crate::store::table::log::conversion;

const ALL: &str = "SELECT c.key, c.id, coalesce(c.title, c.first_message), c.status, c.updated_at, c.event_count, \
     c.payload_bytes, c.parent, (SELECT coalesce(sum(octet_length(b.content)), 0) FROM attachment AS a \
     JOIN blob AS b ON b.key = a.blob WHERE a.conversation = c.key), (SELECT sum(p.bytes - octet_length(p.content)) \
     FROM archived_conversation AS a JOIN event AS e ON e.conversation = a.conversation \
     JOIN archived_payload AS p ON p.position = e.position WHERE a.conversation = c.key) \
     FROM conversation AS c ORDER BY c.key";

/// The status of a conversation that an agent works on.
const RUNNING: &str = "running";

/// The rules for which conversations are deleted. The candidates match all of `statuses`, `tags`
/// and the facts from `workspace` to `started_by`. A candidate is
/// deleted if it exceeds any of the limits, or if there is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PruneRules {
    /// Only these statuses. Empty for all but `running`.
    pub statuses: Vec<String>,
    /// Only with all of these tags. `None` as the value matches any value.
    pub tags: Vec<(String, Option<String>)>,
    /// Only conversations that worked in this folder or below it, or on this repository.
    pub workspace: Option<String>,
    /// Only conversations whose log this program wrote.
    pub source: Option<String>,
    /// Only conversations of this model.
    pub model: Option<String>,
    /// Only conversations that this user started.
    pub started_by: Option<String>,
    /// No conversation with any of these tags, and none with such a sub-agent's conversation.
    pub kept_tags: Vec<(String, Option<String>)>,
    /// Limit: delete those that last changed before this time.
    pub older_than: Option<Timestamp>,
    /// Limit: delete all but this many, the newest.
    pub keep_last: Option<u64>,
    /// Limit: delete those beyond this many bytes of payloads and attachments, counted from the newest. Archived
    /// payloads count with their compressed size.
    pub bytes_max: Option<u64>,
}

setters!(PruneRules {
    statuses: Vec<String>,
    tags: Vec<(String, Option<String>)>,
    workspace?: String,
    source?: String,
    model?: String,
    started_by?: String,
    kept_tags: Vec<(String, Option<String>)>,
    older_than?: Timestamp,
    keep_last?: u64,
    bytes_max?: u64,
});

impl PruneRules {
    /// Returns whether there is no rule except kept tags. Such rules would delete almost every conversation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self { kept_tags: self.kept_tags.clone(), ..Self::default() }
    }
}

/// A conversation that is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// Its id.
    pub id: ConversationId,
    /// The head of its family, if it is a sub-agent's conversation. `None` for the head itself.
    pub with: Option<ConversationId>,
    /// Its title.
    pub title: Option<String>,
    /// Its status.
    pub status: String,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The number of its events.
    pub events: u64,
    /// The bytes of its payloads and attachments. Content that several conversations share counts for each.
    pub bytes: u64,
    /// The limits that it exceeds: `older_than`, `keep_last`, `max_bytes`. `filter` if there is no limit.
    pub because: Vec<&'static str>,
}

/// The conversations that are deleted, and figures of those that stay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PrunePlan {
    /// The conversations that are deleted, the oldest first. Sub-agents come after the head of their family.
    pub pruned: Vec<Pruned>,
    /// The number of conversations that stay.
    pub kept: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// The number of those that stay only because a member of their family is running.
    pub running: u64,
    /// The number of those that stay because their family changed, or was deleted, after the plan was made.
    pub changed: u64,
}

impl PrunePlan {
    /// Returns the bytes of the deleted conversations.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        total_bytes(self.pruned.iter())
    }

    /// Returns the number of events of the deleted conversations.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.pruned.iter().fold(0, |sum, one| sum.saturating_add(one.events))
    }
}

/// A conversation with the data that the rules need.
struct Member {
    key: i64,
    parent: Option<i64>,
    pruned: Pruned,
}

/// A conversation with those of its sub-agents, of their sub-agents and so on, parents first.
struct Family {
    members: Vec<Member>,
    updated_at: Timestamp,
    bytes: u64,
}

impl Retention<'_> {
    /// Returns what [`Retention::prune`] would delete.
    ///
    /// # Errors
    /// Any read error.
    pub fn plan_pruning(&self, rules: &PruneRules) -> Result<PrunePlan> {
        let families = self.store.snapshot(|db| {
            let members = db
                .prepare_cached(ALL)
                .and_then(|mut s| s.query_map([], member)?.collect::<rusqlite::Result<Vec<_>>>())
                .doing("planning what to prune")?;
            Ok(families(members))
        })?;
        let candidates = self.all(&ConversationFilter {
            statuses: rules.statuses.clone(),
            tags: rules.tags.clone(),
            workspace: rules.workspace.clone(),
            source: rules.source.clone(),
            model: rules.model.clone(),
            started_by: rules.started_by.clone(),
            ..ConversationFilter::default()
        })?;
        let mut kept = HashSet::new();
        for tag in &rules.kept_tags {
            kept.extend(self.all(&ConversationFilter { tags: vec![tag.clone()], ..Default::default() })?);
        }
        Ok(plan(families, rules, &|family| {
            candidates.contains(family.head())
                && !family.members.iter().any(|member| kept.contains(&member.pruned.id))
        }))
    }

    /// Deletes the conversations that the rules select, and returns them. Each family is deleted in one transaction,
    /// and each conversation gets an act in the administrative log.
    ///
    /// The bytes stay in the file until their space is reused, or until
    /// [`Maintenance::vacuum`](crate::store::Maintenance::vacuum).
    ///
    /// # Errors
    /// Any write error. Families that were deleted before the error stay deleted.
    pub fn prune(
        &self,
        rules: &PruneRules,
        reason: Option<&str>,
        progress: &mut dyn FnMut(&Pruned),
    ) -> Result<PrunePlan> {
        let planned = self.plan_pruning(rules)?;
        let mut done = PrunePlan { pruned: Vec::new(), ..planned };
        for family in planned.pruned.chunk_by(|_, next| next.with.is_some()) {
            if self.store.write(|db| self.delete_family(db, family, reason))? {
                family.iter().for_each(&mut *progress);
                done.pruned.extend_from_slice(family);
            } else {
                done.changed += family.len() as u64;
                done.kept += family.len() as u64;
                done.kept_bytes = done.kept_bytes.saturating_add(total_bytes(family.iter()));
            }
        }
        Ok(done)
    }

    /// Deletes a family if it has not changed since the plan was made. Returns whether it was deleted.
    fn delete_family(&self, db: &Connection, family: &[Pruned], reason: Option<&str>) -> Result<bool> {
        for one in family {
            let entry = catalogue::Entry::load(db, &one.id)?;
            if entry.is_none_or(|entry| entry.event_count != one.events || entry.status() != one.status) {
                return Ok(false);
            }
        }
        let now = Timestamp::now();
        for one in family.iter().rev() {
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
            admin::write(db, &self.store.0.options.actor, &act, now)?;
        }
        Ok(true)
    }

    fn all(&self, filter: &ConversationFilter) -> Result<HashSet<ConversationId>> {
        let mut found = HashSet::new();
        let mut after = None;
        loop {
            let page = self.store.conversations(filter, Order::Created, after.as_ref(), PAGE_MAX)?;
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
    let saved: Option<i64> = row.get(9)?;
    Ok(Member {
        key: row.get(0)?,
        parent: row.get(7)?,
        pruned: Pruned {
            id: ConversationId::new(&id).map_err(|error| conversion(1, error))?,
            with: None,
            title: catalogue::text(row, 2)?,
            status: row.get(3)?,
            updated_at: Timestamp(row.get(4)?),
            events: row.get::<_, i64>(5)?.cast_unsigned(),
            bytes: (payloads + attachments - saved.unwrap_or(0)).max(0).cast_unsigned(),
            because: Vec::new(),
        },
    })
}

/// Groups conversations into families.
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
            bytes: total_bytes(members.iter().map(|member| &member.pruned)),
            members,
        }
    };
    heads.into_iter().map(gather).collect()
}

/// Returns the bytes of all of them. Saturates, because a damaged row may have any number.
fn total_bytes<'a>(all: impl Iterator<Item = &'a Pruned>) -> u64 {
    all.fold(0, |sum, one| sum.saturating_add(one.bytes))
}

impl Family {
    fn head(&self) -> &ConversationId {
        &self.members[0].pruned.id
    }
}

/// Decides about each family, the newest first.
fn plan(mut families: Vec<Family>, rules: &PruneRules, is_candidate: &dyn Fn(&Family) -> bool) -> PrunePlan {
    families.sort_by_key(|family| std::cmp::Reverse((family.updated_at, family.members[0].key)));
    let has_limit = rules.older_than.is_some() || rules.keep_last.is_some() || rules.bytes_max.is_some();
    let (mut seen, mut bytes) = (0_u64, 0_u64);
    let mut plan = PrunePlan::default();
    for family in families {
        let mut because = Vec::new();
        if is_candidate(&family) {
            seen += 1;
            bytes = bytes.saturating_add(family.bytes);
            let limits = [
                ("older_than", rules.older_than.is_some_and(|time| family.updated_at < time)),
                ("keep_last", rules.keep_last.is_some_and(|count| seen > count)),
                ("max_bytes", rules.bytes_max.is_some_and(|most| bytes > most)),
                ("filter", !has_limit),
            ];
            because.extend(limits.into_iter().filter(|(_, is_exceeded)| *is_exceeded).map(|(name, _)| name));
        }
        let runs = family.members.iter().any(|member| member.pruned.status == RUNNING);
        let may_run = rules.statuses.iter().any(|status| status == RUNNING);
        if runs && !may_run && !because.is_empty() {
            plan.running += family.members.len() as u64;
            because.clear();
        }
        if because.is_empty() {
            plan.kept += family.members.len() as u64;
            plan.kept_bytes = plan.kept_bytes.saturating_add(family.bytes);
            continue;
        }
        // The whole list is reversed below, so that the head of the family comes first.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a conversation of 100 bytes that last changed at `at`, a sub-agent's of `parent`.
    fn member(key: i64, at: i64, parent: Option<i64>, status: &str) -> Member {
        let pruned = Pruned {
            id: ConversationId::new(&format!("c{key}")).unwrap(),
            with: None,
            title: None,
            status: status.into(),
            updated_at: Timestamp(at),
            events: 1,
            bytes: 100,
            because: Vec::new(),
        };
        Member { key, parent, pruned }
    }

    /// Of 1 to 4, 1 is the oldest and 4 the newest. 5 is a sub-agent's of 2 and the newest of all, 6 is a sub-agent's
    /// of 5. 7 is running.
    fn members() -> Vec<Member> {
        vec![
            member(1, 10, None, "finished"),
            member(2, 20, None, "finished"),
            member(3, 30, None, "stuck"),
            member(4, 40, None, "finished"),
            member(5, 50, Some(2), "finished"),
            member(6, 5, Some(5), "idle"),
            member(7, 1, None, "running"),
        ]
    }

    fn pruned(rules: &PruneRules) -> Vec<(String, String)> {
        let plan = plan(families(members()), rules, &|_| true);
        assert_eq!(plan.pruned.len() as u64 + plan.kept, 7);
        assert_eq!(plan.bytes() + plan.kept_bytes, 700);
        plan.pruned.into_iter().map(|one| (one.id.to_string(), one.because.join(" "))).collect()
    }

    fn names(pruned: &[(String, String)]) -> Vec<&str> {
        pruned.iter().map(|(id, _)| id.as_str()).collect()
    }

    #[test]
    fn a_family_is_as_old_as_its_newest_member_and_goes_whole() {
        let older = |time| PruneRules { older_than: Some(Timestamp(time)), ..PruneRules::default() };
        assert_eq!(names(&pruned(&older(31))), ["c1", "c3"]);
        assert_eq!(names(&pruned(&older(10))), [""; 0]);
        assert_eq!(names(&pruned(&older(51))), ["c1", "c3", "c4", "c2", "c5", "c6"]);
    }

    #[test]
    fn the_newest_are_kept_by_count_and_by_bytes() {
        let last = |count| PruneRules { keep_last: Some(count), ..PruneRules::default() };
        assert_eq!(names(&pruned(&last(2))), ["c1", "c3"]);
        assert_eq!(names(&pruned(&last(0))).len(), 6);
        let bytes = |most| PruneRules { bytes_max: Some(most), ..PruneRules::default() };
        assert_eq!(names(&pruned(&bytes(500))), ["c1"]);
        // The family of 2 alone has 300 bytes.
        assert_eq!(names(&pruned(&bytes(299))).len(), 6);
    }

    #[test]
    fn each_limit_that_a_conversation_exceeds_is_listed() {
        let rules = PruneRules {
            older_than: Some(Timestamp(31)),
            keep_last: Some(1),
            bytes_max: Some(350),
            ..PruneRules::default()
        };
        let because = pruned(&rules);
        let limits_of = |index: usize| (because[index].0.as_str(), because[index].1.as_str());
        assert_eq!(limits_of(0), ("c1", "older_than keep_last max_bytes"));
        assert_eq!(limits_of(2), ("c4", "keep_last max_bytes"));
    }

    #[test]
    fn a_running_sub_agent_keeps_its_family_whatever_other_status_is_named() {
        let members = || vec![member(1, 10, None, "finished"), member(2, 20, Some(1), "running")];
        let pruned = |status: &str| {
            let rules = PruneRules { statuses: vec![status.into()], ..PruneRules::default() };
            let plan = plan(families(members()), &rules, &|_| true);
            (plan.pruned.len(), plan.running)
        };
        assert_eq!(pruned("finished"), (0, 2));
        assert_eq!(pruned("running"), (2, 0));
    }

    #[test]
    fn running_conversations_stay_unless_the_rules_name_that_status() {
        let rules = PruneRules { statuses: vec!["running".into()], ..PruneRules::default() };
        assert_eq!(pruned(&rules).len(), 7);
        assert!(pruned(&rules).iter().all(|(_, because)| because == "filter"));
    }
}
