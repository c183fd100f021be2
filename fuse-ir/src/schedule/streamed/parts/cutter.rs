//! Pointwise groups out of the body of a streamed group.

use super::super::Unstreamable;
use super::super::algebra::{Flat, Form, Forms, wrong};
use super::{Source, Sum};
use crate::dtype::{DType, Value};
use crate::graph::{MapFn, Reducer};
use crate::id::{AxisId, GroupId, NodeId, OperandId, ValueId};
use crate::scalar::ScalarOp;
use crate::schedule::contraction::{fill_pass, rename_operand, rename_reads};
use crate::schedule::{BodyOp, BodyValue, Level, ScheduledGroup};

/// Copies values of the body into a pointwise group.
pub(super) struct Cutter<'a> {
    flat: &'a Flat,
    forms: &'a Forms,
    is_given: &'a dyn Fn(ValueId) -> bool,
    pub(super) group: ScheduledGroup,
    /// By value of the body, what it is in the group.
    renamed: Vec<ValueId>,
    done: Vec<bool>,
    /// Values of the body that are given, with what they are in the group.
    pub(super) given: Vec<(ValueId, ValueId)>,
    /// The exponential, or in the group of rows its reference.
    pub(super) exponential: Option<ValueId>,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(
        id: GroupId,
        flat: &'a Flat,
        forms: &'a Forms,
        is_given: &'a dyn Fn(ValueId) -> bool,
    ) -> Cutter<'a> {
        let count = flat.values.len();
        Cutter {
            flat,
            forms,
            is_given,
            group: ScheduledGroup::empty(id),
            renamed: vec![ValueId(0); count],
            done: vec![false; count],
            given: Vec::new(),
            exponential: None,
        }
    }

    pub(super) fn push(&mut self, value: BodyValue) -> ValueId {
        let same = |v: &BodyValue| v.op == value.op && v.dtype == value.dtype;
        let given = matches!(value.op, BodyOp::Reduce { .. });
        if let Some(k) = self.group.values.iter().position(same).filter(|_| !given) {
            return ValueId::from_index(k);
        }
        self.group.values.push(value);
        ValueId::from_index(self.group.values.len() - 1)
    }

    /// A value that the engine gives.
    pub(super) fn give(&mut self, node: Option<NodeId>, dtype: DType) -> ValueId {
        let op = BodyOp::Reduce { reducer: Reducer::Dot, sources: Vec::new(), output: 0 };
        self.push(BodyValue { op, dtype, level: Level::Inner, node })
    }

    /// An f32 operation on values of the group.
    pub(super) fn map(&mut self, op: ScalarOp, args: Vec<ValueId>) -> ValueId {
        let op = BodyOp::Map { function: MapFn::Op(op), args };
        self.push(BodyValue { op, dtype: DType::F32, level: Level::Inner, node: None })
    }

    pub(super) fn constant(&mut self, x: f32) -> ValueId {
        let op = BodyOp::Constant(Value::F32(x));
        self.push(BodyValue { op, dtype: DType::F32, level: Level::Uniform, node: None })
    }

    pub(super) fn put(&mut self, v: ValueId, own: ValueId) {
        (self.renamed[v.index()], self.done[v.index()]) = (own, true);
    }

    /// A value of the body, with what it reads.
    pub(super) fn copy(&mut self, v: ValueId) -> ValueId {
        if self.done[v.index()] {
            return self.renamed[v.index()];
        }
        let own = if (self.is_given)(v) {
            let value = self.flat.value(v);
            let own = self.give(value.node, value.dtype);
            self.given.push((v, own));
            own
        } else {
            for read in self.flat.reads(v) {
                self.copy(read);
            }
            let mut value = self.flat.value(v).clone();
            if value.level == Level::Outer {
                value.level = Level::Inner;
            }
            if let BodyOp::Load(operand) = &mut value.op {
                let mut copy = self.flat.operands[operand.index()].clone();
                rename_operand(&mut copy, &self.renamed);
                let known = self.group.operands.iter().position(|o| *o == copy);
                let at = known.unwrap_or(self.group.operands.len());
                if known.is_none() {
                    self.group.operands.push(copy);
                }
                *operand = OperandId::from_index(at);
            } else {
                rename_reads(&mut value.op, &self.renamed);
            }
            self.push(value)
        };
        self.put(v, own);
        own
    }

    pub(super) fn is_of_row(&self, v: ValueId) -> bool {
        matches!(self.forms.forms[v.index()], Form::Fixed | Form::Row)
    }

    /// Whether a weight is scaled with the reference.
    pub(super) fn is_scaled(&self, v: ValueId) -> bool {
        matches!(self.forms.forms[v.index()], Form::Weight { exponent: Some(_) })
    }

    /// In the group of weights: what of a weight differs along the streamed axes, exponentials less the reference.
    pub(super) fn weigh(&mut self, v: ValueId) -> Result<ValueId, Unstreamable> {
        if !matches!(self.forms.forms[v.index()], Form::Weight { .. }) {
            return Ok(self.copy(v));
        }
        let flat = self.flat;
        let Some((op, args)) = flat.operation(v) else { return Err(wrong(flat, v, "is no weight")) };
        match (op, args) {
            (ScalarOp::Exp, _) => Ok(match self.exponential {
                Some(own) => own,
                None => {
                    let own = self.give(flat.value(v).node, DType::F32);
                    *self.exponential.insert(own)
                }
            }),
            (ScalarOp::Mul | ScalarOp::Div, &[a, b]) if self.is_of_row(b) => self.weigh(a),
            (ScalarOp::Mul, &[a, b]) if self.is_of_row(a) => self.weigh(b),
            (ScalarOp::Mul | ScalarOp::Div, &[a, b]) => {
                let args = vec![self.weigh(a)?, self.weigh(b)?];
                Ok(self.map(op, args))
            }
            (ScalarOp::Select, &[c, a, b]) if self.is_of_row(c) => {
                let zero = matches!(flat.value(a).op, BodyOp::Constant(_));
                self.weigh(if zero { b } else { a })
            }
            (ScalarOp::Select, &[c, a, b]) => {
                let args = vec![self.copy(c), self.weigh(a)?, self.weigh(b)?];
                Ok(self.map(op, args))
            }
            (ScalarOp::Cast(_), &[a]) => self.weigh(a),
            _ => Err(wrong(flat, v, "is no weight")),
        }
    }

    /// In the group of rows: what a weight is more than [`Cutter::weigh`] makes of it.
    ///
    /// A factor that is selected at some positions only is none where it is selected at no position of the row: 0 times a
    /// factor that is infinite or NaN would not be the 0 that was selected. So those positions are counted.
    pub(super) fn factor(
        &mut self,
        v: ValueId,
        weights: &mut Cutter<'_>,
        sums: &mut Vec<Sum>,
    ) -> Result<Option<ValueId>, Unstreamable> {
        if !matches!(self.forms.forms[v.index()], Form::Weight { .. }) {
            return Ok(None);
        }
        let flat = self.flat;
        let Some((op, args)) = flat.operation(v) else { return Err(wrong(flat, v, "is no weight")) };
        match (op, args) {
            (ScalarOp::Exp, &[a]) => {
                let Form::Shifted { by, .. } = &self.forms.forms[a.index()] else {
                    return Err(wrong(flat, v, "is no weight"));
                };
                let reference = match self.exponential {
                    Some(own) => own,
                    None => self.give(None, DType::F32),
                };
                self.exponential = Some(reference);
                let mut shifted = reference;
                for b in by.clone() {
                    let b = self.copy(b);
                    shifted = self.map(ScalarOp::Sub, vec![shifted, b]);
                }
                Ok(Some(self.map(ScalarOp::Exp, vec![shifted])))
            }
            (ScalarOp::Mul, &[a, b]) if self.is_of_row(a) || self.is_of_row(b) => {
                let (weight, row) = if self.is_of_row(b) { (a, b) } else { (b, a) };
                let (weight, row) = (self.factor(weight, weights, sums)?, self.copy(row));
                Ok(Some(weight.map_or(row, |w| self.map(ScalarOp::Mul, vec![w, row]))))
            }
            (ScalarOp::Div, &[a, b]) if self.is_of_row(b) => {
                let weight = match self.factor(a, weights, sums)? {
                    Some(w) => w,
                    None => self.constant(1.0),
                };
                let row = self.copy(b);
                Ok(Some(self.map(ScalarOp::Div, vec![weight, row])))
            }
            (ScalarOp::Mul, &[a, b]) => {
                let plain = !matches!(self.forms.forms[a.index()], Form::Weight { .. });
                self.factor(if plain { b } else { a }, weights, sums)
            }
            (ScalarOp::Div | ScalarOp::Cast(_), &[a, ..]) => self.factor(a, weights, sums),
            (ScalarOp::Select, &[c, a, b]) => {
                let zero_first = matches!(flat.value(a).op, BodyOp::Constant(_));
                let weight = self.factor(if zero_first { b } else { a }, weights, sums)?;
                if !self.is_of_row(c) {
                    let Some(weight) = weight else { return Ok(None) };
                    let chosen = self.count(c, zero_first, weights, sums);
                    let (zero, one) = (self.constant(0.0), self.constant(1.0));
                    let none = self.push(BodyValue {
                        op: BodyOp::Map { function: MapFn::Op(ScalarOp::Eq), args: vec![chosen, zero] },
                        dtype: DType::Bool,
                        level: Level::Inner,
                        node: None,
                    });
                    return Ok(Some(self.map(ScalarOp::Select, vec![none, one, weight])));
                }
                let weight = match weight {
                    Some(w) => w,
                    None => self.constant(1.0),
                };
                let (c, zero) = (self.copy(c), self.constant(0.0));
                let args = if zero_first { vec![c, zero, weight] } else { vec![c, weight, zero] };
                Ok(Some(self.map(ScalarOp::Select, args)))
            }
            _ => Err(wrong(flat, v, "is no weight")),
        }
    }

    /// In the group of rows: at how many positions of a row a condition chooses what is not zero.
    pub(super) fn count(
        &mut self,
        condition: ValueId,
        zero_first: bool,
        weights: &mut Cutter<'_>,
        sums: &mut Vec<Sum>,
    ) -> ValueId {
        let (zero, one) = (weights.constant(0.0), weights.constant(1.0));
        let condition = weights.copy(condition);
        let args = if zero_first { vec![condition, zero, one] } else { vec![condition, one, zero] };
        let source = Source::Weight(weights.map(ScalarOp::Select, args));
        if let Some(sum) = sums.iter().find(|s| s.source == source && !s.scaled) {
            return sum.given;
        }
        let given = self.give(None, DType::F32);
        sums.push(Sum { source, scaled: false, given });
        given
    }

    pub(super) fn finish(mut self, outer: Vec<AxisId>, kept: &[ValueId]) -> ScheduledGroup {
        self.group.outer = outer;
        fill_pass(&mut self.group);
        let mut kept = kept.to_vec();
        kept.sort();
        kept.dedup();
        let pass = &mut self.group.passes[0];
        pass.buffered = kept;
        pass.stores = (0..self.group.stores.len() as u32).collect();
        self.group
    }
}
