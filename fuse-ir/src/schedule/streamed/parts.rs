//! The parts of a streamed group: what is computed for a tile, for a row, and for the products.

use super::Unstreamable;
use super::algebra::{Flat, Form, Forms, find_forms, wrong};
use crate::dtype::{DType, Value};
use crate::graph::{MapFn, Reducer};
use crate::id::{AxisId, GroupId, NodeId, OperandId, ValueId};
use crate::scalar::ScalarOp;
use crate::schedule::contraction::{
    Panel, Parts, Sides, cut_products, extract, fill_pass, find_contraction, peel_widening, rename_operand,
    rename_reads,
};
use crate::schedule::{BodyOp, BodyValue, Level, ScheduleKind, ScheduledGroup};

/// The parts of a streamed group. For a block of rows and each block of streamed positions in turn:
///
/// 1. `scores` gives the tiles; one may be the *exponent* `x`.
/// 2. The engine keeps the greatest exponent of each row so far, the *reference* `c` (0 where it is −∞), scales what it has
///    added up by `exp(c before - c)`, and makes the tile `exp(x - c)`.
/// 3. `weights` makes further tiles of these, where there are any to make.
/// 4. The engine adds up tiles along the streamed positions for each sum, and to the products the left tile times `values`.
///
/// Then `of_rows` makes of greatest values, sums and reference what depends on the row alone, and `epilogue` the results.
///
/// In the groups a [`BodyOp::Reduce`] without sources stands for what the engine gives.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamParts {
    /// Axes at each position of which there are products of their own.
    pub batch: Vec<AxisId>,
    /// Axes of the weights alone.
    pub rows: Vec<AxisId>,
    /// The contracted axes.
    pub streamed: Vec<AxisId>,
    /// Axes of what is weighed alone.
    pub columns: Vec<AxisId>,
    /// The contraction that the tiles are made of, its epilogue without stores: rows are `rows`, columns are `streamed`.
    /// Without products the epilogue makes the tiles from memory.
    pub scores: Parts,
    /// The values of its epilogue that are the tiles. One that is a product is no more than that, the others are kept in row
    /// buffers.
    pub tiles: Vec<ValueId>,
    /// The maker of tiles where masks admit all positions.
    pub admitted: Option<Admitted>,
    /// The tile that is exponentiated.
    pub exponent: Option<usize>,
    /// The greatest values of rows.
    pub maxima: Vec<Maximum>,
    /// What is made of the tiles, over `batch`, `rows` and `streamed`.
    pub weights: Option<Weights>,
    /// The sums of rows.
    pub sums: Vec<Sum>,
    /// The left side of the products, and whether it is scaled with the reference.
    pub left: (Source, bool),
    /// The right side, over `batch`, `columns` and `streamed`.
    pub values: Panel,
    /// What depends on the row alone, over `batch` and `rows`. What others read is kept in row buffers.
    pub of_rows: ScheduledGroup,
    /// The reference in `of_rows`, if it is read there.
    pub reference: Option<ValueId>,
    /// What is made of the products, over `batch`, `rows` and `columns`.
    pub epilogue: ScheduledGroup,
    /// The products in the epilogue.
    pub product: ValueId,
    /// By what the products are multiplied in the epilogue, and the value of `of_rows` that it is: what of the weights is the
    /// same along a row. The engine may multiply the weights by it instead, and give 1 here.
    pub factor: Option<(ValueId, ValueId)>,
    /// Other values of the epilogue that are values of `of_rows`.
    pub broadcast: Vec<(ValueId, ValueId)>,
}

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
}

/// Where a tile comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// One of [`StreamParts::tiles`].
    Tile(usize),
    /// The exponential.
    Exponential,
    /// A value of [`Weights::group`].
    Weight(ValueId),
}

/// The greatest of each row of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Maximum {
    /// Which tile.
    pub tile: usize,
    /// Its value in [`StreamParts::of_rows`].
    pub given: ValueId,
}

