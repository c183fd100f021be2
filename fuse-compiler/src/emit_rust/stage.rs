//! One stage as a function: slices in, slices out, one loop.

use super::emit_versions;
use super::function::FunctionContext;
use super::literal::{literal, rust_type};
use super::names::Names;
use super::operation::emit_op;
use super::segment::{BLOCK, Segment, cut_into_segments};
use fuse_ir::dtype::DType;
use fuse_ir::graph::{Kernel, MapFn};
use fuse_ir::id::ValueId;
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::{BodyOp, ScheduledGroup};
use fuse_ir::stage::{Scalar, Stage, StagedGroup};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// The body of a stage and its versions.
pub(super) fn emit_stage(
    private: &TokenStream,
    kernel: &Kernel,
    group: &ScheduledGroup,
    staged: &StagedGroup,
    stage: &Stage,
    name: &Ident,
) -> TokenStream {
    let emitter = StageEmitter {
        private,
        kernel,
        group,
        stage,
        functions: FunctionContext::new(private, kernel),
        names: Names::default(),
    };
    let _ = staged;
    emitter.emit(name)
}

struct StageEmitter<'a> {
    private: &'a TokenStream,
    kernel: &'a Kernel,
    group: &'a ScheduledGroup,
    stage: &'a Stage,
    functions: FunctionContext<'a>,
    names: Names,
}

