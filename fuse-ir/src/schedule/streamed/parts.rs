//! The parts of a streamed group: what is computed for a tile, for a row, and for the products.

mod admit;
mod cutter;

pub use admit::Admitted;

use super::Unstreamable;
use super::algebra::{Flat, Form, Forms, find_forms, wrong, wrong_dtype};
use crate::dtype::DType;
use crate::graph::Reducer;
use crate::id::{AxisId, ValueId};
use crate::scalar::ScalarOp;
use crate::schedule::contraction::{
    Panel, Parts, Sides, cut_products, extract, find_contraction, peel_widening,
};
use crate::schedule::{BodyOp, ScheduleKind, ScheduledGroup};
use admit::admit;
use cutter::Cutter;

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
            return Err(wrong_dtype(&flat, v));
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
            return Err(wrong_dtype(&flat, v));
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
    if flat.value(forms.last).dtype != DType::F32 {
        let remedy = Some("cast queries, keys and values to f32, and the result back");
        let found = wrong(flat, forms.last, "is not one contraction of f32");
        return Err(Unstreamable { remedy, ..found });
    }
    if products.iter().any(|p| p.value != own) {
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