/// The sum of each row of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sum {
    /// Of what.
    pub source: Source,
    /// Whether it is scaled when the reference changes.
    pub scaled: bool,
    /// Its value in [`StreamParts::of_rows`].
    pub given: ValueId,
}

/// What is made of tiles.
#[derive(Clone, PartialEq, Debug)]
pub struct Weights {
    /// A pointwise group; what it makes is kept in row buffers.
    pub group: ScheduledGroup,
    /// The exponential in it, if it is read.
    pub exponential: Option<ValueId>,
    /// Tiles in it.
    pub tiles: Vec<(ValueId, usize)>,
}

/// Takes a streamed group apart.
///
/// # Errors
/// If there is no such loop over tiles: where statistics of rows come in otherwise than as shifts of one exponent and factors.
pub fn cut_streamed(group: &ScheduledGroup) -> Result<StreamParts, Unstreamable> {
    let [first, second, third] = &group.links[..] else {
        return Err(Unstreamable { node: None, because: "has not three links", remedy: None });
    };
    let flat = Flat::new(&group.links);
    if let Some(v) = flat.moved {
        return Err(wrong(&flat, v, "is read at other positions than those at which it is made"));
    }
    let forms = find_forms(&flat, &third.reduced)?;
    let sides = find_sides(&flat, &forms, first, second, third)?;
    let tiles = find_tiles(&flat, first);
    let exponents = forms.forms.iter().filter_map(|f| match f {
        Form::Weight { exponent } => *exponent,
        _ => None,
    });
    let mut exponent = None;
    for v in exponents {
        let Some(tile) = tiles.iter().position(|t| *t == v) else {
            return Err(wrong(&flat, v, "is no score of which the maximum is taken"));
        };
        if exponent.is_some_and(|e| e != tile) {
            return Err(wrong(&flat, v, "is a second exponent"));
        }
        if flat.value(v).dtype != DType::F32 {
            return Err(wrong(&flat, v, "is not of f32, the only dtype that is streamed"));
        }
        exponent = Some(tile);
    }
    let is_tile = |v: ValueId| tiles.contains(&v);
    let mut weights = Cutter::new(group.id, &flat, &forms, &is_tile);
    let mut of_rows = Cutter::new(group.id, &flat, &forms, &|_| false);
    let (mut maxima, mut sums) = (Vec::new(), Vec::new());
    for k in 0..flat.values.len() {
        let v = ValueId::from_index(k);
        let BodyOp::Reduce { reducer, sources, .. } = &flat.value(v).op else { continue };
        if flat.origins[k].0 != 1 {
            continue;
        }
        let source = sources[0];
        if flat.value(source).dtype != DType::F32 {
            return Err(wrong(&flat, v, "is not of f32, the only dtype that is streamed"));
        }
        let given = of_rows.give(flat.value(v).node, DType::F32);
        match reducer {
            Reducer::Max => {
                let Some(tile) = tiles.iter().position(|t| *t == source) else {
                    return Err(wrong(&flat, v, "is a maximum of what is no score"));
                };
                maxima.push(Maximum { tile, given });
                of_rows.put(v, given);
            }
            _ => {
                let (made, scaled) = (weights.weigh(source)?, weights.is_scaled(source));
                let source = Source::Weight(made);
                sums.push(Sum { source, scaled, given });
                let whole = match of_rows.factor(sources[0], &mut weights, &mut sums)? {
                    Some(factor) => of_rows.map(ScalarOp::Mul, vec![factor, given]),
                    None => given,
                };
                of_rows.put(v, whole);
            }
        }
    }
    let (left, right) = split_sources(&flat, &forms)?;
    let mut left_source = (Source::Weight(weights.weigh(left)?), weights.is_scaled(left));
    let factor = of_rows.factor(left, &mut weights, &mut sums)?;

    let is_of_row = |v: ValueId| forms.forms[v.index()] == Form::Row;
    let mut epilogue = Cutter::new(group.id, &flat, &forms, &is_of_row);
    let product = epilogue.give(flat.value(forms.last).node, DType::F32);
    let scale = factor.map(|factor| (epilogue.give(None, DType::F32), factor));
    let whole = match scale {
        Some((given, _)) => epilogue.map(ScalarOp::Mul, vec![product, given]),
        None => product,
    };
    epilogue.put(forms.last, whole);
    let mut stores = [Vec::new(), Vec::new()];
    for store in &group.stores {
        let mut store = store.clone();
        let of_products = forms.forms[store.value.index()] == Form::Product;
        let cutter = if of_products { &mut epilogue } else { &mut of_rows };
        store.value = cutter.copy(store.value);
        stores[usize::from(of_products)].push(store);
    }
    let [of_row_stores, of_product_stores] = stores;
    epilogue.group.stores = of_product_stores;
    of_rows.group.stores = of_row_stores;
    let mut broadcast: Vec<(ValueId, ValueId)> = Vec::new();
    for (v, given) in std::mem::take(&mut epilogue.given) {
        broadcast.push((given, of_rows.copy(v)));
    }
    let kept: Vec<ValueId> = scale.iter().chain(&broadcast).map(|(_, v)| *v).collect();
    let Sides { batch, rows, columns } = &sides;
    let on = |axes: &[&[AxisId]]| axes.concat();
    let reference = of_rows.exponential;
    let of_rows = of_rows.finish(on(&[batch, rows]), &kept);
    let epilogue = epilogue.finish(on(&[batch, rows, columns]), &[]);

    // Tiles that are there already need no stage.
    let exponential = weights.exponential;
    let given = weights.given.clone();
    let settle = |source: &mut Source| {
        let Source::Weight(v) = *source else { return None };
        let tile = given.iter().find(|(_, own)| *own == v).map(|(t, _)| *t);
        match tile.and_then(|t| tiles.iter().position(|u| *u == t)) {
            _ if exponential == Some(v) => *source = Source::Exponential,
            Some(k) => *source = Source::Tile(k),
            None => return Some(v),
        }
        None
    };
    let mut made: Vec<ValueId> = sums.iter_mut().filter_map(|s| settle(&mut s.source)).collect();
    made.extend(settle(&mut left_source.0));
    made.sort();
    made.dedup();
    let streamed = third.reduced.clone();
    let weights = (!made.is_empty()).then(|| Weights {
        exponential,
        tiles: given.iter().filter_map(|(t, own)| Some((*own, tiles.iter().position(|u| u == t)?))).collect(),
        group: weights.finish(on(&[batch, rows, &streamed]), &made),
    });

    let value = peel_widening(third, flat.origins[right.index()].1);
    let mut values = extract(third, &[value], on(&[batch, columns, &streamed]));
    let value = ValueId::from_index(values.values.len() - 1);
    if !matches!(values.value(value).op, BodyOp::Load(_)) {
        values.passes[0].buffered = vec![value];
    }
    let (scores, tiles) = cut_scores(first, &sides, &streamed);
    Ok(StreamParts {
        admitted: admit(&scores.epilogue, &tiles),
        scores,
        tiles,
        exponent,
        maxima,
        weights,
        sums,
        left: left_source,
        values: Panel { group: values, value, is_left: false },
        of_rows,
        reference,
        epilogue,
        product,
        factor: scale,
        broadcast,
        batch: sides.batch,
        rows: sides.rows,
        columns: sides.columns,
        streamed,
    })
}