impl StageEmitter<'_> {
    fn emit(mut self, name: &Ident) -> TokenStream {
        let stage = self.stage;
        let inputs: Vec<Ident> = stage.inputs.iter().map(|&v| self.name(v)).collect();
        let input_types: Vec<Ident> = stage.inputs.iter().map(|&v| self.rust_type(v)).collect();
        let scalars: Vec<Ident> = stage.scalars.iter().map(|(s, _)| self.scalar_name(s)).collect();
        let scalar_types: Vec<Ident> = stage.scalars.iter().map(|(_, dtype)| rust_type(*dtype)).collect();
        let prelude: Vec<TokenStream> = stage.prelude.iter().map(|&v| self.binding(v)).collect();
        let outputs: Vec<Ident> = stage
            .outputs
            .iter()
            .map(|&v| {
                let name = self.name(v).to_string();
                self.names.distinct(&format!("{}_out", name.trim_start_matches("r#")))
            })
            .collect();
        let output_types: Vec<Ident> = stage.outputs.iter().map(|&v| self.rust_type(v)).collect();
        let segments = cut_into_segments(self.kernel, self.group, stage);
        let loops = match &segments[..] {
            [whole] => self.whole_loop(whole, &inputs, &outputs),
            _ => self.blocked_loops(&segments, &inputs, &outputs),
        };
        let faults: Vec<Ident> = stage.faults.iter().map(|v| format_ident!("first_fault_{}", v.0)).collect();
        let (returns, start_faults, give_faults) = if faults.is_empty() {
            (TokenStream::new(), TokenStream::new(), TokenStream::new())
        } else {
            let n = faults.len();
            (quote!(-> [usize; #n]), quote!(#(let mut #faults = usize::MAX;)*), quote!([#(#faults),*]))
        };
        let body = format_ident!("{name}_body");
        let versions = self.versions(name);
        let allow = super::lint_allowances();
        let doc = format!(" `{}`, {} {}", self.kernel.name, self.group.id, stage.name);
        quote! {
            #[doc = #doc]
            #allow
            #[inline(always)]
            fn #body<const F: bool>(
                len: usize,
                #(#inputs: &[#input_types],)*
                #(#scalars: #scalar_types,)*
                #(#outputs: &mut [#output_types],)*
            ) #returns {
                #(let #inputs = &#inputs[..len];)*
                #(let #outputs = &mut #outputs[..len];)*
                #(#prelude)*
                #start_faults
                #loops
                #give_faults
            }
            #versions
        }
    }

    /// One loop over all positions.
    fn whole_loop(&mut self, whole: &Segment, inputs: &[Ident], outputs: &[Ident]) -> TokenStream {
        let values: Vec<TokenStream> = whole.values.iter().map(|&v| self.binding(v)).collect();
        let results: Vec<TokenStream> = self.stage.outputs.iter().map(|&v| self.reference(v)).collect();
        quote! {
            for i in 0..len {
                #(let #inputs = #inputs[i];)*
                #(#values)*
                #(#outputs[i] = #results;)*
            }
        }
    }

    /// A loop over blocks of positions, in each a loop for every segment.
    fn blocked_loops(&mut self, segments: &[Segment], inputs: &[Ident], outputs: &[Ident]) -> TokenStream {
        let block = Literal::usize_unsuffixed(BLOCK);
        let arrays: Vec<(ValueId, Ident)> = segments
            .iter()
            .flat_map(|s| s.keeps.iter().copied())
            .map(|v| {
                let name = self.name(v).to_string();
                (v, self.names.distinct(&format!("{}_block", name.trim_start_matches("r#"))))
            })
            .collect();
        let array_of = |v: &ValueId| arrays.iter().find(|(u, _)| u == v).map(|(_, name)| name.clone());
        let mut loops = TokenStream::new();
        for (k, segment) in segments.iter().enumerate() {
            let (takes, taken_from): (Vec<Ident>, Vec<Ident>) =
                segment.takes.iter().filter_map(|v| Some((self.name(*v), array_of(v)?))).unzip();
            let values: Vec<TokenStream> = segment.values.iter().map(|&v| self.binding(v)).collect();
            let (keeps, kept_in): (Vec<Ident>, Vec<Ident>) =
                segment.keeps.iter().filter_map(|v| Some((self.name(*v), array_of(v)?))).unzip();
            // Outputs that no segment computes are inputs handed on, or the same everywhere: the last one stores them.
            let stored_here = |v: &ValueId| match segments.iter().position(|s| s.values.contains(v)) {
                Some(computed) => computed == k,
                None => k + 1 == segments.len(),
            };
            let mut stores = TokenStream::new();
            for (v, output) in self.stage.outputs.iter().zip(outputs) {
                if stored_here(v) {
                    let result = self.reference(*v);
                    stores.extend(quote!(#output[j] = #result;));
                }
            }
            loops.extend(quote! {
                for j in 0..n {
                    let i = start + j;
                    #(let #inputs = #inputs[j];)*
                    #(let #takes = #taken_from[j];)*
                    #(#values)*
                    #(#kept_in[j] = #keeps;)*
                    #stores
                }
            });
        }
        let names = arrays.iter().map(|(_, name)| name);
        let types = arrays.iter().map(|(v, _)| self.rust_type(*v));
        quote! {
            #(let mut #names = [<#types as ::core::default::Default>::default(); #block];)*
            let mut start = 0;
            while start < len {
                let n = ::core::cmp::Ord::min(len - start, #block);
                #(let #inputs = &#inputs[start..][..n];)*
                #(let #outputs = &mut #outputs[start..][..n];)*
                #loops
                start += #block;
            }
        }
    }

    fn versions(&self, name: &Ident) -> TokenStream {
        let count = |n: usize| (0..n).map(Literal::usize_unsuffixed).collect::<Vec<_>>();
        let stage = self.stage;
        let (inputs, scalars, outputs) =
            (count(stage.inputs.len()), count(stage.scalars.len()), count(stage.outputs.len()));
        emit_versions(self.private, name, |callee| {
            let call = quote!(#callee(
                t.len(), #(t.input(#inputs),)* #(t.scalar(#scalars),)* #(t.output(#outputs),)*
            ));
            if stage.faults.is_empty() {
                quote!(#call;)
            } else {
                quote!(let faults = #call; t.report_faults(&faults);)
            }
        })
    }

    fn name(&mut self, v: ValueId) -> Ident {
        self.names.value(self.kernel, self.group, v)
    }

    fn rust_type(&self, v: ValueId) -> Ident {
        rust_type(self.group.value(v).dtype)
    }

    fn scalar_name(&mut self, scalar: &Scalar) -> Ident {
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
    fn reference(&mut self, v: ValueId) -> TokenStream {
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
    fn binding(&mut self, v: ValueId) -> TokenStream {
        let BodyOp::Map { function, args } = &self.group.value(v).op else { return TokenStream::new() };
        let dtypes: Vec<DType> = args.iter().map(|a| self.group.value(*a).dtype).collect();
        let args: Vec<TokenStream> = args.iter().map(|a| self.reference(*a)).collect();
        let faults = self.stage.faults.contains(&v);
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
