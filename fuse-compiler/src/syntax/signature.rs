//! Signatures of tensor functions: generics, parameters and results.

use super::dimension::parse_dimension;
use super::{
    DTypeBound, ElementType, Generic, GenericKind, KernelArgs, MOST_RESULTS, Param, ParamKind, Results,
    TensorFn, TensorType,
};
use crate::diagnostic::{Diagnostics, Place, messages};
use fuse_ir::dtype::DType;
use proc_macro2::Ident;

/// Reads the signature of a composite or kernel. `None` after a report.
pub(super) fn parse_tensor_fn(
    function: syn::ItemFn,
    mut kernel: Option<KernelArgs>,
    diagnostics: &mut Diagnostics,
) -> Option<TensorFn> {
    let before = diagnostics.iter().count();
    let sig = &function.sig;
    report_qualifiers(sig, diagnostics);
    report_attributes(&function.attrs, diagnostics);
    let mut generics = parse_generics(&sig.generics, diagnostics);
    let mut params: Vec<Param> = Vec::new();
    for input in &sig.inputs {
        let Some(param) = parse_param(input, &mut generics, diagnostics) else { continue };
        if let Some(first) = params.iter().find(|p| p.name == param.name) {
            diagnostics.report(messages::parameter_defined_twice(&param.name, first.name.span()));
        }
        if let Some(axis) = generics.iter().find(|g| g.name == param.name) {
            diagnostics.report(messages::name_of_axis(&param.name, axis.name.span()));
        }
        params.push(param);
    }
    let results = parse_results(&sig.output, &mut generics, diagnostics);
    let silent = diagnostics.iter().count() == before;
    if silent && matches!(results, Results::None) && !params.iter().any(is_mutable) {
        diagnostics.report(messages::no_result(&sig.ident));
    }
    if kernel.is_none()
        && let Some(param) = params.iter().find(|p| is_mutable(p))
    {
        diagnostics.report(messages::mutable_parameter_of_composite(Place::of(&param.ty)));
    }
    if let Results::Tuple(types, _) = &results
        && let Some(beyond) = types.get(MOST_RESULTS).filter(|_| kernel.is_some())
    {
        diagnostics.report(messages::too_many_results(beyond.place, MOST_RESULTS));
    }
    if let Some(args) = &mut kernel {
        check_kernel_args(args, &mut generics, diagnostics);
    }
    if diagnostics.iter().count() > before {
        return None;
    }
    Some(TensorFn {
        attrs: function.attrs,
        vis: function.vis,
        name: function.sig.ident.clone(),
        signature: kernel.is_none().then_some(function.sig),
        generics,
        params,
        results,
        body: *function.block,
        kernel,
    })
}

/// Attributes that a function over tensors may have beside the marker.
const ATTRIBUTES: &[&str] = &[
    "allow",
    "cfg",
    "cfg_attr",
    "deny",
    "deprecated",
    "doc",
    "expect",
    "forbid",
    "inline",
    "must_use",
    "warn",
];

/// Any other attribute would be lost, such as a marker that is misspelt.
fn report_attributes(attributes: &[syn::Attribute], diagnostics: &mut Diagnostics) {
    for attribute in attributes {
        let path = attribute.path();
        let is_tool = path.segments.first().is_some_and(|s| s.ident == "rustfmt" || s.ident == "clippy");
        let is_known = ATTRIBUTES.iter().any(|known| path.is_ident(known));
        if !is_tool && !is_known {
            diagnostics.report(messages::unknown_attribute(path));
        }
    }
}

fn is_mutable(param: &Param) -> bool {
    matches!(param.kind, ParamKind::Tensor { mutable: true, .. })
}

fn report_qualifiers(sig: &syn::Signature, diagnostics: &mut Diagnostics) {
    let qualifier = sig.constness.map(|t| Place::of(&t)).or_else(|| sig.asyncness.map(|t| Place::of(&t)));
    let qualifier = qualifier.or_else(|| sig.abi.as_ref().map(Place::of));
    let qualifier = qualifier.or_else(|| match &sig.safety {
        syn::Safety::Unsafe(t) => Some(Place::of(&t)),
        syn::Safety::Safe(t) => Some(Place::of(&t)),
        syn::Safety::Default => None,
    });
    if let Some(span) = qualifier {
        diagnostics.report(messages::qualifier_not_supported(span));
    }
    if let Some(clause) = &sig.generics.where_clause {
        diagnostics.report(messages::where_not_supported(Place::of(&clause)));
    }
    if let Some(variadic) = &sig.variadic {
        diagnostics.report(messages::qualifier_not_supported(Place::of(&variadic)));
    }
}