/// The sides of the products of the weights, of which the batch has also what the scores take one by one.
fn find_sides(
    flat: &Flat,
    forms: &Forms,
    first: &ScheduledGroup,
    second: &ScheduledGroup,
    third: &ScheduledGroup,
) -> Result<Sides, Unstreamable> {
    let own = flat.origins[forms.last.index()].1;
    let no = |because| Err(wrong(flat, forms.last, because));
    let sides_of = |group: &ScheduledGroup, order: &[AxisId]| {
        find_contraction(order, &group.reduced, &group.operands, &group.values).ok().flatten()
    };
    let Some((weighed, products)) = sides_of(third, &third.outer) else { return no("is no contraction") };
    if products.iter().any(|p| p.value != own) || flat.value(forms.last).dtype != DType::F32 {
        return no("is not one contraction of f32");
    }
    let of_rows = |a: &AxisId| second.outer.contains(a);
    if weighed.batch.iter().any(|a| !of_rows(a)) {
        return no("has weights of its own for some of its columns");
    }
    let mut batch = weighed.batch;
    if first.kind == ScheduleKind::Contraction {
        let order: Vec<AxisId> =
            third.outer.iter().filter(|a| of_rows(a)).chain(&third.reduced).copied().collect();
        let scored = sides_of(first, &order).map(|(sides, _)| sides);
        let Some(scored) = scored.filter(|s| third.reduced.iter().all(|a| s.columns.contains(a))) else {
            return no("has scores of which the contracted axes are not the columns");
        };
        batch.extend(scored.batch.iter().filter(|a| !batch.contains(a)).copied().collect::<Vec<_>>());
    }
    let outer =
        |wanted: &dyn Fn(&AxisId) -> bool| third.outer.iter().copied().filter(|a| wanted(a)).collect();
    Ok(Sides {
        rows: outer(&|a| of_rows(a) && !batch.contains(a)),
        columns: outer(&|a| !of_rows(a)),
        batch: outer(&|a| batch.contains(a)),
    })
}

