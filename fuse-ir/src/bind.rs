//! Binding: the extent of every axis from the shapes and scalars of one call.
//!
//! A kernel's axes get their extents from the shapes of its arguments, from `Axis<H>` parameters, from constants and
//! from equations between extents (language rule 2). Everything that can be wrong with the sizes of a call is found
//! here, before anything is allocated or launched; what comes after may index without checks.
//!
//! The happy path runs at every call: it allocates and formats nothing.

mod equation;
mod error;

pub use error::{BindError, Source};

use crate::dtype::Value;
use crate::eval::{eval_fn, eval_op};
use crate::graph::{AxisSource, Check, CheckKind, Condition, Kernel, Param, ParamKind};
use crate::id::{AxisId, ParamId};
use crate::index_map::{Extent, IndexExpr};
use equation::{Solution, Unknowns, evaluate_extent, solve_for_unknown};

/// The mark of an axis that has no extent yet. Extents are never negative.
const UNBOUND: i64 = -1;

/// What is known of a call while it is bound.
struct Binding<'a> {
    kernel: &'a Kernel,
    scalars: &'a [Option<Value>],
    extents: &'a mut [i64],
}

/// The extent of every axis of `kernel`, by [`AxisId`].
///
/// `shapes` and `scalars` have one entry for each parameter: the shape of a tensor, in the declared order; the value of
/// a scalar or of an `Axis<H>` (any integer that fits an i64). The other entry of a parameter is `None`.
///
/// Equations between extents are evaluated, or solved backwards where they are linear in the only unbound axis and the
/// division is exact. All extents of one name must be equal, and every check of the kernel must hold.
///
/// # Errors
/// The first thing that does not fit, with the argument, the axis and both sizes.
pub fn bind_extents(
    kernel: &Kernel,
    shapes: &[Option<&[usize]>],
    scalars: &[Option<Value>],
) -> Result<Vec<i64>, Box<BindError>> {
    let mut extents = vec![UNBOUND; kernel.axes.len()];
    bind_extents_into(kernel, shapes, scalars, &mut extents)?;
    Ok(extents)
}

/// As [`bind_extents`], into a list that has a place for each axis, with whatever contents.
///
/// # Errors
/// Likewise.
pub fn bind_extents_into(
    kernel: &Kernel,
    shapes: &[Option<&[usize]>],
    scalars: &[Option<Value>],
    extents: &mut [i64],
) -> Result<(), Box<BindError>> {
    extents.fill(UNBOUND);
    let mut binding = Binding { kernel, scalars, extents };
    bind_shapes(&mut binding, shapes)?;
    bind_axis_parameters(&mut binding)?;
    bind_constants(&mut binding)?;
    solve_equations(&mut binding)?;
    for check in &kernel.checks {
        if check.when.as_ref().and_then(|when| evaluate_condition(&binding, when)) != Some(Value::Bool(false))
        {
            run_check(&binding, check)?;
        }
    }
    Ok(())
}

impl Binding<'_> {
    /// The number of an integer parameter.
    fn scalar(&self, param: ParamId) -> Option<i128> {
        self.scalars.get(param.index()).copied().flatten().and_then(Value::as_i128)
    }

    fn name(&self, axis: AxisId) -> String {
        self.kernel.axis(axis).name.clone()
    }

    /// Who gave `axis` its extent, for messages; in the order in which they bind.
    fn source_of(&self, axis: AxisId) -> Source {
        let params = || self.kernel.params.iter();
        let has_axis = |p: &&Param| matches!(&p.kind, ParamKind::Tensor { axes, .. } if axes.contains(&axis));
        if let Some(param) = params().find(has_axis) {
            return Source::Tensor(param.name.clone());
        }
        if let Some(param) = params().find(|p| p.kind == ParamKind::Axis { axis }) {
            return Source::Host(param.name.clone());
        }
        match &self.kernel.axis(axis).source {
            AxisSource::Static(_) => Source::Declared,
            AxisSource::Derived(e) => Source::Equation(error::name_axes(self.kernel, e)),
            AxisSource::Shape | AxisSource::Host(_) => Source::Declared,
        }
    }

    /// The argument that shows `axis`, if one does.
    fn argument_with(&self, axis: AxisId) -> Option<String> {
        match self.source_of(axis) {
            Source::Tensor(name) | Source::Host(name) => Some(name),
            Source::Declared | Source::Equation(_) => None,
        }
    }

    /// `extent` as a number; an error if it does not fit an i64.
    fn evaluate(&self, extent: &Extent) -> Result<i64, Box<BindError>> {
        evaluate_extent(extent, self).ok_or_else(|| {
            Box::new(BindError::Overflow {
                kernel: self.kernel.name.clone(),
                expression: error::name_axes(self.kernel, extent),
            })
        })
    }
}