fn parse_generics(generics: &syn::Generics, diagnostics: &mut Diagnostics) -> Vec<Generic> {
    let mut found: Vec<Generic> = Vec::new();
    for param in &generics.params {
        let before = diagnostics.iter().count();
        let generic = match param {
            syn::GenericParam::Lifetime(lifetime) => {
                diagnostics.report(messages::lifetime_not_supported(Place::of(&lifetime)));
                continue;
            }
            syn::GenericParam::Type(param) => parse_type_generic(param, diagnostics),
            syn::GenericParam::Const(param) => parse_const_generic(param, diagnostics),
        };
        if DType::from_name(&generic.name.to_string()).is_some() {
            diagnostics.report(messages::generic_named_like_dtype(&generic.name));
        }
        match found.iter().find(|g| g.name == generic.name) {
            Some(first) => {
                diagnostics.report(messages::generic_defined_twice(&generic.name, first.name.span()));
            }
            None => found.push(generic),
        }
        if diagnostics.iter().count() > before {
            // It may be meant as either: what is wrong about it is reported.
            let name = found[found.len() - 1].name.clone();
            found.push(Generic { name: name.clone(), kind: GenericKind::Axis });
            found.push(Generic { name, kind: GenericKind::DType(DTypeBound::Float) });
        }
    }
    found
}

fn parse_type_generic(param: &syn::TypeParam, diagnostics: &mut Diagnostics) -> Generic {
    if let Some((_, default)) = &param.default {
        diagnostics.report(messages::axis_with_default(Place::of(&default), &param.ident));
    }
    let mut kind = GenericKind::Axis;
    for bound in &param.bounds {
        let name = match bound {
            syn::TypeParamBound::Trait(bound) => bound.path.segments.last().map(|s| s.ident.to_string()),
            _ => None,
        };
        match name.as_deref().and_then(DTypeBound::from_name) {
            Some(bound) => kind = GenericKind::DType(bound),
            None => {
                diagnostics.report(messages::unknown_bound(Place::of(bound)));
            }
        }
    }
    Generic { name: param.ident.clone(), kind }
}

fn parse_const_generic(param: &syn::ConstParam, diagnostics: &mut Diagnostics) -> Generic {
    let is_usize = matches!(&param.ty, syn::Type::Path(ty) if ty.path.is_ident("usize"));
    if !is_usize {
        diagnostics.report(messages::const_axis_not_usize(Place::of(&param.ty)));
    }
    let kind = match &param.default {
        Some((_, expr)) => parse_dimension(expr, diagnostics).map(|dimension| {
            if let Some(own) = dimension.names().into_iter().find(|name| **name == param.ident) {
                diagnostics.report(messages::extent_of_itself(own));
            }
            GenericKind::Derived(dimension)
        }),
        None => {
            diagnostics.report(messages::const_axis_without_value(&param.ident));
            None
        }
    };
    Generic { name: param.ident.clone(), kind: kind.unwrap_or(GenericKind::Axis) }
}

fn parse_param(
    input: &syn::FnArg,
    generics: &mut Vec<Generic>,
    diagnostics: &mut Diagnostics,
) -> Option<Param> {
    let typed = match input {
        syn::FnArg::Typed(typed) => typed,
        syn::FnArg::Receiver(receiver) => {
            diagnostics.report(messages::self_not_supported(Place::of(&receiver)));
            return None;
        }
    };
    let name = match &*typed.pat {
        syn::Pat::Ident(pat) if pat.subpat.is_none() && pat.by_ref.is_none() => pat.ident.clone(),
        other => {
            diagnostics.report(messages::parameter_pattern(Place::of(&other)));
            return None;
        }
    };
    let kind = parse_param_type(&typed.ty, generics, diagnostics)?;
    Some(Param { name, kind, ty: (*typed.ty).clone() })
}

