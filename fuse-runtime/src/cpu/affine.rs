//! Index expressions of one launch as affine forms over the dimensions of its domain.
//!
//! With the extents known almost every expression is `base + Σ stride · index`. A dimension is an axis, or a part of
//! one: where an axis is divided (`i / |E|`, `i % |E|`, from `split` and `merge`), it becomes two dimensions, and the
//! divisions vanish. What still is not affine goes through [`super::general`].

use fuse_ir::dtype::Value;
use fuse_ir::id::{AxisId, ParamId};
use fuse_ir::index_map::IndexExpr;

/// The most dimensions of a domain, parts of divided axes included.
pub(crate) const MAX_DIMS: usize = fuse_ir::schedule::MOST_DIMENSIONS;

/// `base + Σ strides[k] · index[k]`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Form {
    pub(crate) base: i64,
    pub(crate) strides: [i64; MAX_DIMS],
}

/// The dimensions of a launch: those of the outer axes, then those of the reduced ones, without those of extent 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Domain {
    /// How many there are.
    pub(crate) len: usize,
    /// How many of them are outer.
    pub(crate) outer: usize,
    pub(crate) extents: [usize; MAX_DIMS],
    /// The axis that each is part of, and the step on it of one position.
    pub(crate) parts: [(AxisId, i64); MAX_DIMS],
}

/// What extents and parameters are in this call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallEnv<'a> {
    pub(crate) extents: &'a [i64],
    pub(crate) scalars: &'a [Option<Value>],
}

impl CallEnv<'_> {
    pub(crate) fn extent(&self, axis: AxisId) -> i64 {
        self.extents.get(axis.index()).copied().unwrap_or(0)
    }

    pub(crate) fn param(&self, param: ParamId) -> i64 {
        self.scalars.get(param.index()).copied().flatten().and_then(Value::as_i128).unwrap_or(0) as i64
    }

    /// The number of an expression without indices.
    pub(crate) fn constant(&self, expr: &IndexExpr) -> i64 {
        struct Env<'a>(CallEnv<'a>);
        impl fuse_ir::index_map::IndexEnv for Env<'_> {
            fn index(&self, _: AxisId) -> i64 {
                0
            }
            fn extent(&self, axis: AxisId) -> i64 {
                self.0.extent(axis)
            }
            fn param(&self, param: ParamId) -> i64 {
                self.0.param(param)
            }
            fn indirect(&self, _: fuse_ir::id::NodeId) -> i64 {
                0
            }
        }
        expr.eval(&Env(*self))
    }
}

impl Form {
    /// A number.
    pub(crate) fn constant(base: i64) -> Form {
        Form { base, strides: [0; MAX_DIMS] }
    }

    /// `self + other · factor`.
    pub(crate) fn add_scaled(&mut self, other: &Form, factor: i64) {
        self.base = self.base.wrapping_add(other.base.wrapping_mul(factor));
        for (s, o) in self.strides.iter_mut().zip(&other.strides) {
            *s = s.wrapping_add(o.wrapping_mul(factor));
        }
    }

    fn is_constant(&self) -> bool {
        self.strides.iter().all(|&s| s == 0)
    }

    /// The least and greatest number over the domain.
    pub(crate) fn range(&self, domain: &Domain) -> (i64, i64) {
        let (mut low, mut high) = (self.base, self.base);
        for k in 0..domain.len {
            let reach = self.strides[k].saturating_mul(domain.extents[k] as i64 - 1);
            if reach < 0 {
                low = low.saturating_add(reach);
            } else {
                high = high.saturating_add(reach);
            }
        }
        (low, high)
    }

    /// `(self / divisor, self % divisor)` if both are affine: the strides that the divisor divides form the quotient,
    /// and the rest stays below the divisor everywhere.
    fn divide(&self, divisor: i64, domain: &Domain) -> Option<(Form, Form)> {
        let mut quotient = Form::constant(self.base.div_euclid(divisor));
        let mut rest = Form::constant(self.base.rem_euclid(divisor));
        for k in 0..domain.len {
            if self.strides[k] % divisor == 0 {
                quotient.strides[k] = self.strides[k] / divisor;
            } else {
                rest.strides[k] = self.strides[k];
            }
        }
        let (low, high) = rest.range(domain);
        (low >= 0 && high < divisor).then_some((quotient, rest))
    }
}

