//! Index expressions as polynomials: a normal form in which equal expressions are equal.
//!
//! A polynomial is a sum of monomials, a monomial a coefficient times a product of atoms. Atoms are the leaves of index
//! expressions and the divisions that could not be resolved. Divisions are resolved where extents allow it:
//! `(h * E + e) / E` is `h` because `e` ranges over an axis of extent `E`, and `(f / E) * E + f % E` is `f`.

use crate::graph::{AxisSource, CheckKind, Kernel};
use crate::id::AxisId;
use crate::index_map::{Bound, IndexExpr, IndexMap};
use std::collections::BTreeMap;

/// What is known of extents: a number or a product of other extents, for each axis that has either.
#[derive(Clone, Debug, Default)]
pub struct ExtentFacts {
    known: BTreeMap<AxisId, Polynomial>,
}

/// A sum of monomials; the key of a monomial is its sorted atoms. No coefficient is zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Polynomial {
    terms: BTreeMap<Vec<IndexExpr>, i64>,
}

impl ExtentFacts {
    /// The facts of a kernel's axes and of its equality checks (which hold whenever it runs).
    pub fn compute(kernel: &Kernel) -> Self {
        let mut facts = ExtentFacts::default();
        for (k, axis) in kernel.axes.iter().enumerate() {
            let expr = match &axis.source {
                AxisSource::Static(n) => IndexExpr::Const(*n as i64),
                AxisSource::Derived(expr) => expr.clone(),
                AxisSource::Shape | AxisSource::Host(_) => continue,
            };
            facts.learn(AxisId::from_index(k), &expr);
        }
        for check in &kernel.checks {
            if let CheckKind::Equal { axis, expected, .. } = &check.kind {
                facts.learn(*axis, expected);
            }
        }
        facts
    }

    /// Takes `extent(axis) == expr` as known, unless it is known better, has divisions or would be circular.
    fn learn(&mut self, axis: AxisId, expr: &IndexExpr) {
        let poly = self.normalize(expr);
        let simple = poly.atoms().all(|a| match a {
            IndexExpr::Extent(a) => *a != axis,
            IndexExpr::Param(_) => true,
            _ => false,
        });
        if !simple || self.known.contains_key(&axis) {
            return;
        }
        for other in self.known.values_mut() {
            *other = other.replace(&IndexExpr::Extent(axis), &poly);
        }
        self.known.insert(axis, poly);
    }

    /// The extent of an axis in terms of others.
    pub fn extent(&self, axis: AxisId) -> Polynomial {
        self.known.get(&axis).cloned().unwrap_or_else(|| Polynomial::atom(IndexExpr::Extent(axis)))
    }

    /// The normal form of an expression.
    pub fn normalize(&self, expr: &IndexExpr) -> Polynomial {
        match expr {
            IndexExpr::Const(c) => Polynomial::constant(*c),
            IndexExpr::Extent(a) => self.extent(*a),
            IndexExpr::Index(_) | IndexExpr::Param(_) | IndexExpr::Indirect(_) => {
                Polynomial::atom(expr.clone())
            }
            IndexExpr::Add(a, b) => self.normalize(a).plus(&self.normalize(b), 1).join_divisions(self),
            IndexExpr::Sub(a, b) => self.normalize(a).plus(&self.normalize(b), -1),
            IndexExpr::Mul(a, b) => self.normalize(a).times(&self.normalize(b)),
            IndexExpr::FloorDiv(a, b) => self.divide(&self.normalize(a), &self.normalize(b)).0,
            IndexExpr::Mod(a, b) => self.divide(&self.normalize(a), &self.normalize(b)).1,
        }
    }

    /// The same expression, simplified.
    pub fn simplify(&self, expr: &IndexExpr) -> IndexExpr {
        match expr {
            IndexExpr::Const(_) | IndexExpr::Index(_) | IndexExpr::Param(_) | IndexExpr::Indirect(_) => {
                expr.clone()
            }
            _ => self.normalize(expr).to_expr(),
        }
    }

    /// The same map with its expressions simplified and without bounds that always hold.
    pub fn simplify_map(&self, map: &IndexMap) -> IndexMap {
        let indices = map.indices.iter().map(|(a, e)| (*a, self.simplify(e))).collect();
        let mut bounds = Vec::new();
        for b in &map.bounds {
            let b = Bound { expr: self.simplify(&b.expr), extent: self.simplify(&b.extent) };
            if !self.always_holds(&b) && !bounds.contains(&b) {
                bounds.push(b);
            }
        }
        IndexMap { indices, bounds }
    }

    /// Whether a bound holds at every position of the axes its expression reads.
    pub fn always_holds(&self, bound: &Bound) -> bool {
        self.is_below(&self.normalize(&bound.expr), &self.normalize(&bound.extent))
    }

    /// Whether two axes have provably one extent.
    pub fn same_extent(&self, a: AxisId, b: AxisId) -> bool {
        a == b || self.extent(a) == self.extent(b)
    }

