//! What the values of a streamed group are to its rows: the links as one body, and the form of each value.

use super::Unstreamable;
use crate::dtype::DType;
use crate::graph::{MapFn, Reducer};
use crate::id::{AxisId, OperandId, ValueId};
use crate::index_map::IndexExpr;
use crate::scalar::ScalarOp;
use crate::schedule::contraction::{rename_operand, rename_reads};
use crate::schedule::{BodyOp, BodyValue, BufferRef, Operand, ScheduledGroup, Store};
use std::collections::BTreeMap;

/// The links as one body: what one stores and another loads is one value.
pub(super) struct Flat {
    pub(super) values: Vec<BodyValue>,
    pub(super) operands: Vec<Operand>,
    /// By link, the value of the body that each of its values is.
    pub(super) renamed: Vec<Vec<ValueId>>,
    /// By value, its link and what it is there.
    pub(super) origins: Vec<(usize, ValueId)>,
    /// A value that is read at other positions than those for which it is made.
    pub(super) moved: Option<ValueId>,
}

impl Flat {
    pub(super) fn new(links: &[ScheduledGroup]) -> Flat {
        let mut flat = Flat {
            values: Vec::new(),
            operands: Vec::new(),
            renamed: Vec::new(),
            origins: Vec::new(),
            moved: None,
        };
        let mut stored: BTreeMap<BufferRef, (ValueId, &Store)> = BTreeMap::new();
        for (k, link) in links.iter().enumerate() {
            let mut renamed: Vec<ValueId> = Vec::with_capacity(link.values.len());
            for (i, value) in link.values.iter().enumerate() {
                let found = match &value.op {
                    BodyOp::Load(operand) => match &link.operands[operand.index()] {
                        Operand::Buffer { buffer, map, .. } => stored.get(buffer).map(|s| (s, map)),
                        Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => None,
                    },
                    _ => None,
                };
                if let Some((&(made, store), map)) = found {
                    if map.indices != store.indices || !map.bounds.is_empty() {
                        flat.moved = flat.moved.or(Some(made));
                    }
                    renamed.push(made);
                    continue;
                }
                let mut value = value.clone();
                if let BodyOp::Load(operand) = &mut value.op {
                    let mut copy = link.operands[operand.index()].clone();
                    rename_operand(&mut copy, &renamed);
                    *operand = OperandId::from_index(flat.operands.len());
                    flat.operands.push(copy);
                } else {
                    rename_reads(&mut value.op, &renamed);
                }
                renamed.push(ValueId::from_index(flat.values.len()));
                flat.values.push(value);
                flat.origins.push((k, ValueId::from_index(i)));
            }
            let own = link.stores.iter().map(|s| (s.buffer, (renamed[s.value.index()], s)));
            stored.extend(own.collect::<Vec<_>>());
            flat.renamed.push(renamed);
        }
        flat
    }

    pub(super) fn value(&self, v: ValueId) -> &BodyValue {
        &self.values[v.index()]
    }

    /// The values that a value reads.
    pub(super) fn reads(&self, v: ValueId) -> Vec<ValueId> {
        match &self.value(v).op {
            BodyOp::Load(operand) => self.operands[operand.index()].reads(),
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => Vec::new(),
            BodyOp::Map { args, .. } => args.clone(),
            BodyOp::Reduce { sources, .. } => sources.clone(),
            BodyOp::CumSum { source } => vec![*source],
        }
    }

    /// The operation of a value and what it is applied to.
    pub(super) fn operation(&self, v: ValueId) -> Option<(ScalarOp, &[ValueId])> {
        match &self.value(v).op {
            BodyOp::Map { function: MapFn::Op(op), args } => Some((*op, args)),
            _ => None,
        }
    }

    fn is_zero(&self, v: ValueId) -> bool {
        matches!(&self.value(v).op, BodyOp::Constant(value) if value.as_f64() == Some(0.0))
    }
}

