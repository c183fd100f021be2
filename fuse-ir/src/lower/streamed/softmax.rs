//! From scores to weights: the greatest exponents, exponentials, sums.

use super::super::body::{Emitter, Scope};
use super::Stream;
use crate::dtype::DType;
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
            None => self.builder.array("weights", DType::F32, rows * keys, None),
        };
        let of_weights = stream.block.weights.as_ref();
        let of_keys = of_weights.map(|levels| self.level_keys(stream, levels, first_key)).unwrap_or_default();
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
                let shift = b.bind("shift", reference(&most));
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
            let mut of_row = Scope::default();
            if let Some(levels) = of_weights {
                of_row = levels.block.clone();
            }
            let is_row = em.row_scope(stream, &i, &mut of_row);
            em.repeat("j", keys, Unroll::Full, |em, j| {
                let mut scope = of_row.clone();
                let is_key = em.key_scope(stream, first_key, &j, &mut scope);
                let slot = spread.score(&i, &j);
                let exponential = match (shift, parts.exponent) {
                    (Some(shift), Some(k)) => {
                        let e = (element(tiles[k], &slot) - shift).unary(ScalarOp::Exp);
                        Some(em.builder.bind("exponential", e))
                    }
                    _ => None,
                };
                let exponential = exponential.unwrap_or(Expr::from(0.0f32));
                if let (Some(levels), Some(weights)) = (of_weights, &parts.weights) {
                    let active = em.builder.bind("inside", is_row & is_key.clone());
                    scope.active = Some(active);
                    em.know_pair(levels, &of_keys, [&i, &j], &mut scope);
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
                for (sum, array) in parts.sums.iter().zip(&state.sums) {
                    let more = made(em, sum.source);
                    em.builder.set_element(*array, &i, element(*array, &i) + more);
                }
                let weight = made(em, parts.left.0);
                let weight = match state.scale {
                    Some(scale) => weight * element(scale, &i),
                    None => weight,
                };
                em.builder.set_element(weights, slot, weight);
            });
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
                    self.builder.array(&name, dtype, rows * keys, None)
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
        let [rows, keys, _] = stream.spread.own();
        let levels = &stream.block.scores;
        let has_places = admitted.is_none_or(|a| self.has_places(levels, a));
        self.repeat("i", rows, Unroll::Full, |em, i| {
            let mut of_row = levels.block.clone();
            let is_row = has_places.then(|| em.row_scope(stream, &i, &mut of_row));
            em.repeat("j", keys, Unroll::Full, |em, j| {
                let mut scope = of_row.clone();
                let is_key = has_places.then(|| em.key_scope(stream, first_key, &j, &mut scope));
                if let (Some(is_row), Some(is_key)) = (&is_row, &is_key) {
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
                    match &is_key {
                        Some(is_key) if lowest && admitted.is_none() => {
                            let e = is_key.clone().select(e, f32::NEG_INFINITY);
                            em.builder.set_element(tiles[k], &slot, e);
                        }
                        _ if !is_product => em.builder.set_element(tiles[k], &slot, e),
                        _ => {}
                    }
                }
            });
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