    /// Whether `0 <= value < limit` for all positions, by the greatest value each atom can take.
    fn is_below(&self, value: &Polynomial, limit: &Polynomial) -> bool {
        let Some(greatest) = self.upper_bound(value) else { return false };
        let room = limit.plus(&greatest, -1).plus(&Polynomial::constant(1), -1);
        room.terms.iter().all(|(atoms, c)| atoms.is_empty() && *c >= 0)
    }

    /// The greatest value of a polynomial that cannot be negative; `None` if that is not known.
    fn upper_bound(&self, value: &Polynomial) -> Option<Polynomial> {
        let mut sum = Polynomial::default();
        for (atoms, c) in &value.terms {
            if *c < 0 {
                return None;
            }
            let mut product = Polynomial::constant(*c);
            for atom in atoms {
                product = product.times(&self.atom_bound(atom)?);
            }
            sum = sum.plus(&product, 1);
        }
        Some(sum)
    }

    fn atom_bound(&self, atom: &IndexExpr) -> Option<Polynomial> {
        let one = Polynomial::constant(1);
        match atom {
            IndexExpr::Index(a) => Some(self.extent(*a).plus(&one, -1)),
            IndexExpr::Extent(_) => Some(Polynomial::atom(atom.clone())),
            IndexExpr::Mod(a, b) => {
                self.upper_bound(&self.normalize(a))?;
                Some(self.normalize(b).plus(&one, -1))
            }
            IndexExpr::FloorDiv(a, b) => {
                let count = self.upper_bound(&self.normalize(a))?.plus(&one, 1);
                let (quotient, rest) = count.split_by(&self.normalize(b))?;
                rest.terms.is_empty().then(|| quotient.plus(&one, -1))
            }
            IndexExpr::Const(_) | IndexExpr::Param(_) | IndexExpr::Indirect(_) => None,
            IndexExpr::Add(..) | IndexExpr::Sub(..) | IndexExpr::Mul(..) => None,
        }
    }

    /// Quotient and remainder of a division rounded down.
    fn divide(&self, a: &Polynomial, b: &Polynomial) -> (Polynomial, Polynomial) {
        if b.as_constant() == Some(1) {
            return (a.clone(), Polynomial::default());
        }
        if let Some((quotient, rest)) = a.split_by(b)
            && self.is_below(&rest, b)
        {
            return (quotient, rest);
        }
        let (a, b) = (a.to_expr(), b.to_expr());
        let quotient = Polynomial::atom(IndexExpr::FloorDiv(Box::new(a.clone()), Box::new(b.clone())));
        (quotient, Polynomial::atom(IndexExpr::Mod(Box::new(a), Box::new(b))))
    }
}

impl Polynomial {
    /// A number.
    pub fn constant(c: i64) -> Self {
        let mut terms = BTreeMap::new();
        if c != 0 {
            terms.insert(Vec::new(), c);
        }
        Polynomial { terms }
    }

    /// One atom.
    pub fn atom(atom: IndexExpr) -> Self {
        Polynomial { terms: BTreeMap::from([(vec![atom], 1)]) }
    }

    /// The number it is, if it is one.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// `self + scale * other`.
    pub fn plus(&self, other: &Polynomial, scale: i64) -> Self {
        let mut terms = self.terms.clone();
        for (atoms, c) in &other.terms {
            let entry = terms.entry(atoms.clone()).or_insert(0);
            *entry = entry.wrapping_add(c.wrapping_mul(scale));
        }
        terms.retain(|_, c| *c != 0);
        Polynomial { terms }
    }

    /// `self * other`.
    pub fn times(&self, other: &Polynomial) -> Self {
        let mut product = Polynomial::default();
        for (a, c) in &self.terms {
            for (b, d) in &other.terms {
                let mut atoms = a.clone();
                atoms.extend(b.iter().cloned());
                atoms.sort();
                let term = Polynomial { terms: BTreeMap::from([(atoms, c.wrapping_mul(*d))]) };
                product = product.plus(&term, 1);
            }
        }
        product
    }

    /// All atoms, with repetitions.
    pub fn atoms(&self) -> impl Iterator<Item = &IndexExpr> {
        self.terms.keys().flatten()
    }

    fn replace(&self, atom: &IndexExpr, by: &Polynomial) -> Self {
        let mut sum = Polynomial::default();
        for (atoms, c) in &self.terms {
            let mut product = Polynomial::constant(*c);
            for a in atoms {
                product = product.times(&if a == atom { by.clone() } else { Polynomial::atom(a.clone()) });
            }
            sum = sum.plus(&product, 1);
        }
        sum
    }