/// What a value is to the rows of weights. *Independent* means of statistics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Independent, and the same along the streamed axes.
    Fixed,
    /// The same along the streamed axes, made of statistics.
    Row,
    /// Independent, different along the streamed axes.
    Plain,
    /// A plain value less values of the row.
    Shifted {
        /// The plain value.
        exponent: ValueId,
        /// What is taken away, in this order.
        by: Vec<ValueId>,
    },
    /// An exponential of a shifted value, or a plain one, times factors that are plain or of the row.
    Weight {
        /// What is exponentiated, if there is an exponential.
        exponent: Option<ValueId>,
    },
    /// Made of the contraction of the weights.
    Product,
}

/// The forms of all values.
pub(super) struct Forms {
    pub(super) forms: Vec<Form>,
    /// Whether a value depends on what the first link makes.
    pub(super) on_tiles: Vec<bool>,
    /// The contraction of the weights.
    pub(super) last: ValueId,
}

/// Reads the form of every value.
///
/// # Errors
/// At the first value that has none.
pub(super) fn find_forms(flat: &Flat, streamed: &[AxisId]) -> Result<Forms, Unstreamable> {
    let mut forms: Vec<Form> = Vec::with_capacity(flat.values.len());
    let mut on_tiles: Vec<bool> = Vec::with_capacity(flat.values.len());
    let mut last = None;
    for k in 0..flat.values.len() {
        let v = ValueId::from_index(k);
        let (link, _) = flat.origins[k];
        let reads = flat.reads(v);
        on_tiles
            .push(reads.iter().any(|r| on_tiles[r.index()] || flat.origins[r.index()].0 == 0 && link > 0));
        let form = match &flat.value(v).op {
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => Form::Fixed,
            BodyOp::Load(operand) => {
                let mut moves = reads.iter().any(|r| forms[r.index()] == Form::Plain);
                flat.operands[operand.index()].for_each_expr(|e| {
                    e.for_each_leaf(&mut |leaf| {
                        moves |= matches!(leaf, IndexExpr::Index(a) if streamed.contains(a));
                    });
                });
                let free = |r: &ValueId| matches!(forms[r.index()], Form::Fixed | Form::Plain);
                if !reads.iter().all(free) {
                    return Err(wrong(flat, v, "is read where statistics of rows say"));
                }
                if moves { Form::Plain } else { Form::Fixed }
            }
            BodyOp::Map { function, args } => form_of_map(flat, &forms, v, *function, args)?,
            BodyOp::Reduce { reducer, sources, .. } => match (link, reducer) {
                (0, Reducer::Dot) => {
                    let moves = sources.iter().any(|s| forms[s.index()] == Form::Plain);
                    if moves { Form::Plain } else { Form::Fixed }
                }
                (1, Reducer::Max) if matches!(forms[sources[0].index()], Form::Plain) => Form::Row,
                (1, Reducer::Max) => {
                    return Err(wrong(flat, v, "is a maximum of values that depend on other statistics"));
                }
                (1, Reducer::Sum) => match forms[sources[0].index()] {
                    Form::Plain | Form::Weight { .. } => Form::Row,
                    _ => return Err(wrong(flat, v, "is no sum of weights")),
                },
                (2, Reducer::Dot) if last.is_none() => {
                    last = Some(v);
                    Form::Product
                }
                _ => {
                    return Err(wrong(
                        flat,
                        v,
                        "is neither a sum nor a maximum, and needs whole rows of the weights",
                    ));
                }
            },
            BodyOp::CumSum { .. } => return Err(wrong(flat, v, "needs whole rows of the weights")),
        };
        forms.push(form);
    }
    match last {
        Some(last) => Ok(Forms { forms, on_tiles, last }),
        None => Err(Unstreamable { node: None, because: "is no contraction of weights", remedy: None }),
    }
}

/// What is of another dtype than f32.
pub(super) fn wrong_dtype(flat: &Flat, v: ValueId) -> Unstreamable {
    let because = "is not of f32, the only dtype that is streamed";
    let remedy = Some("cast the scores to f32 before they are normalised");
    Unstreamable { node: flat.value(v).node, because, remedy }
}

pub(super) fn wrong(flat: &Flat, v: ValueId, because: &'static str) -> Unstreamable {
    Unstreamable { node: flat.value(v).node, because, remedy: None }
}

