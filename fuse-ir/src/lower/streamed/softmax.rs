//! From scores to weights: the greatest exponents, exponentials, sums.

use super::super::body::Emitter;
use super::Stream;
use super::pairs::{Pair, Pairs};
use crate::dtype::{DType, Value};
use crate::id::{ArrayId, ValueId};
use crate::kernel_ir::build::element;
use crate::kernel_ir::{Expr, Stmt, Unroll};
use crate::scalar::ScalarOp;
use crate::schedule::BodyOp;
use crate::schedule::streamed::{Admitted, Source};

/// What a row is shifted by: its greatest exponent; 0 where there is none but −∞, and no more than the greatest number, so
/// that an infinite exponent has an infinite exponential.
pub(super) fn reference(greatest: &Expr) -> Expr {
    let bounded = greatest.clone().equals(f32::INFINITY).select(f32::MAX, greatest);
    greatest.clone().equals(f32::NEG_INFINITY).select(0.0f32, bounded)
}

/// The greater; NaN if one is.
pub(super) fn maximum(a: Expr, b: Expr) -> Expr {
    Expr::op(ScalarOp::Maximum, vec![a, b])
}

impl Emitter<'_> {
    /// Makes the weights of a tile of the products of its scores: advances greatest values and sums, and scales what was
    /// added up before.
    pub(super) fn make_weights(
        &mut self,
        stream: &Stream<'_>,
        scores: &[ArrayId],
        first_key: &Expr,
    ) -> ArrayId {
        let parts = stream.parts;
        let [rows, keys, columns] = stream.spread.own();
        let tiles = self.make_tiles(stream, scores, first_key);
        let weights = match parts.exponent {
            Some(k) => tiles[k],
            None => self.builder.array("weights", DType::F32, rows * keys, Some(Value::F32(0.0))),
        };
        let of_weights = stream.block.weights.as_ref();
        let of_keys = of_weights.map(|levels| self.level_keys(stream, levels, first_key)).unwrap_or_default();
        let shifts = parts.exponent.map(|_| self.builder.array("shift", DType::F32, rows, None));
        self.repeat("i", rows, Unroll::Full, |em, i| {
            let spread = stream.spread;
            let state = &stream.state;
            for (m, array) in parts.maxima.iter().zip(&state.maxima) {
                if Some(m.tile) != parts.exponent {
                    let tile = tiles[m.tile];
                    em.builder.unrolled("j", keys, |b, j| {
                        let x = element(tile, spread.score(&i, &j));
                        b.set_element(*array, &i, maximum(element(*array, &i), x));
                    });
                }
            }
            let shift = parts.exponent.map(|k| {
                let b = &mut em.builder;
                let before = b.bind("before", element(state.greatest, &i));
                let most = b.register("most", &before);
                b.unrolled("j", keys, |b, j| {
                    b.set(most, maximum(most.into(), element(tiles[k], spread.score(&i, &j))));
                });
                let most = spread.combine(b, most.into(), maximum);
                let shift = b.bind("shifted_by", reference(&most));
                // Before the first finite exponent there is nothing to scale, and in the second round nothing changes: not even
                // NaN, which is not equal to itself.
                let mut unchanged = before.clone().equals(&most) | before.clone().equals(f32::NEG_INFINITY);
                if let Some((_, round)) = &state.again {
                    unchanged = unchanged | round.clone().equals(0u32).unary(ScalarOp::Not);
                }
                let scaled = (reference(&before) - &shift).unary(ScalarOp::Exp);
                let factor = b.bind("factor", unchanged.select(1.0f32, scaled));
                b.set_element(state.greatest, &i, most);
                for (sum, array) in parts.sums.iter().zip(&state.sums).filter(|(s, _)| s.scaled) {
                    debug_assert!(sum.scaled);
                    b.set_element(*array, &i, element(*array, &i) * &factor);
                }
                if parts.left.1 {
                    b.unrolled("j", columns, |b, j| {
                        let slot = spread.product(&i, &j);
                        b.set_element(state.products, &slot, element(state.products, &slot) * &factor);
                    });
                }
                shift
            });
            if let (Some(shift), Some(shifts)) = (shift, shifts) {
                em.builder.set_element(shifts, &i, shift);
            }
        });
        let heavy = of_weights.is_some_and(|levels| self.is_heavy(levels, None));
        let mut passing: Vec<ArrayId> = tiles.clone();
        passing.push(weights);
        let of_row = of_weights.map(|levels| levels.block.clone()).unwrap_or_default();
        let (of_row, of_keys) = (&of_row, &of_keys);
        let pairs = Pairs { first_key, of_row, has_places: true, rolled: heavy, passing, of_keys };
        self.for_each_pair(stream, &pairs, |em, pair, mut scope| {
            let Pair { i, j, places } = pair;
            let (is_row, is_key) = places.unwrap_or((true.into(), true.into()));
            let slot = stream.spread.score(&i, &j);
            let exponential = match (shifts, parts.exponent) {
                (Some(shifts), Some(k)) => {
                    let e = (element(tiles[k], &slot) - element(shifts, &i)).unary(ScalarOp::Exp);
                    Some(em.builder.bind("exponential", e))
                }
                _ => None,
            };
            let exponential = exponential.unwrap_or(Expr::from(0.0f32));
            if let (Some(levels), Some(weights)) = (of_weights, &parts.weights) {
                let active = em.builder.bind("inside", is_row & is_key.clone());
                scope.active = Some(active);
                em.know_pair(levels, of_keys, [&i, &j], &mut scope);
                if let Some(v) = weights.exponential {
                    scope.values[v.index()] = Some(exponential.clone());
                }
                for (v, k) in &weights.tiles {
                    scope.values[v.index()] = Some(element(tiles[*k], &slot));
                }
                em.compute_pair(levels, &mut scope);
            }
            let made = |em: &mut Self, source: Source| match source {
                // That of −∞, which keys past the end have, is 0.
                Source::Exponential => exponential.clone(),
                Source::Tile(k) => is_key.clone().select(element(tiles[k], &slot), 0.0f32),
                Source::Weight(v) => {
                    let e = em.value(&scope, v);
                    is_key.clone().select(e, 0.0f32)
                }
            };
            for (sum, array) in parts.sums.iter().zip(&stream.state.sums) {
                let more = made(em, sum.source);
                em.builder.set_element(*array, &i, element(*array, &i) + more);
            }
            let weight = made(em, parts.left.0);
            let weight = match stream.state.scale {
                Some(scale) => weight * element(scale, &i),
                None => weight,
            };
            em.builder.set_element(weights, slot, weight);
        });
        weights
    }

    /// The tiles of scores; of keys past the end what is exponentiated or of which there is a greatest value is −∞.
    fn make_tiles(&mut self, stream: &Stream<'_>, scores: &[ArrayId], first_key: &Expr) -> Vec<ArrayId> {
        let parts = stream.parts;
        let [rows, keys, _] = stream.spread.own();
        let levels = &stream.block.scores;
        let mut tiles: Vec<ArrayId> = Vec::new();
        for (k, v) in parts.tiles.iter().enumerate() {
            let product = parts.scores.products.iter().position(|p| p.value == *v);
            let same = parts.tiles[..k].iter().position(|u| u == v);
            tiles.push(match (product, same) {
                (Some(p), _) => scores[p],
                (None, Some(same)) => tiles[same],
                (None, None) => {
                    let dtype = levels.group.value(*v).dtype.compute();
                    let name = self.name_value(levels.group, *v);
                    // What passes by has to be something.
                    let fill = self.is_heavy(levels, None).then(|| Value::zero(dtype));
                    self.builder.array(&name, dtype, rows * keys, fill)
                }
            });
        }
        let of_keys = self.level_keys(stream, levels, first_key);
        match self.admits(stream, first_key) {
            Some(condition) => {
                self.builder.open();
                self.fill_tiles(stream, (scores, &tiles), first_key, &of_keys, parts.admitted.as_ref());
                let then = self.builder.close();
                self.builder.open();
                self.fill_tiles(stream, (scores, &tiles), first_key, &of_keys, None);
                let otherwise = self.builder.close();
                self.builder.push(Stmt::If { condition, then, otherwise });
            }
            None => self.fill_tiles(stream, (scores, &tiles), first_key, &of_keys, None),
        }
        tiles
    }

    /// The elements of the tiles; where they are admitted, there is nothing to ask of positions.
    fn fill_tiles(
        &mut self,
        stream: &Stream<'_>,
        (scores, tiles): (&[ArrayId], &[ArrayId]),
        first_key: &Expr,
        of_keys: &[(ValueId, ArrayId)],
        admitted: Option<&Admitted>,
    ) {
        let parts = stream.parts;
        let levels = &stream.block.scores;
        let has_places = admitted.is_none_or(|a| self.has_places(levels, a));
        let rolled = self.is_heavy(levels, admitted);
        let (of_row, passing) = (&levels.block, [scores, tiles].concat());
        let pairs = Pairs { first_key, of_row, has_places, rolled, passing, of_keys };
        self.for_each_pair(stream, &pairs, |em, pair, mut scope| {
            let Pair { i, j, places } = pair;
            if let Some((is_row, is_key)) = &places {
                scope.active = Some(match admitted {
                    Some(_) => is_row.clone(),
                    None => em.builder.bind("inside", is_row.clone() & is_key.clone()),
                });
            }
            let slot = stream.spread.score(&i, &j);
            em.know_pair(levels, of_keys, [&i, &j], &mut scope);
            for (product, array) in parts.scores.products.iter().zip(scores) {
                scope.values[product.value.index()] = Some(element(*array, &slot));
            }
            match admitted {
                Some(admitted) => em.compute_admitted(levels, admitted, &mut scope),
                None => em.compute_pair(levels, &mut scope),
            }
            let mut done: Vec<ValueId> = Vec::new();
            for (k, v) in parts.tiles.iter().enumerate() {
                if done.contains(v) {
                    continue;
                }
                done.push(*v);
                let of_value = |t: usize| parts.tiles[t] == *v;
                let lowest =
                    parts.exponent.is_some_and(of_value) || parts.maxima.iter().any(|m| of_value(m.tile));
                let is_product = matches!(levels.group.value(*v).op, BodyOp::Reduce { .. });
                let e = em.value(&scope, *v);
                match &places {
                    Some((_, is_key)) if lowest && admitted.is_none() => {
                        let e = is_key.clone().select(e, f32::NEG_INFINITY);
                        em.builder.set_element(tiles[k], &slot, e);
                    }
                    _ if !is_product => em.builder.set_element(tiles[k], &slot, e),
                    _ => {}
                }
            }
        });
    }

    /// Combines what the threads of a row have of its statistics.
    pub(super) fn share_statistics(&mut self, stream: &Stream<'_>) {
        let (spread, state) = (stream.spread, &stream.state);
        let rows = spread.own()[0];
        let exponent = stream.parts.exponent;
        let maxima = stream.parts.maxima.iter().zip(&state.maxima).filter(|(m, _)| Some(m.tile) != exponent);
        let maxima: Vec<ArrayId> = maxima.map(|(_, array)| *array).collect();
        self.builder.unrolled("i", rows, |b, i| {
            for array in &maxima {
                let all = spread.combine(b, element(*array, &i), maximum);
                b.set_element(*array, &i, all);
            }
            for array in &state.sums {
                let all = spread.combine(b, element(*array, &i), |a, b| a + b);
                b.set_element(*array, &i, all);
            }
        });
    }
}