    /// `(q, r)` with `self == q * by + r`, where `q` takes every monomial that `by` (one monomial) divides.
    fn split_by(&self, by: &Polynomial) -> Option<(Polynomial, Polynomial)> {
        let (divisor, scale) = by.terms.iter().next()?;
        if by.terms.len() != 1 || *scale <= 0 {
            return None;
        }
        let (mut quotient, mut rest) = (Polynomial::default(), Polynomial::default());
        for (atoms, c) in &self.terms {
            let mut left = atoms.clone();
            let divides = divisor.iter().all(|d| match left.iter().position(|a| a == d) {
                Some(k) => {
                    left.remove(k);
                    true
                }
                None => false,
            });
            let (c_quotient, c_rest) =
                if divides { (c.div_euclid(*scale), c.rem_euclid(*scale)) } else { (0, *c) };
            let part = |atoms: &Vec<IndexExpr>, c| match c {
                0 => Polynomial::default(),
                c => Polynomial { terms: BTreeMap::from([(atoms.clone(), c)]) },
            };
            quotient = quotient.plus(&part(&left, c_quotient), 1);
            rest = rest.plus(&part(atoms, c_rest), 1);
        }
        Some((quotient, rest))
    }

    /// `(x / d) * d + x % d` becomes `x`.
    fn join_divisions(self, facts: &ExtentFacts) -> Self {
        for (atoms, c) in &self.terms {
            for (k, atom) in atoms.iter().enumerate() {
                let IndexExpr::Mod(x, d) = atom else { continue };
                let mut others = atoms.clone();
                others.remove(k);
                let scale = Polynomial { terms: BTreeMap::from([(others, *c)]) };
                let divided = Polynomial::atom(IndexExpr::FloorDiv(x.clone(), d.clone()));
                let whole = divided.times(&facts.normalize(d)).times(&scale);
                if whole.terms.iter().all(|(atoms, c)| self.terms.get(atoms) == Some(c)) {
                    let rest = self.plus(&whole, -1);
                    let rest = rest.plus(&Polynomial { terms: BTreeMap::from([(atoms.clone(), *c)]) }, -1);
                    return rest.plus(&facts.normalize(x).times(&scale), 1).join_divisions(facts);
                }
            }
        }
        self
    }

    /// The expression it stands for: what is added first, longest products first, then what is subtracted.
    pub fn to_expr(&self) -> IndexExpr {
        let mut terms: Vec<(&Vec<IndexExpr>, i64)> = self.terms.iter().map(|(a, c)| (a, *c)).collect();
        terms.sort_by(|(a, c), (b, d)| (*c < 0, b.len(), a).cmp(&(*d < 0, a.len(), b)));
        let mut sum = IndexExpr::Const(0);
        for (atoms, c) in terms {
            let product = |c: i64| {
                atoms.iter().fold(IndexExpr::Const(c), |product, a| match product {
                    IndexExpr::Const(1) => a.clone(),
                    product => product.times(a.clone()),
                })
            };
            sum = match c {
                c if c < 0 && c != i64::MIN => sum.minus(product(-c)),
                c => sum.plus(product(c)),
            };
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Axis;

    fn kernel() -> Kernel {
        let axis = |name: &str, source| Axis { name: name.into(), source, assumed: None };
        let product = IndexExpr::extent(AxisId(0)).times(IndexExpr::extent(AxisId(1)));
        Kernel {
            axes: vec![
                axis("H", AxisSource::Shape),
                axis("E", AxisSource::Shape),
                axis("F", AxisSource::Derived(product)),
                axis("C", AxisSource::Static(3)),
            ],
            ..Kernel::default()
        }
    }

    #[test]
    fn divisions_resolve_by_extents() {
        let facts = ExtentFacts::compute(&kernel());
        let [h, e, f, c] = [0, 1, 2, 3].map(|k| IndexExpr::index(AxisId(k)));
        let extent_e = IndexExpr::extent(AxisId(1));
        let merged = h.clone().times(extent_e.clone()).plus(e.clone());
        assert_eq!(facts.simplify(&merged.clone().floor_div(extent_e.clone())), h);
        assert_eq!(facts.simplify(&merged.clone().modulo(extent_e.clone())), e);
        let extent_f = IndexExpr::extent(AxisId(2));
        assert_eq!(facts.simplify(&merged.clone().floor_div(extent_f)), IndexExpr::Const(0));
        let split = f.clone().floor_div(extent_e.clone()).times(extent_e.clone());
        assert_eq!(facts.simplify(&split.plus(f.clone().modulo(extent_e.clone()))), f);
        let by_three = h.clone().times(3).plus(c.clone());
        assert_eq!(facts.simplify(&by_three.clone().floor_div(3)), h);
        assert_eq!(facts.simplify(&by_three.plus(1).floor_div(3)).to_string(), "(((3 * i0 + i3) + 1) / 3)");
        let held = Bound { expr: f.clone().floor_div(extent_e), extent: IndexExpr::extent(AxisId(0)) };
        assert!(facts.always_holds(&held));
        assert!(!facts.always_holds(&Bound { expr: f.plus(1), extent: IndexExpr::extent(AxisId(2)) }));
    }
}