impl Unknowns for Binding<'_> {
    fn extent(&self, axis: AxisId) -> Option<i128> {
        match self.extents[axis.index()] {
            UNBOUND => None,
            n => Some(n.into()),
        }
    }

    fn param(&self, param: ParamId) -> i128 {
        self.scalar(param).unwrap_or(0)
    }
}

fn bind_shapes(b: &mut Binding<'_>, shapes: &[Option<&[usize]>]) -> Result<(), Box<BindError>> {
    let kernel = b.kernel;
    for (k, param) in kernel.params.iter().enumerate() {
        let ParamKind::Tensor { axes, .. } = &param.kind else { continue };
        let shape = shapes.get(k).copied().flatten().unwrap_or(&[]);
        if shape.len() != axes.len() {
            return Err(Box::new(BindError::Rank {
                kernel: kernel.name.clone(),
                argument: param.name.clone(),
                found: shape.len(),
                expected: axes.len(),
            }));
        }
        for (&axis, &n) in axes.iter().zip(shape) {
            let Ok(n) = i64::try_from(n) else {
                return Err(Box::new(BindError::Overflow {
                    kernel: kernel.name.clone(),
                    expression: b.name(axis),
                }));
            };
            let slot = &mut b.extents[axis.index()];
            if *slot == UNBOUND {
                *slot = n;
            } else if *slot != n {
                return Err(Box::new(BindError::Mismatch {
                    kernel: kernel.name.clone(),
                    argument: Some(param.name.clone()),
                    axis: b.name(axis),
                    extent: n,
                    source: b.source_of(axis),
                    expected: b.extents[axis.index()],
                }));
            }
        }
    }
    Ok(())
}

fn bind_axis_parameters(b: &mut Binding<'_>) -> Result<(), Box<BindError>> {
    let kernel = b.kernel;
    for (k, param) in kernel.params.iter().enumerate() {
        let ParamKind::Axis { axis } = param.kind else { continue };
        let value = b.scalar(ParamId::from_index(k)).unwrap_or(0);
        let n = match i64::try_from(value) {
            Ok(n) if n >= 0 => n,
            _ => {
                return Err(Box::new(BindError::NotAnExtent {
                    kernel: kernel.name.clone(),
                    argument: Some(param.name.clone()),
                    axis: b.name(axis),
                    value,
                    expression: None,
                }));
            }
        };
        let slot = &mut b.extents[axis.index()];
        if *slot == UNBOUND {
            *slot = n;
        } else if *slot != n {
            return Err(Box::new(BindError::Mismatch {
                kernel: kernel.name.clone(),
                argument: b.argument_with(axis),
                axis: b.name(axis),
                extent: b.extents[axis.index()],
                source: Source::Host(param.name.clone()),
                expected: n,
            }));
        }
    }
    Ok(())
}