fn parse_param_type(
    ty: &syn::Type,
    generics: &mut Vec<Generic>,
    diagnostics: &mut Diagnostics,
) -> Option<ParamKind> {
    let (inner, mutable, reference) = match ty {
        syn::Type::Reference(reference) => {
            if let Some(lifetime) = &reference.lifetime {
                diagnostics.report(messages::lifetime_not_supported(Place::of(lifetime)));
            }
            (&*reference.elem, reference.mutability.is_some(), true)
        }
        syn::Type::Paren(paren) => return parse_param_type(&paren.elem, generics, diagnostics),
        syn::Type::Group(group) => return parse_param_type(&group.elem, generics, diagnostics),
        other => (other, false, false),
    };
    let syn::Type::Path(path) = inner else {
        diagnostics.report(messages::parameter_type(Place::of(&ty)));
        return None;
    };
    let segment = path.path.segments.last()?;
    match (&segment.arguments, segment.ident.to_string().as_str()) {
        (syn::PathArguments::AngleBracketed(_), "Tensor") => {
            let ty = parse_tensor_type(inner, generics, diagnostics)?;
            Some(ParamKind::Tensor { ty, mutable })
        }
        (syn::PathArguments::AngleBracketed(args), "Axis") if !reference => {
            let axis = match args.args.first() {
                Some(syn::GenericArgument::Type(syn::Type::Path(axis))) if args.args.len() == 1 => {
                    axis.path.get_ident().cloned()
                }
                _ => None,
            };
            let Some(axis) = axis else {
                diagnostics.report(messages::axis_parameter(Place::of(&args)));
                return None;
            };
            check_axis(&axis, generics, diagnostics)?;
            Some(ParamKind::Axis(axis))
        }
        (syn::PathArguments::None, "Tensor") => {
            diagnostics.report(messages::tensor_without_dtype(Place::of(&inner)));
            None
        }
        (syn::PathArguments::None, _) if !reference && path.path.get_ident().is_some() => {
            parse_element(&segment.ident, generics, diagnostics).map(ParamKind::Scalar)
        }
        _ => {
            diagnostics.report(messages::parameter_type(Place::of(&ty)));
            None
        }
    }
}

/// Reads `Tensor<f32, M, N>`; also the type of a `let`.
pub(crate) fn parse_tensor_type(
    ty: &syn::Type,
    generics: &mut Vec<Generic>,
    diagnostics: &mut Diagnostics,
) -> Option<TensorType> {
    let path = match ty {
        syn::Type::Path(path) => path,
        syn::Type::Reference(reference) => {
            return parse_tensor_type(&reference.elem, generics, diagnostics);
        }
        syn::Type::Paren(paren) => return parse_tensor_type(&paren.elem, generics, diagnostics),
        syn::Type::Group(group) => return parse_tensor_type(&group.elem, generics, diagnostics),
        other => {
            diagnostics.report(messages::tensor_type_expected(Place::of(&other)));
            return None;
        }
    };
    let segment = path.path.segments.last()?;
    if segment.ident != "Tensor" {
        diagnostics.report(messages::tensor_type_expected(Place::of(&ty)));
        return None;
    }
    let syn::PathArguments::AngleBracketed(args) = &segment.arguments else {
        diagnostics.report(messages::tensor_without_dtype(Place::of(&ty)));
        return None;
    };
    let mut element = None;
    let mut axes: Vec<Ident> = Vec::new();
    for (position, arg) in args.args.iter().enumerate() {
        let name = match arg {
            syn::GenericArgument::Type(syn::Type::Path(path)) => path.path.get_ident().cloned(),
            _ => None,
        };
        let Some(name) = name else {
            diagnostics.report(messages::axis_must_be_named(Place::of(&arg)));
            return None;
        };
        if position == 0 {
            element = Some(parse_element(&name, generics, diagnostics)?);
            continue;
        }
        check_axis(&name, generics, diagnostics)?;
        if axes.contains(&name) {
            diagnostics.report(messages::axis_twice_in_type(&name));
            return None;
        }
        axes.push(name);
    }
    let Some(element) = element else {
        diagnostics.report(messages::tensor_without_dtype(Place::of(&ty)));
        return None;
    };
    Some(TensorType { element, axes, place: Place::of(ty) })
}

