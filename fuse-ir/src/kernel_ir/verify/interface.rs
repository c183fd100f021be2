//! What is checked of a kernel before its body: names, parameters, facts, geometry, views, functions.

use super::{Check, require};
use crate::dtype::DType;
use crate::kernel_ir::size::{Condition, Size};
use crate::kernel_ir::{Kernel, ParamKind, WARP};
use crate::scalar::verify_function;
use std::collections::BTreeSet;

pub(super) fn check_interface(kernel: &Kernel) -> Check {
    check_names(kernel)?;
    for param in &kernel.params {
        let name = &param.name;
        match param.kind {
            ParamKind::Pointer { dtype, align, .. } => {
                let valid = align.is_power_of_two() && align as usize >= dtype.size();
                require(valid, || format!("`{name}` is aligned to {align} bytes and holds {dtype}"))?;
            }
            ParamKind::Scalar { dtype, multiple_of } => {
                require(!dtype.is_narrow_float(), || format!("`{name}` is {dtype}"))?;
                let valid = multiple_of > 0 && (multiple_of == 1 || dtype.is_int());
                require(valid, || format!("`{name}`, a {dtype}, is a multiple of {multiple_of}"))?;
            }
        }
    }
    for fact in &kernel.facts {
        for condition in &fact.conditions {
            check_condition(kernel, condition).map_err(|why| format!("fact `{}`: {why}", fact.name))?;
        }
    }
    for condition in &kernel.requires {
        check_condition(kernel, condition).map_err(|why| format!("requirement: {why}"))?;
    }
    let geometry = &kernel.geometry;
    geometry.grid.iter().chain([&geometry.shared_bytes]).try_for_each(|s| check_size(kernel, s))?;
    let threads = geometry.threads();
    let valid = threads > 0 && threads <= 1024 && threads.is_multiple_of(WARP) && geometry.block[2] <= 64;
    require(valid, || format!("a block of {:?} threads", geometry.block))?;
    for view in &kernel.views {
        let name = &view.name;
        check_size(kernel, &view.offset)?;
        check_size(kernel, &view.len)?;
        let aligned = view.offset.known_divisor(kernel) % view.dtype.size() as u64 == 0;
        require(aligned, || format!("`{name}` is not aligned to its elements"))?;
        let end = view.len.clone() * view.dtype.size() as u64 + view.offset.clone();
        if let (Some(end), Some(all)) = (end.as_const(), geometry.shared_bytes.as_const()) {
            require(end <= all, || format!("`{name}` ends at {end} of {all} bytes"))?;
        }
    }
    for local in &kernel.locals {
        require(!local.dtype.is_narrow_float(), || format!("`{}` is {}", local.name, local.dtype))?;
    }
    for array in &kernel.arrays {
        require(!array.dtype.is_narrow_float(), || format!("`{}` is {}", array.name, array.dtype))?;
        require(array.len > 0, || format!("`{}` is empty", array.name))?;
    }
    for (k, function) in kernel.functions.iter().enumerate() {
        verify_function(&kernel.functions[..k], function)
            .map_err(|why| format!("function `{}`: {why}", function.name))?;
    }
    Ok(())
}

fn check_names(kernel: &Kernel) -> Check {
    let mut seen = BTreeSet::new();
    let names = [&kernel.name]
        .into_iter()
        .chain(kernel.params.iter().map(|p| &p.name))
        .chain(kernel.facts.iter().map(|c| &c.name))
        .chain(kernel.views.iter().map(|v| &v.name))
        .chain(kernel.locals.iter().map(|l| &l.name))
        .chain(kernel.arrays.iter().map(|a| &a.name));
    for name in names {
        let valid = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.chars().next().is_some_and(|c| !c.is_ascii_digit());
        require(valid, || format!("`{name}` is no identifier"))?;
        require(seen.insert(name), || format!("`{name}` names two things"))?;
    }
    Ok(())
}

fn check_size(kernel: &Kernel, size: &Size) -> Check {
    let mut valid = true;
    size.for_each_param(&mut |id| {
        valid &= matches!(kernel.params.get(id.index()).map(|p| p.kind),
            Some(ParamKind::Scalar { dtype, .. }) if dtype.is_int() && dtype != DType::Bool);
    });
    require(valid, || "a size depends on what is no integer parameter".into())
}

fn check_condition(kernel: &Kernel, condition: &Condition) -> Check {
    match condition {
        Condition::Aligned { pointer, bytes } => {
            let kind = kernel.params.get(pointer.index()).map(|p| p.kind);
            let is_pointer = matches!(kind, Some(ParamKind::Pointer { .. }));
            require(is_pointer && bytes.is_power_of_two(), || "what is aligned is no pointer".into())
        }
        Condition::Multiple { size, of } => {
            require(*of > 0, || "a multiple of 0".into())?;
            check_size(kernel, size)
        }
        Condition::Equal(a, b) | Condition::AtMost(a, b) => {
            check_size(kernel, a)?;
            check_size(kernel, b)
        }
    }
}