fn form_of_map(
    flat: &Flat,
    forms: &[Form],
    v: ValueId,
    function: MapFn,
    args: &[ValueId],
) -> Result<Form, Unstreamable> {
    let form = |a: ValueId| &forms[a.index()];
    if args.iter().any(|a| *form(*a) == Form::Product) {
        return Ok(Form::Product);
    }
    let any = |wanted: &dyn Fn(&Form) -> bool| args.iter().any(|a| wanted(form(*a)));
    let streamed = any(&|f| !matches!(f, Form::Fixed | Form::Row));
    let dependent = any(&|f| !matches!(f, Form::Fixed | Form::Plain));
    match (streamed, dependent) {
        (false, false) => return Ok(Form::Fixed),
        (false, true) => return Ok(Form::Row),
        (true, false) => return Ok(Form::Plain),
        (true, true) => {}
    }
    let of_row = |a: ValueId| matches!(form(a), Form::Fixed | Form::Row);
    let factor = |a: ValueId| matches!(form(a), Form::Fixed | Form::Row | Form::Plain);
    let weight = |a: ValueId| match form(a) {
        Form::Weight { exponent } => Some(Form::Weight { exponent: *exponent }),
        // A plain value times a value of the row.
        Form::Plain => Some(Form::Weight { exponent: None }),
        _ => None,
    };
    let is_weight = |a: ValueId| matches!(form(a), Form::Weight { .. });
    let found = match (function, args) {
        (MapFn::Op(ScalarOp::Sub), &[a, b]) if of_row(b) => match form(a) {
            Form::Plain => Some(Form::Shifted { exponent: a, by: vec![b] }),
            Form::Shifted { exponent, by } => {
                Some(Form::Shifted { exponent: *exponent, by: [by.as_slice(), &[b]].concat() })
            }
            _ => None,
        },
        (MapFn::Op(ScalarOp::Exp), &[a]) => match form(a) {
            Form::Shifted { exponent, .. } => Some(Form::Weight { exponent: Some(*exponent) }),
            _ => None,
        },
        (MapFn::Op(ScalarOp::Mul), &[a, b]) if is_weight(a) && factor(b) => weight(a),
        (MapFn::Op(ScalarOp::Mul), &[a, b]) if is_weight(b) && factor(a) => weight(b),
        (MapFn::Op(ScalarOp::Mul), &[a, b]) if of_row(b) => weight(a),
        (MapFn::Op(ScalarOp::Mul), &[a, b]) if of_row(a) => weight(b),
        (MapFn::Op(ScalarOp::Div), &[a, b]) if is_weight(a) && factor(b) || of_row(b) => weight(a),
        (MapFn::Op(ScalarOp::Select), &[c, a, b]) if factor(c) && is_weight(a) && flat.is_zero(b) => {
            weight(a)
        }
        (MapFn::Op(ScalarOp::Select), &[c, a, b]) if factor(c) && is_weight(b) && flat.is_zero(a) => {
            weight(b)
        }
        (MapFn::Op(ScalarOp::Cast(DType::F32)), &[a]) if flat.value(a).dtype == DType::F32 => weight(a),
        _ => None,
    };
    if let Some(form) = found {
        return Ok(form);
    }
    let (because, remedy) = match function {
        MapFn::Op(ScalarOp::Cast(to)) if to.is_narrow_float() => (
            "rounds weights that are normalised when all of the row is known",
            Some("leave the weights in f32"),
        ),
        MapFn::Op(ScalarOp::Cast(DType::F64)) => (
            "turns weights into f64, and only f32 is streamed",
            Some("leave the weights in f32, and cast their product instead"),
        ),
        MapFn::Op(ScalarOp::Cast(_)) if args.iter().any(|a| flat.value(*a).dtype == DType::F64) => (
            "is of weights that are f64, and only f32 is streamed",
            Some("cast the scores to f32 before they are normalised"),
        ),
        MapFn::Op(ScalarOp::Mul | ScalarOp::Div) if any(&|f| matches!(f, Form::Shifted { .. })) => (
            "scales scores after their maximum was taken away",
            Some("scale the scores before their maximum is taken"),
        ),
        MapFn::Op(_) | MapFn::Call { .. } => {
            ("makes of statistics of a row what is not the weight times a factor", None)
        }
    };
    Err(Unstreamable { node: flat.value(v).node, because, remedy })
}