/// What the first link stores, in its order.
fn find_tiles(flat: &Flat, first: &ScheduledGroup) -> Vec<ValueId> {
    first.stores.iter().map(|s| flat.renamed[0][s.value.index()]).collect()
}

/// Which source of the contraction has the weights: left, right.
fn split_sources(flat: &Flat, forms: &Forms) -> Result<(ValueId, ValueId), Unstreamable> {
    let BodyOp::Reduce { sources, .. } = &flat.value(forms.last).op else {
        return Err(wrong(flat, forms.last, "is no contraction"));
    };
    let [a, b] = sources[..] else { return Err(wrong(flat, forms.last, "is no contraction")) };
    let on_rows = |v: ValueId| {
        forms.on_tiles[v.index()] || !matches!(forms.forms[v.index()], Form::Plain | Form::Fixed)
    };
    match (on_rows(a), on_rows(b)) {
        (true, false) => Ok((a, b)),
        (false, true) => Ok((b, a)),
        _ => Err(wrong(flat, forms.last, "has weights on both sides or on neither")),
    }
}

/// The first link as the maker of tiles, and the tiles in its epilogue.
fn cut_scores(first: &ScheduledGroup, sides: &Sides, streamed: &[AxisId]) -> (Parts, Vec<ValueId>) {
    let sides = Sides { columns: streamed.to_vec(), ..sides.clone() };
    let outer = [sides.batch.as_slice(), &sides.rows, &sides.columns].concat();
    let contraction = find_contraction(&outer, &first.reduced, &first.operands, &first.values).ok().flatten();
    let products = match first.kind {
        ScheduleKind::Contraction => contraction.map_or(Vec::new(), |(_, products)| products),
        _ => Vec::new(),
    };
    let mut parts = cut_products(first, sides, &products);
    let tiles: Vec<ValueId> = parts.epilogue.stores.iter().map(|s| s.value).collect();
    parts.epilogue.stores.clear();
    let is_product = |v: &ValueId| matches!(parts.epilogue.value(*v).op, BodyOp::Reduce { .. });
    let mut kept: Vec<ValueId> = tiles.iter().copied().filter(|v| !is_product(v)).collect();
    kept.sort();
    kept.dedup();
    let pass = &mut parts.epilogue.passes[0];
    pass.stores.clear();
    pass.buffered = kept;
    (parts, tiles)
}

