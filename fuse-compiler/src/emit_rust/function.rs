//! Scalar functions: a user's `#[op]` as a Rust function of its own, with its control flow.

use super::literal::{literal, rust_type};
use super::names::{Names, sanitize};
use super::operation::emit_op;
use fuse_ir::dtype::DType;
use fuse_ir::graph::Kernel;
use fuse_ir::id::FnId;
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt};
use fuse_ir::stage::find_faulting_functions;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// What the functions of a kernel need to know of one another.
pub(super) struct FunctionContext<'a> {
    private: &'a TokenStream,
    kernel: &'a Kernel,
    faulting: Vec<bool>,
}

impl<'a> FunctionContext<'a> {
    pub(super) fn new(private: &'a TokenStream, kernel: &'a Kernel) -> Self {
        FunctionContext { private, kernel, faulting: find_faulting_functions(&kernel.functions) }
    }

    /// Whether a call of the function takes a place to record a fault.
    pub(super) fn may_fault(&self, function: FnId) -> bool {
        self.faulting[function.index()]
    }

    /// The expression that calls the function for one of its results; `fault` is an expression of type `&mut bool`.
    pub(super) fn call(
        &self,
        function: FnId,
        args: &[TokenStream],
        result: u32,
        fault: &TokenStream,
    ) -> TokenStream {
        let name = function_name(self.kernel, function);
        let fault = if self.may_fault(function) { quote!(#fault) } else { TokenStream::new() };
        let call = quote!(#name::<F>(#(#args,)* #fault));
        if self.kernel.functions[function.index()].results.len() == 1 {
            return call;
        }
        let field = proc_macro2::Literal::u32_unsuffixed(result);
        quote!(#call.#field)
    }
}

/// The name of a scalar function in generated code.
pub(super) fn function_name(kernel: &Kernel, function: FnId) -> Ident {
    format_ident!("{}_{}", function.to_string(), sanitize(&kernel.functions[function.index()].name))
}

/// One function, generic over `F`, always inlined.
pub(super) fn emit_function(context: &FunctionContext<'_>, k: usize) -> TokenStream {
    let function = &context.kernel.functions[k];
    let mut names = Names::default();
    let variables: Vec<Ident> = function.variables.iter().map(|v| names.distinct(&v.name)).collect();
    let emitter = Emitter { context, function, variables };
    let name = function_name(context.kernel, FnId::from_index(k));
    let parameters = function.parameters as usize;
    let params = (0..parameters).map(|v| {
        let (name, ty) = (&emitter.variables[v], rust_type(function.variables[v].dtype));
        quote!(mut #name: #ty)
    });
    let fault =
        if context.may_fault(FnId::from_index(k)) { quote!(fault: &mut bool) } else { TokenStream::new() };
    let locals =
        (parameters..function.variables.len()).filter(|&v| !is_assigned_once(function, v)).map(|v| {
            let dtype = function.variables[v].dtype;
            let (name, ty) = (&emitter.variables[v], rust_type(dtype));
            let zero = literal(fuse_ir::dtype::Value::zero(dtype));
            quote!(let mut #name: #ty = #zero;)
        });
    let body = emitter.statements(&function.body, true);
    let results: Vec<TokenStream> = function.results.iter().map(|e| emitter.expr(e).0).collect();
    let types: Vec<Ident> = function.results.iter().map(|e| rust_type(emitter.expr(e).1)).collect();
    let (types, results) = match (&types[..], &results[..]) {
        ([ty], [result]) => (quote!(#ty), quote!(#result)),
        _ => (quote!((#(#types),*)), quote!((#(#results),*))),
    };
    let allow = super::lint_allowances();
    let doc = format!(" `{}`", function.name);
    quote! {
        #[doc = #doc]
        #allow
        #[inline(always)]
        fn #name<const F: bool>(#(#params,)* #fault) -> #types {
            #(#locals)*
            #body
            #results
        }
    }
}

/// Whether a local is set by one assignment outside of branches and loops, where a `let` can stand.
fn is_assigned_once(function: &ScalarFn, variable: usize) -> bool {
    let total: usize = function.body.iter().map(|s| count_assignments(s, variable)).sum();
    let outside = |s: &&Stmt| matches!(s, Stmt::Assign { variable: v, .. } if v.index() == variable);
    total == 1 && function.body.iter().filter(outside).count() == 1
}

fn count_assignments(stmt: &Stmt, variable: usize) -> usize {
    match stmt {
        Stmt::Assign { variable: v, .. } => usize::from(v.index() == variable),
        Stmt::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).map(|s| count_assignments(s, variable)).sum()
        }
        // A loop variable is set by the loop, wherever its body may be read from.
        Stmt::For { variable: v, body, .. } => {
            2 * usize::from(v.index() == variable)
                + body.iter().map(|s| count_assignments(s, variable)).sum::<usize>()
        }
    }
}

struct Emitter<'a> {
    context: &'a FunctionContext<'a>,
    function: &'a ScalarFn,
    variables: Vec<Ident>,
}

impl Emitter<'_> {
    fn statements(&self, stmts: &[Stmt], outermost: bool) -> TokenStream {
        stmts.iter().map(|s| self.statement(s, outermost)).collect()
    }

    fn statement(&self, stmt: &Stmt, outermost: bool) -> TokenStream {
        match stmt {
            Stmt::Assign { variable, value } => {
                let (name, value) = (&self.variables[variable.index()], self.expr(value).0);
                let local = variable.index() >= self.function.parameters as usize;
                if outermost && local && is_assigned_once(self.function, variable.index()) {
                    let ty = rust_type(self.function.variables[variable.index()].dtype);
                    quote!(let #name: #ty = #value;)
                } else {
                    quote!(#name = #value;)
                }
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.expr(condition).0;
                let (then, otherwise) = (self.statements(then, false), self.statements(otherwise, false));
                if otherwise.is_empty() {
                    quote!(if #condition { #then })
                } else {
                    quote!(if #condition { #then } else { #otherwise })
                }
            }
            Stmt::For { variable, start, end, body } => {
                let (name, ty) = (
                    &self.variables[variable.index()],
                    rust_type(self.function.variables[variable.index()].dtype),
                );
                let (start, end) =
                    (literal(fuse_ir::dtype::Value::I64(*start)), literal(fuse_ir::dtype::Value::I64(*end)));
                let body = self.statements(body, false);
                quote!(for i in #start..#end { #name = i as #ty; #body })
            }
        }
    }

    /// The expression and its dtype.
    fn expr(&self, expr: &Expr) -> (TokenStream, DType) {
        let private = self.context.private;
        match expr {
            Expr::Constant(v) => (literal(*v), v.dtype().compute()),
            Expr::Variable(v) => {
                let name = &self.variables[v.index()];
                (quote!(#name), self.function.variables[v.index()].dtype)
            }
            Expr::Op(op, args) => {
                let (args, dtypes): (Vec<TokenStream>, Vec<DType>) =
                    args.iter().map(|a| self.expr(a)).unzip();
                let dtype = op.result_dtype(&dtypes).map_or(DType::F32, DType::compute);
                if op.may_fault(dtypes[0]) {
                    let value = emit_op(private, *op, &dtypes, &[quote!(a), quote!(i)]);
                    let (a, b) = (&args[0], &args[1]);
                    let checked = quote!({ let (a, i) = (#a, #b); *fault |= i == 0; #value });
                    return (checked, dtype);
                }
                // A branch costs nothing here: both sides are values that LLVM turns into a select.
                let value = emit_op(private, *op, &dtypes, &args);
                (if *op == ScalarOp::Select { quote!((#value)) } else { value }, dtype)
            }
            Expr::Call { function, args, result } => {
                let args: Vec<TokenStream> = args.iter().map(|a| self.expr(a).0).collect();
                let fault = quote!(&mut *fault);
                (self.context.call(*function, &args, *result, &fault), self.result_dtype(*function, *result))
            }
        }
    }

    fn result_dtype(&self, function: FnId, result: u32) -> DType {
        let callee = &self.context.kernel.functions[function.index()];
        let emitter = Emitter {
            context: self.context,
            function: callee,
            variables: vec![format_ident!("_x"); callee.variables.len()],
        };
        callee.results.get(result as usize).map_or(DType::F32, |e| emitter.expr(e).1)
    }
}