impl Domain {
    /// The domain of these axes. `cuts` lists, for an axis, the strides at which it is divided.
    ///
    /// Returns `None` if it has more than [`MAX_DIMS`] dimensions.
    pub(crate) fn new(
        outer: &[AxisId],
        reduced: &[AxisId],
        cuts: &[(AxisId, IndexExpr)],
        env: CallEnv<'_>,
    ) -> Option<Domain> {
        let mut domain =
            Domain { len: 0, outer: 0, extents: [1; MAX_DIMS], parts: [(AxisId(0), 0); MAX_DIMS] };
        for &axis in outer {
            domain.add_axis(axis, cuts, env)?;
        }
        domain.outer = domain.len;
        for &axis in reduced {
            domain.add_axis(axis, cuts, env)?;
        }
        Some(domain)
    }

    fn add_axis(&mut self, axis: AxisId, cuts: &[(AxisId, IndexExpr)], env: CallEnv<'_>) -> Option<()> {
        let extent = env.extent(axis).max(0);
        if cuts.iter().all(|(a, _)| *a != axis) {
            return self.add_dim(extent, axis, 1);
        }
        let mut steps: Vec<i64> = vec![1];
        let mut wanted: Vec<i64> =
            cuts.iter().filter(|(a, _)| *a == axis).map(|(_, e)| env.constant(e)).collect();
        wanted.sort_unstable();
        for step in wanted {
            let last = steps.last().copied().unwrap_or(1);
            if step > last && step < extent && step % last == 0 && extent % step == 0 {
                steps.push(step);
            }
        }
        let mut above = extent;
        for &step in steps.iter().rev() {
            self.add_dim(above / step, axis, step)?;
            above = step;
        }
        Some(())
    }

    fn add_dim(&mut self, extent: i64, axis: AxisId, step: i64) -> Option<()> {
        if extent == 1 {
            return Some(());
        }
        if self.len == MAX_DIMS {
            return None;
        }
        self.extents[self.len] = extent as usize;
        self.parts[self.len] = (axis, step);
        self.len += 1;
        Some(())
    }

    /// The position along an axis.
    pub(crate) fn index(&self, axis: AxisId) -> Form {
        let mut form = Form::constant(0);
        for k in 0..self.len {
            if self.parts[k].0 == axis {
                form.strides[k] = self.parts[k].1;
            }
        }
        form
    }

    /// The position along an axis where the dimensions have these indices.
    pub(crate) fn position(&self, axis: AxisId, indices: &[usize; MAX_DIMS]) -> i64 {
        (0..self.len).filter(|&k| self.parts[k].0 == axis).map(|k| indices[k] as i64 * self.parts[k].1).sum()
    }

    /// The expression as a form, if it is affine.
    pub(crate) fn affine(&self, expr: &IndexExpr, env: CallEnv<'_>) -> Option<Form> {
        match expr {
            IndexExpr::Const(c) => Some(Form::constant(*c)),
            IndexExpr::Index(axis) => Some(self.index(*axis)),
            IndexExpr::Extent(axis) => Some(Form::constant(env.extent(*axis))),
            IndexExpr::Param(param) => Some(Form::constant(env.param(*param))),
            IndexExpr::Indirect(_) => None,
            IndexExpr::Add(a, b) => {
                let mut sum = self.affine(a, env)?;
                sum.add_scaled(&self.affine(b, env)?, 1);
                Some(sum)
            }
            IndexExpr::Sub(a, b) => {
                let mut difference = self.affine(a, env)?;
                difference.add_scaled(&self.affine(b, env)?, -1);
                Some(difference)
            }
            IndexExpr::Mul(a, b) => {
                let (a, b) = (self.affine(a, env)?, self.affine(b, env)?);
                let (form, factor) = if b.is_constant() { (a, b.base) } else { (b, a.base) };
                if !a.is_constant() && !b.is_constant() {
                    return None;
                }
                let mut product = Form::constant(0);
                product.add_scaled(&form, factor);
                Some(product)
            }
            IndexExpr::FloorDiv(a, b) => Some(self.divide(a, b, env)?.0),
            IndexExpr::Mod(a, b) => Some(self.divide(a, b, env)?.1),
        }
    }

    fn divide(&self, a: &IndexExpr, b: &IndexExpr, env: CallEnv<'_>) -> Option<(Form, Form)> {
        let divisor = self.affine(b, env)?;
        if !divisor.is_constant() {
            return None;
        }
        if divisor.base <= 0 {
            return Some((Form::constant(0), Form::constant(0)));
        }
        self.affine(a, env)?.divide(divisor.base, self)
    }
}