fn bind_constants(b: &mut Binding<'_>) -> Result<(), Box<BindError>> {
    let kernel = b.kernel;
    for (k, axis) in kernel.axes.iter().enumerate() {
        let AxisSource::Static(n) = axis.source else { continue };
        let id = AxisId::from_index(k);
        let Ok(n) = i64::try_from(n) else {
            return Err(Box::new(BindError::Overflow {
                kernel: kernel.name.clone(),
                expression: n.to_string(),
            }));
        };
        let slot = &mut b.extents[k];
        if *slot == UNBOUND {
            *slot = n;
        } else if *slot != n {
            return Err(Box::new(BindError::Mismatch {
                kernel: kernel.name.clone(),
                argument: b.argument_with(id),
                axis: axis.name.clone(),
                extent: b.extents[k],
                source: Source::Declared,
                expected: n,
            }));
        }
    }
    Ok(())
}

/// Evaluates or solves the equations until nothing changes. An equation is `axis = extent`: from a derived axis, or
/// from a check that two extents are equal, which `split` leaves where one of its parts has no other source.
fn solve_equations(b: &mut Binding<'_>) -> Result<(), Box<BindError>> {
    let kernel = b.kernel;
    let derived = kernel.axes.iter().enumerate().filter_map(|(k, axis)| match &axis.source {
        AxisSource::Derived(e) => Some((AxisId::from_index(k), e)),
        AxisSource::Shape | AxisSource::Host(_) | AxisSource::Static(_) => None,
    });
    let checked = kernel.checks.iter().filter_map(|check| match &check.kind {
        CheckKind::Equal { axis, expected, .. } => Some((*axis, expected)),
        CheckKind::NotEmpty { .. } | CheckKind::InBounds { .. } | CheckKind::AtLeast { .. } => None,
    });
    loop {
        let before = b.extents.iter().filter(|&&n| n == UNBOUND).count();
        for (axis, e) in derived.clone() {
            apply_equation(b, axis, e, true)?;
        }
        if before == 0 {
            return Ok(());
        }
        for (axis, e) in checked.clone() {
            apply_equation(b, axis, e, false)?;
        }
        let after = b.extents.iter().filter(|&&n| n == UNBOUND).count();
        if after == before {
            break;
        }
    }
    match b.extents.iter().position(|&n| n == UNBOUND) {
        None => Ok(()),
        Some(k) => Err(Box::new(BindError::Unbound {
            kernel: kernel.name.clone(),
            axis: b.name(AxisId::from_index(k)),
        })),
    }
}

/// Uses `axis = e` to bind what is unbound. Where nothing is, `compare` says whether the two sides are compared here;
/// checks are compared later, with their own message.
fn apply_equation(
    b: &mut Binding<'_>,
    axis: AxisId,
    e: &Extent,
    compare: bool,
) -> Result<(), Box<BindError>> {
    let known = b.extents[axis.index()];
    match solve_for_unknown(e, (known != UNBOUND).then_some(known), b) {
        Solution::Open => Ok(()),
        Solution::Overflow => Err(Box::new(BindError::Overflow {
            kernel: b.kernel.name.clone(),
            expression: error::name_axes(b.kernel, e),
        })),
        Solution::Value(value) if known == UNBOUND => match i64::try_from(value) {
            Ok(n) if n >= 0 => {
                b.extents[axis.index()] = n;
                Ok(())
            }
            Ok(_) => Err(Box::new(BindError::NotAnExtent {
                kernel: b.kernel.name.clone(),
                argument: None,
                axis: b.name(axis),
                value,
                expression: Some(error::name_axes(b.kernel, e)),
            })),
            Err(_) => Err(Box::new(BindError::Overflow {
                kernel: b.kernel.name.clone(),
                expression: error::name_axes(b.kernel, e),
            })),
        },
        Solution::Value(value) if compare && value != known.into() => Err(Box::new(BindError::Mismatch {
            kernel: b.kernel.name.clone(),
            argument: b.argument_with(axis),
            axis: b.name(axis),
            extent: known,
            source: Source::Equation(error::name_axes(b.kernel, e)),
            expected: i64::try_from(value).unwrap_or(i64::MAX),
        })),
        Solution::Value(_) => Ok(()),
        Solution::Axis(other, n) => {
            b.extents[other.index()] = n;
            Ok(())
        }
        Solution::Inexact(other) => Err(Box::new(BindError::NoSolution {
            kernel: b.kernel.name.clone(),
            argument: b.argument_with(axis),
            axis: b.name(axis),
            extent: known,
            expression: error::name_axes(b.kernel, e),
            unknown: b.name(other),
        })),
    }
}