/// The epilogue without selections between a constant and a score, as where all conditions choose the score. Only conditions
/// that no product is part of can be known before a tile is computed.
fn admit(epilogue: &ScheduledGroup, tiles: &[ValueId]) -> Option<Admitted> {
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
    Some(Admitted { when, group, tiles, products })
}

/// Copies values of the body into a pointwise group.
struct Cutter<'a> {
    flat: &'a Flat,
    forms: &'a Forms,
    is_given: &'a dyn Fn(ValueId) -> bool,
    group: ScheduledGroup,
    /// By value of the body, what it is in the group.
    renamed: Vec<ValueId>,
    done: Vec<bool>,
    /// Values of the body that are given, with what they are in the group.
    given: Vec<(ValueId, ValueId)>,
    /// The exponential, or in the group of rows its reference.
    exponential: Option<ValueId>,
}

impl<'a> Cutter<'a> {
    fn new(
        id: GroupId,
        flat: &'a Flat,
        forms: &'a Forms,
        is_given: &'a dyn Fn(ValueId) -> bool,
    ) -> Cutter<'a> {
        let count = flat.values.len();
        let group = ScheduledGroup {
            id,
            kind: ScheduleKind::Pointwise,
            outer: Vec::new(),
            reduced: Vec::new(),
            operands: Vec::new(),
            values: Vec::new(),
            prologue: Vec::new(),
            passes: Vec::new(),
            stores: Vec::new(),
            links: Vec::new(),
        };
        Cutter {
            flat,
            forms,
            is_given,
            group,
            renamed: vec![ValueId(0); count],
            done: vec![false; count],
            given: Vec::new(),
            exponential: None,
        }
    }

    fn push(&mut self, value: BodyValue) -> ValueId {
        let same = |v: &BodyValue| v.op == value.op && v.dtype == value.dtype;
        let given = matches!(value.op, BodyOp::Reduce { .. });
        if let Some(k) = self.group.values.iter().position(same).filter(|_| !given) {
            return ValueId::from_index(k);
        }
        self.group.values.push(value);
        ValueId::from_index(self.group.values.len() - 1)
    }

    /// A value that the engine gives.
    fn give(&mut self, node: Option<NodeId>, dtype: DType) -> ValueId {
        let op = BodyOp::Reduce { reducer: Reducer::Dot, sources: Vec::new(), output: 0 };
        self.push(BodyValue { op, dtype, level: Level::Inner, node })
    }

    /// An f32 operation on values of the group.
    fn map(&mut self, op: ScalarOp, args: Vec<ValueId>) -> ValueId {
        let op = BodyOp::Map { function: MapFn::Op(op), args };
        self.push(BodyValue { op, dtype: DType::F32, level: Level::Inner, node: None })
    }

    fn constant(&mut self, x: f32) -> ValueId {
        let op = BodyOp::Constant(Value::F32(x));
        self.push(BodyValue { op, dtype: DType::F32, level: Level::Uniform, node: None })
    }

    fn put(&mut self, v: ValueId, own: ValueId) {
        (self.renamed[v.index()], self.done[v.index()]) = (own, true);
    }

    /// A value of the body, with what it reads.
    fn copy(&mut self, v: ValueId) -> ValueId {
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

    fn is_of_row(&self, v: ValueId) -> bool {
        matches!(self.forms.forms[v.index()], Form::Fixed | Form::Row)
    }

    /// Whether a weight is scaled with the reference.
    fn is_scaled(&self, v: ValueId) -> bool {
        matches!(self.forms.forms[v.index()], Form::Weight { exponent: Some(_) })
    }

    /// In the group of weights: what of a weight differs along the streamed axes, exponentials less the reference.
    fn weigh(&mut self, v: ValueId) -> Result<ValueId, Unstreamable> {
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
    fn factor(
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
    fn count(
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

    fn finish(mut self, outer: Vec<AxisId>, kept: &[ValueId]) -> ScheduledGroup {
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
