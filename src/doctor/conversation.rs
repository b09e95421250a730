//! Examines one conversation: its sequences, its tree and HEAD, its calls, its payloads, its import.

use super::calls::Calls;
use super::skeleton::{Odd, Part, Skeleton};
use super::ways::{End, Ways, straight_on};
use super::{Doctor, Examination, Finding, OnProgress, Remedy, Trouble};
use crate::error::Result;
use crate::ids::{ConversationId, EventId, Sequence};
use crate::store::Conversation;
use crate::tree::Tree;

/// The maximum number of findings of one kind for a conversation. The last of them tells how many more there are.
const FINDINGS_MAX: usize = 20;

/// The conversation under examination, and its findings so far.
struct Chart<'a> {
    row: &'a Conversation,
    skeleton: &'a Skeleton,
    findings: Vec<Finding>,
}

impl Chart<'_> {
    /// Adds a finding that concerns no single event.
    fn add(&mut self, trouble: Trouble, what: String, remedy: Option<Remedy>) {
        self.findings.push(Finding::new(trouble, Some(self.row.id.clone()), what, remedy));
    }

    /// Adds a finding about the event at `place`.
    fn add_at(&mut self, trouble: Trouble, place: usize, what: String, remedy: Option<Remedy>) {
        self.add(trouble, what, remedy);
        if let Some(finding) = self.findings.last_mut() {
            finding.sequence = Some(Sequence(self.skeleton.sequence(place)));
            finding.event = self.skeleton.tree.id(place).map(str::to_owned);
        }
    }

    /// Turns the last finding into a note, unless it concerns the live branch.
    fn note_unless(&mut self, is_live: bool) {
        if let Some(finding) = self.findings.last_mut() {
            finding.is_note |= !is_live;
        }
    }

    /// Removes the remedies that would write to the imported log of another program, which has to stay unchanged.
    fn leave_as_it_is(&mut self) {
        // The import itself makes up kinds for events that have no counterpart here.
        if self.row.foreign().is_some() {
            self.findings.retain(|finding| finding.trouble != Trouble::UnfamiliarKind);
        }
        for finding in &mut self.findings {
            if let Some(
                Remedy::MoveHead { .. } | Remedy::StandIn { .. } | Remedy::Answer { .. } | Remedy::Stop,
            ) = finding.remedy
            {
                finding.remedy = None;
                finding.what.push_str("; the other program left it like this");
            }
            finding.is_note |= matches!(
                finding.trouble,
                Trouble::Cycle
                    | Trouble::MissingParent
                    | Trouble::HeadBehind
                    | Trouble::DanglingCall
                    | Trouble::StaleRun
            );
        }
    }

    /// Removes the remedies that write to the log, because they rely on data that cannot be read.
    fn keep_from_repair(&mut self) {
        for finding in &mut self.findings {
            if finding.remedy != Some(Remedy::Recatalogue) {
                finding.remedy = None;
            }
        }
    }

    fn id(&self, place: usize) -> &str {
        self.skeleton.tree.id(place).unwrap_or_default()
    }

    /// Keeps only the first findings of a kind that has many and no remedy. Adds the number of the others to the last
    /// one.
    fn cut(&mut self) {
        for trouble in Trouble::ALL {
            let of_kind = |finding: &Finding| finding.trouble == *trouble;
            let count = self.findings.iter().filter(|finding| of_kind(finding)).count();
            if count <= FINDINGS_MAX || self.findings.iter().any(|f| of_kind(f) && f.remedy.is_some()) {
                continue;
            }
            let mut kept = 0;
            self.findings.retain(|finding| {
                kept += usize::from(of_kind(finding));
                !of_kind(finding) || kept <= FINDINGS_MAX
            });
            if let Some(last) = self.findings.iter_mut().rev().find(|finding| of_kind(finding)) {
                last.what.push_str(&format!("; and {} more like it", count - FINDINGS_MAX));
            }
        }
    }
}

