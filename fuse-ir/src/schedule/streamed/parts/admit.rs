//! Scores where masks admit all positions of a tile.

use crate::graph::MapFn;
use crate::id::{OperandId, ValueId};
use crate::scalar::ScalarOp;
use crate::schedule::contraction::{fill_pass, rename_operand, rename_reads};
use crate::schedule::{BodyOp, ScheduledGroup};

/// The epilogue of the scores without selections that are decided.
#[derive(Clone, PartialEq, Debug)]
pub struct Admitted {
    /// The conditions of its selections, values of the epilogue, and what they have to be.
    pub when: Vec<(ValueId, bool)>,
    /// The epilogue then.
    pub group: ScheduledGroup,
    /// The tiles in it, each in the place of the one of that number.
    pub tiles: Vec<(ValueId, usize)>,
    /// The products in it, each with its value in the epilogue.
    pub products: Vec<(ValueId, ValueId)>,
    /// By value of the epilogue, what it is then: of a selection the score.
    pub chosen: Vec<ValueId>,
    /// By value of the epilogue, whether it is read then.
    pub needed: Vec<bool>,
}

/// The epilogue without selections between a constant and a score, as where all conditions choose the score. Only conditions
/// that no product is part of can be known before a tile is computed.
pub(super) fn admit(epilogue: &ScheduledGroup, tiles: &[ValueId]) -> Option<Admitted> {
    let count = epilogue.values.len();
    let mut on_products = vec![false; count];
    let mut chosen: Vec<ValueId> = (0..count).map(ValueId::from_index).collect();
    let mut when = Vec::new();
    for k in 0..count {
        let id = ValueId::from_index(k);
        let product = matches!(epilogue.value(id).op, BodyOp::Reduce { .. });
        on_products[k] = product || epilogue.reads(id).iter().any(|r| on_products[r.index()]);
        let BodyOp::Map { function: MapFn::Op(ScalarOp::Select), args } = &epilogue.value(id).op else {
            continue;
        };
        let &[c, a, b] = &args[..] else { continue };
        let is_constant = |v: ValueId| matches!(epilogue.value(v).op, BodyOp::Constant(_));
        let arm = match (is_constant(a), is_constant(b)) {
            (true, false) => b,
            (false, true) => a,
            _ => continue,
        };
        if on_products[k] && !on_products[c.index()] {
            chosen[k] = chosen[arm.index()];
            when.push((c, arm == a));
        }
    }
    let kept: Vec<(ValueId, usize)> = tiles
        .iter()
        .enumerate()
        .filter(|(_, v)| epilogue.passes[0].buffered.contains(v))
        .map(|(k, v)| (chosen[v.index()], k))
        .collect();
    let twice = kept.iter().enumerate().any(|(k, (v, _))| kept[..k].iter().any(|(u, _)| u == v));
    if when.is_empty() || twice {
        return None;
    }
    let mut needed = vec![false; count];
    let mut stack: Vec<ValueId> = kept.iter().map(|(v, _)| *v).collect();
    while let Some(v) = stack.pop() {
        if !std::mem::replace(&mut needed[v.index()], true) {
            stack.extend(epilogue.reads(v).into_iter().map(|r| chosen[r.index()]));
        }
    }
    let mut group = ScheduledGroup { operands: Vec::new(), values: Vec::new(), ..epilogue.clone() };
    let mut renamed: Vec<ValueId> = vec![ValueId(0); count];
    let mut products = Vec::new();
    for k in 0..count {
        let id = ValueId::from_index(k);
        if !needed[k] {
            renamed[k] = renamed[chosen[k].index()];
            continue;
        }
        let mut value = epilogue.value(id).clone();
        let own = ValueId::from_index(group.values.len());
        if let BodyOp::Load(operand) = &mut value.op {
            let mut copy = epilogue.operands[operand.index()].clone();
            rename_operand(&mut copy, &renamed);
            *operand = OperandId::from_index(group.operands.len());
            group.operands.push(copy);
        } else {
            if matches!(value.op, BodyOp::Reduce { .. }) {
                products.push((own, id));
            }
            rename_reads(&mut value.op, &renamed);
        }
        renamed[k] = own;
        group.values.push(value);
    }
    let tiles: Vec<(ValueId, usize)> = kept.iter().map(|(v, k)| (renamed[v.index()], *k)).collect();
    group.prologue.clear();
    fill_pass(&mut group);
    let mut buffered: Vec<ValueId> = tiles.iter().map(|(v, _)| *v).collect();
    buffered.sort();
    group.passes[0].buffered = buffered;
    Some(Admitted { when, group, tiles, products, chosen, needed })
}
