//! Independent small groups in one launch, dispatched by block range.
//!
//! Groups that share an input over one domain are one group already (siblings). What is left to gain is the start of a
//! launch, so only groups whose work is short against it are put together, and only where the work of both is not held
//! up: each keeps its own loop.
//!
//! A streamed group takes along what is stored over parameters of which it reads other elements: the rows that are appended
//! to a cache while it is attended over.

use crate::plan::cost::{MOST_OP_CODE, count_code, count_parameters};
use crate::plan::display::Micros;
use crate::plan::partition::{Group, PASS_ONE_TENSOR, Partition, Problem};
use crate::plan::{Decision, Refusal, Rule};
use crate::schedule::build::write_an_op;
use crate::schedule::{BodyOp, BufferRef, ScheduleKind, ScheduledGroup};

/// Work in seconds up to which a group is small: a few starts of a launch.
const SMALL_WORK: f64 = 10e-6;

/// The groups of each launch, by slot, in order, with a decision for each slot that was weighed against another.
///
/// `force` puts together what is legal whether or not it is worth it, to keep to a number of launches.
pub(super) fn join_launches(
    problem: &Problem<'_>,
    partition: &Partition,
    order: &[usize],
    force: bool,
) -> (Vec<Vec<usize>>, Vec<(usize, Decision)>) {
    let before = partition.dependencies(problem);
    let mut launches: Vec<Vec<usize>> = Vec::new();
    let mut decisions = Vec::new();
    for &slot in order {
        // The first launch after everything the group depends on.
        let earliest = launches
            .iter()
            .rposition(|parts| parts.iter().any(|p| before[slot].contains(p)))
            .map_or(0, |k| k + 1);
        let mut home = None;
        let mut weighed: Option<Decision> = None;
        for (k, parts) in launches.iter().enumerate().skip(earliest) {
            // The first says why not; after that only launches of small groups are worth a try.
            let small = |slot: &usize| work_of(problem, partition, *slot) <= SMALL_WORK;
            let worth =
                small(&slot) && parts.iter().all(small) || appends(problem, partition, parts, slot, force);
            if weighed.is_some() && !force && !worth {
                continue;
            }
            let decision = weigh(problem, partition, parts, slot, force);
            if decision.refusal.is_none() {
                home = Some(k);
            }
            let taken = decision.refusal.is_none();
            if weighed.is_none() || taken {
                weighed = Some(decision);
            }
            if taken {
                break;
            }
        }
        decisions.extend(weighed.map(|decision| (slot, decision)));
        match home {
            Some(k) => launches[k].push(slot),
            None => launches.push(vec![slot]),
        }
    }
    (launches, decisions)
}

/// What the work of a group takes, without the start of its launches.
fn work_of(problem: &Problem<'_>, partition: &Partition, slot: usize) -> f64 {
    let seconds =
        |g: &Group| g.lowered.price.seconds - f64::from(g.lowered.group.launches()) * problem.target.launch;
    partition.group(slot).map_or(0.0, seconds)
}

/// Whether these are one streamed group and stores over parameters of which it reads other elements at most; small ones, unless
/// a contract leaves no other launch.
fn appends(problem: &Problem<'_>, partition: &Partition, parts: &[usize], slot: usize, force: bool) -> bool {
    let mut streamed = 0;
    let fits = parts.iter().chain([&slot]).all(|k| {
        let Some(group) = partition.group(*k) else { return false };
        match group.lowered.group.kind {
            ScheduleKind::Streamed => {
                streamed += 1;
                // Where it overwrites something itself it may be several kernels.
                group.lowered.writes.is_empty()
            }
            ScheduleKind::Pointwise => {
                let stores = &group.lowered.group.stores;
                let over_params = stores.iter().all(|s| matches!(s.buffer, BufferRef::Param(_)));
                over_params && (force || work_of(problem, partition, *k) <= SMALL_WORK)
            }
            ScheduleKind::Row | ScheduleKind::Column | ScheduleKind::Split => false,
            ScheduleKind::Contraction | ScheduleKind::Depthwise => false,
        }
    });
    fits && streamed == 1
}