impl Doctor<'_> {
    pub(super) fn examine_one(
        &self,
        id: &ConversationId,
        seen: &mut Examination,
        progress: OnProgress<'_>,
    ) -> Result<()> {
        let row = self.store.conversation(id)?;
        let mut events = seen.events;
        let skeleton = Skeleton::read(self.store, id, row.event_count, &mut || {
            events += 1;
            if events.is_multiple_of(1000) {
                progress(events);
            }
        })?;
        seen.events = events;
        seen.conversations += 1;
        progress(events);
        let mut chart = Chart { row: &row, skeleton: &skeleton, findings: Vec::new() };
        let examined = self.examine_log(&mut chart);
        // What the log says cannot be judged by a row that contradicts it: the row comes first, then another look.
        let is_misled = chart.findings.iter().any(|finding| finding.trouble == Trouble::Catalogue);
        if examined.is_err() || is_misled {
            chart.keep_from_repair();
        }
        let imported = self.examine_import(&mut chart);
        let lacking = self.store.compare_changes(id).map(|(gone, changed)| {
            if !gone.is_empty() {
                // Nothing is computed from what is left of it.
                chart.findings.iter_mut().for_each(|finding| finding.remedy = None);
            }
            for (trouble, found) in [(Trouble::Lost, gone), (Trouble::Changed, changed)] {
                for what in found.into_iter().filter(|_| self.looks_for(trouble)) {
                    chart.add(trouble, what, None);
                }
            }
        });
        chart.cut();
        if row.foreign_format.is_some() {
            chart.leave_as_it_is();
        }
        seen.findings.append(&mut chart.findings);
        seen.bear(Some(id), "what is stored beside its events", examined)?;
        seen.bear(Some(id), "its import", imported)?;
        seen.bear(Some(id), "its chain of changes", lacking)?;
        Ok(())
    }

    /// Checks the sequences, the catalogue's row, HEAD, the calls and the payloads.
    fn examine_log(&self, chart: &mut Chart<'_>) -> Result<()> {
        let id = &chart.row.id;
        examine_sequences(chart);
        if self.looks_for(Trouble::Catalogue)
            && let Some(what) = self.store.maintenance().check_catalogue(id)?
        {
            chart.add(Trouble::Catalogue, what, Some(Remedy::Recatalogue));
            // The log is longer than the row says, so its end was not read here. Findings about HEAD and calls would be
            // wrong, and their repair would write to the log. So the row has to be repaired first.
            if self.store.audit().hash_at(id, Sequence(chart.row.event_count))?.is_some() {
                return Ok(());
            }
        }
        examine_payloads(chart);
        let branch = self.examine_head(chart)?;
        self.examine_calls(chart, &branch)
    }

    /// Checks HEAD and the tree. Returns the branch that is live, or that will be live after the repair.
    fn examine_head(&self, chart: &mut Chart<'_>) -> Result<Vec<usize>> {
        let tree = &chart.skeleton.tree;
        let ways = Ways::of(tree);
        let leaf = tree.resolve_leaf(chart.row.leaf_event_id.as_deref(), chart.row.head_is_empty);
        let head = leaf.as_deref().and_then(|leaf| tree.place(leaf));
        let newest = ways.newest_tip(tree);
        let move_to_newest =
            || Some(Remedy::MoveHead { to: newest.and_then(|place| tree.id(place)).map(Into::into) });
        if let (Some(leaf), None) = (&leaf, head) {
            chart.add(
                Trouble::UnknownHead,
                format!("HEAD is {leaf:?}, which is no event of its log"),
                move_to_newest(),
            );
        }
        for (first, hanging) in ways.cycles() {
            let is_live = head.is_some_and(|head| ways.end(head) == End::Cycle(first));
            let what = format!(
                "its parents lead back to it; {hanging} events have no path to a root event{}",
                live(is_live)
            );
            chart.add_at(Trouble::Cycle, first, what, move_to_newest().filter(|_| is_live));
            chart.note_unless(is_live);
        }
        for (orphan, hanging) in ways.missing() {
            let is_live = head.is_some_and(|head| ways.end(head) == End::Missing(orphan));
            let parent = named_parent(tree, orphan);
            let what = format!(
                "it follows {parent:?}, which is not in the log; {hanging} events depend on it{}",
                live(is_live)
            );
            let stand_in = || Remedy::StandIn {
                id: parent.clone(),
                parent: ways.before(tree, orphan).and_then(|place| tree.id(place)).map(Into::into),
            };
            let remedy = is_live
                .then(|| if EventId::new(&*parent).is_ok() { Some(stand_in()) } else { move_to_newest() });
            chart.add_at(Trouble::MissingParent, orphan, what, remedy.flatten());
            chart.note_unless(is_live);
        }
        let live_tip = match head {
            Some(head) if ways.is_whole(head) => self.examine_tail(chart, head)?.or(Some(head)),
            Some(head) => match ways.end(head) {
                End::Missing(orphan) => {
                    let mut branch = ways
                        .before(tree, orphan)
                        .and_then(|before| tree.path(before).ok())
                        .unwrap_or_default();
                    branch.extend(tail_from(tree, orphan, head));
                    return Ok(branch);
                }
                End::Root | End::Cycle(_) => newest,
            },
            None if leaf.is_some() => newest,
            None => None,
        };
        Ok(live_tip.and_then(|tip| tree.path(tip).ok()).unwrap_or_default())
    }

    /// Checks whether events behind HEAD should be live. Returns the last of them if a repair will move HEAD there.
    fn examine_tail(&self, chart: &mut Chart<'_>, head: usize) -> Result<Option<usize>> {
        let tree = &chart.skeleton.tree;
        let Some(tip) = straight_on(tree, head) else { return Ok(None) };
        let last = Sequence(chart.skeleton.sequence(tree.len() - 1));
        // A HEAD that was moved back on purpose has a record of it. An import from a folder has no such records.
        let went_back = self
            .store
            .last_head_move(&chart.row.id, last)?
            .is_some_and(|moved| moved.behind.is_some_and(|behind| behind.0 >= chart.skeleton.sequence(tip)));
        if went_back {
            return Ok(None);
        }
        let is_running = self.base_status(chart)?.as_deref() == Some("running");
        let behind = chart.skeleton.sequence(tip) - chart.skeleton.sequence(head);
        let what = format!(
            "HEAD is {behind} events behind the last one, {}{}",
            chart.id(tip),
            if is_running { ", and the base state says that it still runs" } else { "" }
        );
        let mends = (is_running || self.is_meant(Trouble::HeadBehind)) && !self.is_busy(chart);
        let remedy = mends.then(|| Remedy::MoveHead { to: Some(chart.id(tip).to_owned()) });
        chart.add_at(Trouble::HeadBehind, head, what, remedy);
        Ok(mends.then_some(tip))
    }

    fn examine_calls(&self, chart: &mut Chart<'_>, branch: &[usize]) -> Result<()> {
        let calls = Calls::of(chart.skeleton, branch);
        let status = chart.row.status.clone();
        let waits = matches!(status.as_str(), "waiting_for_confirmation" | "paused");
        let (busy, on_purpose) =
            (self.is_busy(chart), self.is_meant(Trouble::DanglingCall) && status == "paused");
        for place in calls.dangling {
            let Part::Call { call, tool, .. } = &chart.skeleton.parts[place] else { continue };
            if status == "waiting_for_confirmation" {
                continue; // it waits for a person, as intended
            }
            let mut what = format!("it calls {tool} ({call}) and has no answer");
            if busy {
                what.push_str("; the conversation was active a moment ago, so the tool may still be running");
            } else if waits {
                what.push_str("; the run is paused and executes the call when it is resumed");
            }
            let remedy = (!busy && (!waits || on_purpose)).then(|| Remedy::Answer {
                action: chart.id(place).to_owned(),
                call: call.to_string(),
                tool: tool.to_string(),
            });
            chart.add_at(Trouble::DanglingCall, place, what, remedy);
        }
        for (place, first) in calls.second {
            let what = format!("its call was already answered by {}", chart.id(first));
            chart.add_at(Trouble::TwoAnswers, place, what, None);
        }
        for (place, first) in calls.repeated {
            let what = format!("its call has the same id as that of {}", chart.id(first));
            chart.add_at(Trouble::RepeatedCall, place, what, None);
        }
        for place in calls.stray {
            chart.add_at(
                Trouble::StrayAnswer,
                place,
                "it answers a call that is not on its branch".into(),
                None,
            );
        }
        if !busy && self.base_status(chart)?.as_deref() == Some("running") {
            chart.add(Trouble::StaleRun, "its status is running".into(), Some(Remedy::Stop));
        }
        Ok(())
    }

    /// Returns the status in the base state.
    fn base_status(&self, chart: &Chart<'_>) -> Result<Option<String>> {
        let state = self.store.base_state(&chart.row.id)?;
        Ok(state.and_then(|state| state.document.status()))
    }

    /// Returns whether the conversation may be running now: an event was appended a moment ago, and not by an import.
    fn is_busy(&self, chart: &Chart<'_>) -> bool {
        let Some(recorded_at) = chart.skeleton.recorded_at else { return false };
        let imported = self
            .store
            .origin(&chart.row.id)
            .ok()
            .flatten()
            .is_some_and(|origin| origin.events >= chart.row.event_count);
        !imported && self.may_run(recorded_at)
    }

    /// Adds one finding with the problems of the conversation's import.
    fn examine_import(&self, chart: &mut Chart<'_>) -> Result<()> {
        let mut problems = self.store.problems(&chart.row.id)?;
        // A changed id is not damage.
        problems.retain(|problem| !problem.problem.starts_with("another folder was imported"));
        if let Some(first) = problems.first() {
            let more = match problems.len() - 1 {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let what = format!("{}: {}{more}", first.path, first.problem);
            chart.add(Trouble::Imported, what, None);
        }
        Ok(())
    }
}