/// A condition's value; `None` if an extent in it is no i64.
fn evaluate_condition(b: &Binding<'_>, condition: &Condition) -> Option<Value> {
    let all =
        |args: &[Condition]| args.iter().map(|arg| evaluate_condition(b, arg)).collect::<Option<Vec<_>>>();
    match condition {
        Condition::Constant(value) => Some(*value),
        Condition::Param(param) => b.scalars.get(param.index()).copied().flatten(),
        Condition::Extent(extent) => evaluate_extent(extent, b).map(Value::I64),
        Condition::Op(op, args) => Some(eval_op(*op, &all(args)?).0),
        Condition::Call { function, args, result } => {
            eval_fn(&b.kernel.functions, *function, &all(args)?).0.get(*result as usize).copied()
        }
    }
}

/// By what `axis` was divided to give an axis of `expected`, if one was.
fn divisor_of<'a>(kernel: &'a Kernel, axis: AxisId, expected: &Extent) -> Option<&'a Extent> {
    let mut divisor = None;
    expected.for_each_leaf(&mut |leaf| {
        let IndexExpr::Extent(part) = leaf else { return };
        if let AxisSource::Derived(IndexExpr::FloorDiv(whole, by)) = &kernel.axis(*part).source
            && **whole == IndexExpr::Extent(axis)
        {
            divisor = Some(&**by);
        }
    });
    divisor
}

fn run_check(b: &Binding<'_>, check: &Check) -> Result<(), Box<BindError>> {
    let kernel = || b.kernel.name.clone();
    match &check.kind {
        CheckKind::NotEmpty { op, axis } => {
            if b.extents[axis.index()] == 0 {
                return Err(Box::new(BindError::Empty {
                    kernel: kernel(),
                    op: op.clone(),
                    axis: b.name(*axis),
                    origin: check.origin.clone(),
                }));
            }
        }
        CheckKind::InBounds { op, axis, start, length } => {
            let extent = b.extents[axis.index()];
            let (start, length) = (b.evaluate(start)?, b.evaluate(length)?);
            let inside =
                start >= 0 && length >= 0 && start.checked_add(length).is_some_and(|end| end <= extent);
            if !inside {
                return Err(Box::new(BindError::OutOfBounds {
                    kernel: kernel(),
                    op: op.clone(),
                    axis: b.name(*axis),
                    extent,
                    start,
                    length,
                    origin: check.origin.clone(),
                }));
            }
        }
        CheckKind::Equal { op, axis, expected } => {
            let extent = b.extents[axis.index()];
            let value = b.evaluate(expected)?;
            if extent != value {
                let argument = b.argument_with(*axis);
                // What was derived by a division that leaves a rest is of no help.
                if let Some(divisor) = divisor_of(b.kernel, *axis, expected) {
                    return Err(Box::new(BindError::Indivisible {
                        kernel: kernel(),
                        argument,
                        op: op.clone(),
                        axis: b.name(*axis),
                        extent,
                        expression: error::name_axes(b.kernel, divisor),
                        divisor: b.evaluate(divisor)?,
                        origin: check.origin.clone(),
                    }));
                }
                return Err(Box::new(BindError::Unequal {
                    kernel: kernel(),
                    argument,
                    op: op.clone(),
                    axis: b.name(*axis),
                    extent,
                    expression: error::name_axes(b.kernel, expected),
                    expected: value,
                    origin: check.origin.clone(),
                }));
            }
        }
        CheckKind::AtLeast { op, name, value, least } => {
            let value = b.evaluate(value)?;
            if value < *least {
                return Err(Box::new(BindError::TooSmall {
                    kernel: kernel(),
                    op: op.clone(),
                    name: name.clone(),
                    value,
                    least: *least,
                    origin: check.origin.clone(),
                }));
            }
        }
    }
    Ok(())
}
