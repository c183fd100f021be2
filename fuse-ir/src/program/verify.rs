//! The rules of a plan: what a launch may read, what each output is written by, what may share memory.

mod group;

mod ids;

pub(crate) use ids::verify_ids;

use super::Program;
use crate::graph::{OutputTarget, ParamKind};
use crate::id::{ParamId, TempId};
use crate::index_map::polynomial::ExtentFacts;
use crate::schedule::apart::are_apart;
use crate::schedule::{BufferRef, Operand, ScheduledGroup};
use group::verify_group;
use std::cell::LazyCell;
use std::collections::BTreeSet;

/// Checks that a program can be launched as its plan says: ids, the rules of each schedule, that each output and each
/// temporary is stored once, that what is read was stored by an earlier launch, that the groups of a launch do not touch
/// what another one writes, and that memory is taken over from dead temporaries only.
///
/// It does not check that the bodies compute the graph; [`crate::interpret`] against [`crate::eval`] does.
///
/// # Errors
/// The first rule that is broken.
pub fn verify_plan(program: &Program) -> Result<(), String> {
    verify_ids(program)?;
    let mut ids = BTreeSet::new();
    for group in program.plan.groups() {
        if !ids.insert(group.id) {
            return Err(format!("{} stands twice", group.id));
        }
        verify_group(program, group).map_err(|e| format!("{}: {e}", group.id))?;
    }
    verify_coverage(program)?;
    verify_order(program)?;
    verify_in_place(program)
}

fn buffers_read(group: &ScheduledGroup) -> BTreeSet<BufferRef> {
    let read = |o: &Operand| match o {
        Operand::Buffer { buffer, .. } => Some(*buffer),
        Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => None,
    };
    group.operands.iter().filter_map(read).collect()
}

fn buffers_written(group: &ScheduledGroup) -> BTreeSet<BufferRef> {
    group.stores.iter().map(|s| s.buffer).collect()
}

/// Each result and temporary is stored once, each `&mut` parameter as often as the kernel writes it.
fn verify_coverage(program: &Program) -> Result<(), String> {
    let stores = |buffer: BufferRef| {
        let loops = program.plan.groups().flat_map(ScheduledGroup::loops);
        loops.flat_map(|l| &l.stores).filter(|s| s.buffer == buffer).count()
    };
    let expect = |buffer: BufferRef, times: usize| match stores(buffer) {
        found if found == times => Ok(()),
        found => Err(format!("{buffer:?} is stored {found} times and should be {times}")),
    };
    for output in &program.kernel.outputs {
        if let OutputTarget::Result { index, .. } = output.target {
            expect(BufferRef::Result(index), 1)?;
        }
    }
    for (i, param) in program.kernel.params.iter().enumerate() {
        let id = ParamId::from_index(i);
        let writes = |t: &OutputTarget| matches!(t, OutputTarget::Param { param, .. } if *param == id);
        let times = program.kernel.outputs.iter().filter(|o| writes(&o.target)).count();
        if matches!(param.kind, ParamKind::Tensor { .. }) {
            expect(BufferRef::Param(id), times)?;
        }
    }
    (0..program.plan.temps.len()).try_for_each(|i| expect(BufferRef::Temp(TempId::from_index(i)), 1))
}

/// What is read was stored by an earlier launch; the groups of a launch are independent: none touches elements that another
/// writes.
fn verify_order(program: &Program) -> Result<(), String> {
    let mut stored: BTreeSet<BufferRef> = BTreeSet::new();
    let facts = LazyCell::new(|| ExtentFacts::compute(&program.kernel));
    for launch in &program.plan.launches {
        for (i, group) in launch.parts.iter().enumerate() {
            let (reads, writes) = (buffers_read(group), buffers_written(group));
            for &buffer in &reads {
                let is_param = matches!(buffer, BufferRef::Param(_));
                if !is_param && !stored.contains(&buffer) {
                    return Err(format!("{} reads {buffer:?} before a launch has stored it", group.id));
                }
            }
            for other in launch.parts.iter().skip(i + 1) {
                let (other_reads, other_writes) = (buffers_read(other), buffers_written(other));
                let both_write = writes.iter().find(|b| other_writes.contains(b));
                let touched = both_write.or_else(|| {
                    let meets = |b: &&BufferRef, reader, writer| !are_apart(&facts, reader, writer, **b);
                    let read = writes.iter().filter(|b| other_reads.contains(b));
                    let mut read = read.filter(|b| meets(b, other, group));
                    let written = reads.iter().filter(|b| other_writes.contains(b));
                    let mut written = written.filter(|b| meets(b, group, other));
                    read.next().or_else(|| written.next())
                });
                if let Some(b) = touched {
                    return Err(format!("{} and {} of one launch both touch {b:?}", group.id, other.id));
                }
            }
        }
        stored.extend(launch.parts.iter().flat_map(buffers_written));
    }
    Ok(())
}

/// Memory is taken over once, by what its last reader writes.
fn verify_in_place(program: &Program) -> Result<(), String> {
    let mut taken = BTreeSet::new();
    for &(id, written, read) in &program.plan.in_place {
        let what = format!("{id}: {written:?} in the memory of {read:?}");
        let launch = program.plan.launches.iter().position(|l| l.parts.iter().any(|p| p.id == id));
        let Some(launch) = launch else { return Err(format!("{what}: there is no such group")) };
        let (parts, later) = (&program.plan.launches[launch].parts, &program.plan.launches[launch + 1..]);
        if !parts.iter().any(|p| p.id == id && buffers_written(p).contains(&written)) {
            return Err(format!("{what}: the group does not write it"));
        }
        if matches!(written, BufferRef::Param(_)) && written == read {
            continue;
        }
        if matches!(written, BufferRef::Param(_)) || !matches!(read, BufferRef::Temp(_)) {
            return Err(format!("{what}: only the memory of temporaries is the plan's to give"));
        }
        if !taken.insert(read) {
            return Err(format!("{what}: that memory is taken over twice"));
        }
        let others = parts.iter().filter(|p| p.id != id).chain(later.iter().flat_map(|l| &l.parts));
        if let Some(reader) = others.into_iter().find(|p| buffers_read(p).contains(&read)) {
            return Err(format!("{what}: {} still reads it", reader.id));
        }
    }
    Ok(())
}
