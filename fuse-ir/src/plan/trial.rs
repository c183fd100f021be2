//! What would come of a merge that was not made: it is tried, and the reason stands in what comes of it.

use crate::id::NodeId;
use crate::plan::Refusal;
use crate::plan::cost::Price;
use crate::plan::display::Micros;
use crate::plan::partition::{Partition, Problem};
use crate::schedule::build::{Refused, label};

/// The launches of a plan, if it may be asked for fewer of them.
#[derive(Clone, Copy)]
pub(super) struct Launches<'a> {
    /// The slots of each.
    pub(super) slots: &'a [Vec<usize>],
    /// How many a call takes.
    pub(super) count: u32,
    /// Whether a contract has asked for fewer already.
    pub(super) bound: bool,
}

impl Launches<'_> {
    /// What helps where it is legal but slower to do the work of a group elsewhere: a contract does it all the same.
    pub(super) fn do_without(&self, slot: usize) -> Option<String> {
        let alone = self.slots.iter().any(|parts| *parts == [slot]);
        alone.then(|| self.one_less()).flatten()
    }

    /// What helps where a legal merge is slower. Where other groups share the launches, or stand between them, the merge
    /// need not save one.
    pub(super) fn merge(&self, a: usize, b: usize) -> Option<String> {
        let next_to =
            |pair: &[Vec<usize>]| (pair[0] == [a] && pair[1] == [b]) || (pair[0] == [b] && pair[1] == [a]);
        self.slots.windows(2).any(next_to).then(|| self.one_less()).flatten()
    }

    fn one_less(&self) -> Option<String> {
        let fewer = self.count.saturating_sub(1);
        (fewer > 0 && !self.bound).then(|| format!("`launches = {fewer}` saves the launch all the same"))
    }
}

/// The outcome of trying what was not done.
#[derive(Clone)]
pub(super) struct Trial {
    pub(super) refusal: Refusal,
    pub(super) reason: String,
    pub(super) remedy: Option<String>,
    pub(super) fused: Price,
    pub(super) apart: Price,
}

/// The trial of an edge out of a cut.
pub(super) fn cut_trial(partition: &Partition, holder: usize, reader: usize) -> Trial {
    let price = |k: usize| partition.group(k).map_or(Price::default(), |g| g.lowered.price);
    let apart = price(holder) + price(reader);
    Trial {
        refusal: Refusal::Materialized,
        reason: "`materialize()` asks for the value in memory".to_owned(),
        remedy: Some("drop `materialize()`".to_owned()),
        fused: apart,
        apart,
    }
}

/// What would come of computing a value again in each of its readers, after its merge was refused as in `trial`.
pub(super) fn try_recompute(
    problem: &Problem<'_>,
    partition: &Partition,
    (id, holder): (NodeId, usize),
    trial: &Trial,
    launches: Launches<'_>,
) -> Option<Trial> {
    let step = partition.try_recompute(problem, id).ok()?;
    let next = partition.check_recomputed(problem, id, &step).ok()?;
    let (before, after) = (partition.price(), next.price());
    let reason = format!(
        "{}; computing `{}` again for each reader takes {}, storing it {}",
        trial.reason,
        label(problem.kernel, id),
        Micros(after.seconds),
        Micros(before.seconds)
    );
    let saves = next.live().count() < partition.live().count();
    let remedy = trial.remedy.clone().or_else(|| launches.do_without(holder).filter(|_| saves));
    Some(Trial { refusal: Refusal::Recomputation, reason, remedy, fused: after, apart: before })
}

/// What would come of merging two groups.
pub(super) fn try_merge(
    problem: &Problem<'_>,
    partition: &Partition,
    (holder, reader): (usize, usize),
    launches: Launches<'_>,
) -> Trial {
    let price = |k: usize| partition.group(k).map_or(Price::default(), |g| g.lowered.price);
    let apart = price(holder) + price(reader);
    let step = partition.try_merge(problem, holder, reader);
    match step.and_then(|step| partition.check_order(problem, (holder, reader), &step)) {
        Ok(next) => {
            let fused = next.group(reader).map_or(apart, |g| g.lowered.price);
            slower(problem, [partition, &next], (holder, reader), [fused, apart], launches)
        }
        Err(refused) => Trial { fused: apart, apart, ..not_legal(refused) },
    }
}

fn not_legal(refused: Refused) -> Trial {
    Trial {
        refusal: refused.refusal,
        reason: refused.because,
        remedy: refused.remedy,
        fused: Price::default(),
        apart: Price::default(),
    }
}

/// A legal merge that is modelled slower.
fn slower(
    problem: &Problem<'_>,
    [partition, next]: [&Partition; 2],
    (holder, reader): (usize, usize),
    [fused, apart]: [Price; 2],
    launches: Launches<'_>,
) -> Trial {
    let rows = |p: &Partition, k: usize| {
        p.group(k).map_or(1, |g| match g.lowered.group.kind {
            crate::schedule::ScheduleKind::Split => u64::MAX,
            _ => problem.sizes.product(&g.lowered.group.outer),
        })
    };
    let merged_rows = rows(next, reader);
    let before = rows(partition, holder).max(rows(partition, reader));
    let lost = merged_rows < before && merged_rows < 2 * u64::from(problem.target.units);
    let times = format!("{} instead of {}", Micros(fused.seconds), Micros(apart.seconds));
    let group = next.group(reader).map(|g| &g.lowered.group);
    let axes: Vec<String> = group
        .map(|g| g.reduced.iter().filter(|a| !problem.sizes.is_stated(**a)).copied().collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .map(|a| problem.kernel.axis(a).name.clone())
        .collect();
    if lost {
        let whole = if merged_rows == 1 { "row" } else { "rows" };
        let assume: Vec<String> = axes.iter().map(|a| format!("{a} = 64")).collect();
        return Trial {
            refusal: Refusal::LostParallelism,
            reason: format!("one launch would have {merged_rows} independent {whole}: {times}"),
            remedy: (!assume.is_empty())
                .then(|| format!("if the reduced axes are short, say so: `assume({})`", assume.join(", ")))
                .or_else(|| launches.merge(holder, reader)),
            fused,
            apart,
        };
    }
    let refusal = if fused.operations > apart.operations { Refusal::Recomputation } else { Refusal::Slower };
    let remedy = launches.merge(holder, reader);
    Trial { refusal, reason: format!("one launch is modelled slower: {times}"), remedy, fused, apart }
}