fn live(is_live: bool) -> &'static str {
    if is_live { ", including HEAD" } else { ", none of them on the live branch" }
}

fn examine_sequences(chart: &mut Chart<'_>) {
    for (from, behind) in chart.skeleton.gaps.clone() {
        let what = if behind == from + 1 {
            format!("event {from} is gone")
        } else {
            format!("events {from} to {} are gone", behind - 1)
        };
        chart.add(Trouble::Gap, what, None);
        if let Some(finding) = chart.findings.last_mut() {
            finding.sequence = Some(Sequence(from));
        }
    }
}

fn examine_payloads(chart: &mut Chart<'_>) {
    let describe = |kind: &str, odd: &Odd| match (odd.count, odd.why.as_str()) {
        (1, "") if kind.is_empty() => "it has no kind".to_owned(),
        (count, "") if kind.is_empty() => format!("it and {} more have no kind", count - 1),
        (1, "") => format!("it is of the kind {kind}"),
        (count, "") => format!("it and {} more are of the kind {kind}", count - 1),
        (1, why) => format!("{}: {why}", if kind.is_empty() { "no kind" } else { kind }),
        (count, why) if kind.is_empty() => {
            format!("no kind: {why}; and {} more without one cannot be read", count - 1)
        }
        (count, why) => format!("{kind}: {why}; and {} more of that kind cannot be read", count - 1),
    };
    let both = [
        (Trouble::Unreadable, &chart.skeleton.unreadable),
        (Trouble::UnfamiliarKind, &chart.skeleton.unfamiliar),
    ];
    for (trouble, odd) in both {
        for (kind, odd) in odd {
            let mut finding = Finding::new(trouble, Some(chart.row.id.clone()), describe(kind, odd), None);
            finding.sequence = Some(Sequence(odd.first.0));
            finding.event = Some(odd.first.1.clone());
            chart.findings.push(finding);
        }
    }
}

fn named_parent(tree: &Tree, orphan: usize) -> String {
    match tree.parent(orphan) {
        Err(crate::tree::TreeError::MissingParent { parent, .. }) => parent,
        _ => String::new(),
    }
}

/// Returns the places from `orphan` to `head`, in the order of the branch.
fn tail_from(tree: &Tree, orphan: usize, head: usize) -> Vec<usize> {
    let mut tail = vec![head];
    while let Some(&last) = tail.last()
        && last != orphan
        && let Ok(Some(parent)) = tree.parent(last)
    {
        tail.push(parent);
    }
    tail.reverse();
    tail
}
