//! Types as written in signatures, `let` and constants.

use super::ScalarType;
use crate::diagnostic::{Diagnostics, Place, Reported, messages};
use fuse_ir::dtype::DType;

/// Reads `f32`, `(f32, i64)`, `()`. Narrow floats and foreign types are errors: an op computes in f32 or wider.
pub(super) fn read_type(ty: &syn::Type, diagnostics: &mut Diagnostics) -> Result<ScalarType, Reported> {
    match ty {
        syn::Type::Paren(inner) => read_type(&inner.elem, diagnostics),
        syn::Type::Group(inner) => read_type(&inner.elem, diagnostics),
        syn::Type::Tuple(tuple) => {
            // All elements are read before the first error ends it, so that each is reported.
            let elements: Vec<_> =
                tuple.elems.iter().map(|element| read_type(element, diagnostics)).collect();
            Ok(ScalarType::Tuple(elements.into_iter().collect::<Result<_, _>>()?))
        }
        syn::Type::Path(path) if path.qself.is_none() => {
            let name = path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            match DType::from_name(&name) {
                Some(dtype) if dtype.is_narrow_float() => {
                    Err(diagnostics.report(messages::narrow_float_in_scalar(Place::of(ty), dtype)))
                }
                Some(dtype) => Ok(ScalarType::Scalar(dtype)),
                None => Err(diagnostics.report(messages::unsupported_scalar_type(Place::of(ty), &name))),
            }
        }
        other => {
            // Tokens print with spaces around each that the user did not write.
            let name = quote::quote!(#other).to_string().replace("& ", "&").replace(" :: ", "::");
            Err(diagnostics.report(messages::unsupported_scalar_type(Place::of(other), &name)))
        }
    }
}

/// The narrow float that a type names, if it names one.
pub(super) fn narrow_float(ty: &syn::Type) -> Option<DType> {
    let syn::Type::Path(path) = ty else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    DType::from_name(&name).filter(|dtype| dtype.is_narrow_float())
}

/// The declared types of an op: one for each parameter, and the result.
pub(super) fn read_signature(
    item: &syn::ItemFn,
    diagnostics: &mut Diagnostics,
) -> Result<(Vec<ScalarType>, ScalarType), Reported> {
    let signature = &item.sig;
    let mut error = None;
    if let Some(parameter) = signature.generics.params.first() {
        error = Some(diagnostics.report(messages::generic_scalar(Place::of(parameter))));
    }
    let modifier = [
        signature.constness.as_ref().map(Place::of),
        signature.asyncness.as_ref().map(Place::of),
        signature.abi.as_ref().map(Place::of),
        Some(Place::of(&signature.safety)).filter(|_| !matches!(signature.safety, syn::Safety::Default)),
        signature.variadic.as_ref().map(Place::of),
    ];
    if let Some(place) = modifier.into_iter().flatten().next() {
        error = Some(diagnostics.report(messages::modifier_on_scalar(place)));
    }
    let mut parameters = Vec::new();
    for input in &signature.inputs {
        match input {
            syn::FnArg::Receiver(receiver) => {
                error = Some(diagnostics.report(messages::self_in_scalar(receiver.self_token.span)));
            }
            syn::FnArg::Typed(input) => match read_type(&input.ty, diagnostics) {
                Ok(ty) => parameters.push(ty),
                Err(reported) => error = Some(reported),
            },
        }
    }
    let result = match &signature.output {
        syn::ReturnType::Type(_, ty) => read_type(ty, diagnostics),
        syn::ReturnType::Default => {
            Err(diagnostics.report(messages::scalar_without_result(signature.ident.span())))
        }
    };
    match (error, result) {
        (Some(reported), _) => Err(reported),
        (None, Ok(result)) if result.flatten().is_empty() => {
            Err(diagnostics.report(messages::scalar_without_result(signature.ident.span())))
        }
        (None, result) => Ok((parameters, result?)),
    }
}
