//! What each value of a body reads and who reads it, as lists made once.

use crate::id::ValueId;
use crate::schedule::{BodyOp, ScheduledGroup};

/// The edges between the values of a body, both ways.
#[derive(Clone, Debug)]
pub struct ValueEdges {
    reads: Lists,
    users: Lists,
}

/// Lists one behind the other: list `k` lies between `starts[k]` and `starts[k + 1]`.
#[derive(Clone, Debug)]
struct Lists {
    starts: Vec<u32>,
    entries: Vec<ValueId>,
}

impl Lists {
    fn get(&self, k: usize) -> &[ValueId] {
        &self.entries[self.starts[k] as usize..self.starts[k + 1] as usize]
    }
}

impl ValueEdges {
    /// The edges of a group, in time linear in them.
    pub fn compute(group: &ScheduledGroup) -> Self {
        let count = group.values.len();
        let mut reads = Lists { starts: vec![0], entries: Vec::with_capacity(2 * count) };
        for value in &group.values {
            match &value.op {
                BodyOp::Load(operand) => reads.entries.extend(group.operands[operand.index()].reads()),
                BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => {}
                BodyOp::Map { args, .. } => reads.entries.extend_from_slice(args),
                BodyOp::Reduce { sources, .. } => reads.entries.extend_from_slice(sources),
                BodyOp::CumSum { source } => reads.entries.push(*source),
            }
            reads.starts.push(reads.entries.len() as u32);
        }
        ValueEdges { users: reverse(&reads, count), reads }
    }

    /// The values that a value reads, as [`ScheduledGroup::reads`] has them.
    pub fn reads(&self, id: ValueId) -> &[ValueId] {
        self.reads.get(id.index())
    }

    /// The values that read a value, in order; one that reads it twice stands twice.
    pub fn users(&self, id: ValueId) -> &[ValueId] {
        self.users.get(id.index())
    }
}

fn reverse(lists: &Lists, count: usize) -> Lists {
    let mut starts = vec![0u32; count + 2];
    for entry in &lists.entries {
        starts[entry.index() + 2] += 1;
    }
    for k in 2..starts.len() {
        starts[k] += starts[k - 1];
    }
    let mut entries = vec![ValueId(0); lists.entries.len()];
    for k in 0..count {
        for entry in lists.get(k) {
            let at = &mut starts[entry.index() + 1];
            entries[*at as usize] = ValueId::from_index(k);
            *at += 1;
        }
    }
    starts.pop();
    Lists { starts, entries }
}
