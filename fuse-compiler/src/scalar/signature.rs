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
        other => Err(diagnostics
            .report(messages::unsupported_scalar_type(Place::of(other), &quote::quote!(#other).to_string()))),
    }
}
