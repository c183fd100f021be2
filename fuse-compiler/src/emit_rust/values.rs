//! The values of a body as Rust: what they are called, and the `let` that computes each.

use super::function::FunctionContext;
use super::literal::{literal, rust_type};
use super::names::Names;
use super::operation::emit_op;
use fuse_ir::dtype::DType;
use fuse_ir::graph::{Kernel, MapFn, Reducer};
use fuse_ir::id::ValueId;
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::{BodyOp, ScheduledGroup};
use fuse_ir::stage::Scalar;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// Emits the values of one generated function.
pub(super) struct Values<'a> {
    pub(super) private: &'a TokenStream,
    pub(super) kernel: &'a Kernel,
    pub(super) group: &'a ScheduledGroup,
    /// Values whose first fault is noted.
    pub(super) faults: &'a [ValueId],
    functions: FunctionContext<'a>,
    names: Names,
}

impl<'a> Values<'a> {
    pub(super) fn new(
        private: &'a TokenStream,
        kernel: &'a Kernel,
        group: &'a ScheduledGroup,
        faults: &'a [ValueId],
    ) -> Values<'a> {
        let functions = FunctionContext::new(private, kernel);
        Values { private, kernel, group, faults, functions, names: Names::default() }
    }

    /// A name that says what of a value it is.
    pub(super) fn name_beside(&mut self, v: ValueId, what: &str) -> Ident {
        let name = self.name(v).to_string();
        self.names.distinct(&format!("{}_{what}", name.trim_start_matches("r#")))
    }

    /// The runtime's reducer of a reduced value that a loop takes along: the name of its type.
    pub(super) fn reducer(&self, v: ValueId) -> &'static str {
        let BodyOp::Reduce { reducer, .. } = &self.group.value(v).op else { return "" };
        match reducer {
            Reducer::Sum => "Sum",
            Reducer::Prod => "Prod",
            Reducer::Max => "Max",
            Reducer::Min => "Min",
            Reducer::Any => "Any",
            Reducer::All => "All",
            // The engine's; see `reduced_along`.
            Reducer::ArgMax | Reducer::ArgMin | Reducer::Dot | Reducer::User { .. } => "",
        }
    }

    pub(super) fn name(&mut self, v: ValueId) -> Ident {
        self.names.value(self.kernel, self.group, v)
    }

    pub(super) fn rust_type(&self, v: ValueId) -> Ident {
        rust_type(self.group.value(v).dtype)
    }

    pub(super) fn scalar_name(&mut self, scalar: &Scalar) -> Ident {
        let same = |v: &ValueId| match (&self.group.value(*v).op, scalar) {
            (BodyOp::Param(p), Scalar::Param(q)) => p == q,
            (BodyOp::Extent(e), Scalar::Extent(f)) => e == f,
            (_, Scalar::Value(u)) => v == u,
            _ => false,
        };
        let first = (0..self.group.values.len()).map(ValueId::from_index).find(same);
        match first {
            Some(v) => self.name(v),
            None => self.names.distinct("scalar"),
        }
    }

    /// The value where it is used: a constant in place, anything else by its name.
    pub(super) fn reference(&mut self, v: ValueId) -> TokenStream {
        match &self.group.value(v).op {
            BodyOp::Constant(value) => literal(*value),
            BodyOp::Param(p) => {
                let name = self.scalar_name(&Scalar::Param(*p));
                quote!(#name)
            }
            BodyOp::Extent(e) => {
                let name = self.scalar_name(&Scalar::Extent(e.clone()));
                quote!(#name)
            }
            BodyOp::Load(_) | BodyOp::Map { .. } | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => {
                let name = self.name(v);
                quote!(#name)
            }
        }
    }

    /// `let name: type = value;`
    pub(super) fn binding(&mut self, v: ValueId) -> TokenStream {
        let BodyOp::Map { function, args } = &self.group.value(v).op else { return TokenStream::new() };
        let dtypes: Vec<DType> = args.iter().map(|a| self.group.value(*a).dtype).collect();
        let args: Vec<TokenStream> = args.iter().map(|a| self.reference(*a)).collect();
        let faults = self.faults.contains(&v);
        let first = format_ident!("first_fault_{}", v.0);
        let note = |bad: TokenStream| quote!(#first = ::core::cmp::Ord::min(#first, if #bad { i } else { usize::MAX }););
        let (before, value, after) = match function {
            MapFn::Op(op) => {
                let value = self.op(v, *op, &dtypes, &args);
                let divisor = args.get(1).filter(|_| faults);
                let after = divisor.map(|b| note(quote!(#b == 0))).unwrap_or_default();
                (TokenStream::new(), value, after)
            }
            MapFn::Call { function, result } => {
                let value = self.functions.call(*function, &args, *result, &quote!(&mut fault));
                let may_fault = self.functions.may_fault(*function);
                let before = if may_fault { quote!(let mut fault = false;) } else { TokenStream::new() };
                let after = if faults { note(quote!(fault)) } else { TokenStream::new() };
                (before, value, after)
            }
        };
        let (name, ty) = (self.name(v), self.rust_type(v));
        quote!(#before let #name: #ty = #value; #after)
    }

    fn op(&self, v: ValueId, op: ScalarOp, dtypes: &[DType], args: &[TokenStream]) -> TokenStream {
        // A store rounds to its dtype, exactly as the cast would: a cast that is only stored is left to the store.
        if let ScalarOp::Cast(to) = op
            && to.is_narrow_float()
            && dtypes[0].compute() == DType::F32
            && self.is_only_stored(v)
        {
            return args[0].clone();
        }
        emit_op(self.private, op, dtypes, args)
    }

    fn is_only_stored(&self, v: ValueId) -> bool {
        let group = self.group;
        let stored = group.stores.iter().any(|s| s.value == v && s.dtype == group.value(v).dtype);
        let buffered = group.passes.iter().any(|p| p.buffered.contains(&v));
        let read = (0..group.values.len()).any(|u| group.reads(ValueId::from_index(u)).contains(&v));
        stored && !buffered && !read
    }
}
