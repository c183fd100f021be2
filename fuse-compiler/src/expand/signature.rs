//! The host's side of a kernel's signature: names, types and arguments as tokens.

use crate::syntax::{ElementType, Param, ParamKind, Results, TensorFn, TensorType};
use fuse_ir::dtype::DType;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

/// A kernel's signature in the host's terms.
pub(super) struct Signature<'a> {
    pub(super) function: &'a TensorFn,
    /// The generic dtypes, in the declared order.
    pub(super) dtypes: Vec<Ident>,
    /// `x: &Tensor<f32, 2>`.
    pub(super) params: Vec<TokenStream>,
    /// `Arg::read(x)`.
    pub(super) args: Vec<TokenStream>,
    /// `result: &mut Tensor<f32, 2>`.
    pub(super) result_params: Vec<TokenStream>,
    /// `Arg::write(result)`.
    pub(super) result_args: Vec<TokenStream>,
    /// `Tensor<f32, 2>`, `()`, or a tuple.
    pub(super) output: TokenStream,
    /// `#[cfg(..)]` attributes, which go to every item.
    pub(super) cfgs: Vec<&'a syn::Attribute>,
}

impl<'a> Signature<'a> {
    pub(super) fn new(facade: &TokenStream, function: &'a TensorFn) -> Self {
        let dtypes = function.dtype_generics().map(|(name, _)| name.clone()).collect();
        let (params, args) = function.params.iter().map(|p| host_param(facade, p)).unzip();
        let types = function.result_types();
        let (result_params, result_args) = types
            .iter()
            .enumerate()
            .map(|(k, ty)| {
                // The same words as in the run-time errors.
                let name = if types.len() == 1 { "result".to_owned() } else { format!("result{k}") };
                let name = Ident::new(&name, Span::mixed_site());
                let ty = tensor_type(facade, ty);
                (quote!(#name: &mut #ty), quote!(#facade::__private::Arg::write(#name)))
            })
            .unzip();
        let host_types = types.iter().map(|ty| tensor_type(facade, ty));
        let output = match &function.results {
            Results::None => quote!(()),
            Results::One(_) => quote!(#(#host_types)*),
            Results::Tuple(..) => quote!((#(#host_types,)*)),
        };
        let cfgs = function.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect();
        Signature { function, dtypes, params, args, result_params, result_args, output, cfgs }
    }

    /// The hidden trait whose implementations are the instances.
    pub(super) fn dtype_trait(&self) -> Ident {
        format_ident!("__{}_dtypes", unraw(&self.function.name), span = Span::mixed_site())
    }

    /// The first generic dtype, which carries the trait, and the others, which are its parameters.
    pub(super) fn split_dtypes(&self) -> Option<(&Ident, &[Ident])> {
        self.dtypes.split_first()
    }

    /// `<T: __softmax_dtypes>`, or nothing.
    pub(super) fn generics(&self, facade: &TokenStream) -> TokenStream {
        let Some((first, others)) = self.split_dtypes() else { return TokenStream::new() };
        let name = self.dtype_trait();
        let arguments = if others.is_empty() { TokenStream::new() } else { quote!(<#(#others),*>) };
        quote!(<#first: #name #arguments, #(#others: #facade::Element),*>)
    }

    /// `<T>`, or nothing.
    pub(super) fn generic_arguments(&self) -> TokenStream {
        let dtypes = &self.dtypes;
        if dtypes.is_empty() { TokenStream::new() } else { quote!(<#(#dtypes),*>) }
    }
}

/// The name without `r#`.
pub(super) fn unraw(name: &Ident) -> String {
    let text = name.to_string();
    text.strip_prefix("r#").map_or(text.clone(), str::to_owned)
}

fn host_param(facade: &TokenStream, param: &Param) -> (TokenStream, TokenStream) {
    let name = &param.name;
    let arg = quote!(#facade::__private::Arg);
    match &param.kind {
        ParamKind::Tensor { ty, mutable: false } => {
            let ty = tensor_type(facade, ty);
            (quote!(#name: &#ty), quote!(#arg::read(#name)))
        }
        ParamKind::Tensor { ty, mutable: true } => {
            let ty = tensor_type(facade, ty);
            (quote!(#name: &mut #ty), quote!(#arg::write(#name)))
        }
        ParamKind::Scalar(element) => {
            let ty = element_type(facade, element);
            (quote!(#name: #ty), quote!(#arg::scalar(#name)))
        }
        ParamKind::Axis(axis) => {
            let ty = quote_spanned!(axis.span()=> ::core::primitive::usize);
            (quote!(#name: #ty), quote!(#arg::axis(#name)))
        }
    }
}

fn tensor_type(facade: &TokenStream, ty: &TensorType) -> TokenStream {
    let element = element_type(facade, &ty.element);
    let rank = Literal::usize_unsuffixed(ty.axes.len());
    let tensor = quote_spanned!(ty.place.start=> Tensor);
    quote!(#facade::#tensor<#element, #rank>)
}

fn element_type(facade: &TokenStream, element: &ElementType) -> TokenStream {
    match element {
        ElementType::DType(dtype, span) => dtype_type(facade, *dtype, *span),
        ElementType::Generic(name) => quote!(#name),
    }
}

/// The host's type of a dtype.
pub(super) fn dtype_type(facade: &TokenStream, dtype: DType, span: Span) -> TokenStream {
    let name = match dtype {
        DType::F8E4M3 => Ident::new("F8E4M3", span),
        DType::F8E5M2 => Ident::new("F8E5M2", span),
        DType::F16 | DType::Bf16 => Ident::new(dtype.name(), span),
        DType::F32 | DType::F64 | DType::Bool => Ident::new(dtype.name(), span),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => Ident::new(dtype.name(), span),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Ident::new(dtype.name(), span),
    };
    if dtype.is_narrow_float() { quote!(#facade::#name) } else { quote!(::core::primitive::#name) }
}