/// A dtype's name, or a generic one's.
fn parse_element(
    name: &Ident,
    generics: &mut Vec<Generic>,
    diagnostics: &mut Diagnostics,
) -> Option<ElementType> {
    if let Some(dtype) = DType::from_name(&name.to_string()) {
        return Some(ElementType::DType(dtype, name.span()));
    }
    let mut kinds = generics.iter().filter(|g| g.name == *name).map(|g| &g.kind);
    if kinds.clone().any(|kind| matches!(kind, GenericKind::DType(_))) {
        return Some(ElementType::Generic(name.clone()));
    }
    if kinds.next().is_some() {
        diagnostics.report(messages::axis_in_place_of_dtype(name));
        // Both from here on: one of the two is wrong, and reported.
        generics.push(Generic { name: name.clone(), kind: GenericKind::DType(DTypeBound::Float) });
    } else {
        diagnostics.report(messages::unknown_dtype(name));
    }
    None
}

fn check_axis(name: &Ident, generics: &mut Vec<Generic>, diagnostics: &mut Diagnostics) -> Option<()> {
    let kinds = generics.iter().filter(|g| g.name == *name).map(|g| &g.kind);
    let is_axis = |kind: &GenericKind| !matches!(kind, GenericKind::DType(_));
    match kinds.clone().find(|kind| is_axis(kind)).or(kinds.clone().next()) {
        Some(kind) if is_axis(kind) => Some(()),
        Some(_) => {
            diagnostics.report(messages::dtype_in_place_of_axis(name));
            generics.push(Generic { name: name.clone(), kind: GenericKind::Axis });
            None
        }
        None if DType::from_name(&name.to_string()).is_some() => {
            diagnostics.report(messages::dtype_in_place_of_axis(name));
            None
        }
        None => {
            let axes = generics.iter().filter(|g| !matches!(g.kind, GenericKind::DType(_)));
            let names: Vec<String> = axes.map(|g| g.name.to_string()).collect();
            diagnostics.report(messages::axis_not_declared(name, names.iter().map(String::as_str)));
            // Declared from here on: what is missing is reported once.
            generics.push(Generic { name: name.clone(), kind: GenericKind::Axis });
            None
        }
    }
}

fn parse_results(
    output: &syn::ReturnType,
    generics: &mut Vec<Generic>,
    diagnostics: &mut Diagnostics,
) -> Results {
    let ty = match output {
        syn::ReturnType::Default => return Results::None,
        syn::ReturnType::Type(_, ty) => ty,
    };
    let mut one = |ty: &syn::Type| match ty {
        syn::Type::Reference(reference) => {
            diagnostics.report(messages::reference_result(Place::of(&reference.and_token)));
            None
        }
        syn::Type::Path(path) if path.path.get_ident().is_some_and(|n| n != "Tensor") => {
            diagnostics.report(messages::scalar_result(Place::of(&ty)));
            None
        }
        _ => parse_tensor_type(ty, generics, diagnostics),
    };
    match &**ty {
        syn::Type::Tuple(tuple) if tuple.elems.is_empty() => Results::None,
        syn::Type::Tuple(tuple) => {
            Results::Tuple(tuple.elems.iter().filter_map(one).collect(), Place::of(tuple))
        }
        other => one(other).map_or(Results::None, Results::One),
    }
}

fn check_kernel_args(args: &mut KernelArgs, generics: &mut Vec<Generic>, diagnostics: &mut Diagnostics) {
    for (axis, _) in &args.assume {
        if check_axis(axis, generics, diagnostics).is_none() {
            continue;
        }
        if args.assume.iter().filter(|(a, _)| a == axis).count() > 1
            && args.assume.iter().rfind(|(a, _)| a == axis).is_some_and(|(a, _)| std::ptr::eq(a, axis))
        {
            diagnostics.report(messages::axis_assumed_twice(axis));
        }
    }
    for (name, dtypes) in &args.dtypes {
        let bound = generics.iter().find(|g| g.name == *name).map(|g| &g.kind);
        let Some(GenericKind::DType(bound)) = bound else {
            diagnostics.report(messages::unknown_kernel_argument(name));
            continue;
        };
        if dtypes.is_empty() {
            diagnostics.report(messages::no_dtype_listed(name));
        }
        for (dtype, span) in dtypes {
            if !bound.admits(*dtype) {
                diagnostics.report(messages::dtype_outside_bound(*span, *dtype, bound.name()));
            }
        }
    }
}