fn weigh(
    problem: &Problem<'_>,
    partition: &Partition,
    parts: &[usize],
    slot: usize,
    force: bool,
) -> Decision {
    let target = problem.target;
    let group = |k: usize| partition.group(k);
    let work = |k: usize| work_of(problem, partition, k);
    let launches = |k: usize| group(k).map_or(1, |g| g.lowered.group.launches());
    let sum = |f: &dyn Fn(&ScheduledGroup) -> u32| -> u32 {
        parts.iter().chain([&slot]).filter_map(|k| group(*k)).map(|g| f(&g.lowered.group)).sum()
    };
    let parameters = sum(&|g| count_parameters(g));
    let code = sum(&|g| count_code(problem.kernel, g));
    let longest = parts.iter().chain([&slot]).map(|k| work(*k)).fold(0.0, f64::max);
    let together = parts.iter().map(|k| launches(*k)).max().unwrap_or(1).max(launches(slot));
    let apart = parts.iter().map(|k| launches(*k)).max().unwrap_or(1) + launches(slot);
    let saved = f64::from(apart - together) * target.launch;
    let total: f64 = parts.iter().chain([&slot]).map(|k| work(*k)).sum();
    let bytes = parts.iter().chain([&slot]).filter_map(|k| group(*k)).map(|g| g.lowered.price.bytes).sum();
    let overwrites = |k: usize| {
        let writes = group(slot).map_or(&[][..], |g| &g.lowered.writes);
        group(k).is_some_and(|g| {
            writes.iter().any(|w| {
                let reads = g.lowered.reads.contains(w) && !partition.are_apart(problem, k, slot, *w);
                g.lowered.writes.contains(w) || reads
            })
        })
    };
    debug_assert!(
        !parts.iter().any(|k| overwrites(*k)),
        "what overwrites a parameter depends on what reads or overwrites it earlier"
    );
    let is_streamed = |k: &usize| group(*k).is_some_and(|g| g.lowered.group.kind == ScheduleKind::Streamed);
    let appended = appends(problem, partition, parts, slot, force);
    let (refusal, reason, remedy) = if !appended && parts.iter().chain([&slot]).any(is_streamed) {
        let reason = "a streamed launch works tile by tile and takes no other work along".to_owned();
        (Some(Refusal::NotStreamed), reason, None)
    } else if parameters > target.parameters {
        let reason = format!("{parameters} buffers and scalars, {} fit a launch", target.parameters);
        (Some(Refusal::Parameters), reason, Some(PASS_ONE_TENSOR.to_owned()))
    } else if code > target.code_size {
        let reason = format!("about {code} operations, {} fit a launch", target.code_size);
        // What is one operation, or little code, counts no less as an op.
        let gains = |g: &ScheduledGroup| {
            let maps = g.values.iter().filter(|v| matches!(v.op, BodyOp::Map { .. })).count();
            maps > 1 && u64::from(count_code(problem.kernel, g)) > MOST_OP_CODE
        };
        let helps = parts.iter().chain([&slot]).filter_map(|k| group(*k)).any(|g| gains(&g.lowered.group));
        (Some(Refusal::CodeSize), reason, helps.then(write_an_op))
    } else if appended {
        let reason = format!("stored while all else is read: one launch less saves {}", Micros(saved));
        (None, reason, None)
    } else if longest > SMALL_WORK && !force {
        let reason = format!(
            "the work takes {} against the {} that one launch less would save",
            Micros(longest),
            Micros(saved)
        );
        (Some(Refusal::Slower), reason, None)
    } else {
        (None, format!("independent and small: one launch less saves {}", Micros(saved)), None)
    };
    let node = |k: usize| {
        let first = group(k).and_then(|g| g.roots.first()).map(|r| r.node(problem.kernel));
        first.unwrap_or(crate::id::NodeId(0))
    };
    Decision {
        rule: Rule::Horizontal,
        producer: parts.last().map_or(node(slot), |k| node(*k)),
        consumer: node(slot),
        refusal,
        reason,
        remedy,
        bytes: (bytes, bytes),
        seconds: (total + f64::from(together) * target.launch, total + f64::from(apart) * target.launch),
    }
}
