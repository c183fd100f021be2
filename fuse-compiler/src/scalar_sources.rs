//! The scalar items of a block and of the prelude, as the scalar stage takes them.

use crate::import::{Import, Unit};
use crate::prelude::{UsedOp, collect_used_ops};
use crate::scalar::{ConstSource, FnSource, Origin, ReduceArgs, ScalarItems};
use crate::syntax::{Block, Item};
use std::collections::BTreeSet;

/// The scalar items of a block, as written and as lowered.
#[derive(Clone, Copy)]
pub struct ScalarSources<'a> {
    /// Ops, those of the prelude included.
    pub ops: &'a [FnSource<'a>],
    /// Combiners.
    pub reducers: &'a [(ReduceArgs, FnSource<'a>)],
    /// What they are lowered to.
    pub items: &'a ScalarItems,
}

/// The scalar items of imports.
#[derive(Default)]
pub struct ImportedItems<'a> {
    /// Ops.
    pub ops: Vec<FnSource<'a>>,
    /// Combiners.
    pub reducers: Vec<(ReduceArgs, FnSource<'a>)>,
    /// Constants.
    pub consts: Vec<ConstSource<'a>>,
    /// Items with errors, which are reported where they are defined.
    pub poisoned: BTreeSet<String>,
    /// Ops of the prelude that imports use.
    pub prelude: Vec<UsedOp>,
}

/// The scalar items of imports. `in_f64` asks for copies of the prelude's ops for f64, as for the block itself.
pub fn collect_imports(imports: &[Import], in_f64: bool) -> ImportedItems<'_> {
    let mut items = ImportedItems::default();
    for import in imports {
        let origin = Origin::Import(import.place);
        import.for_each_unit(&mut |key, unit| collect_unit(key, unit, origin, in_f64, &mut items));
    }
    items
}

fn collect_unit<'a>(key: &str, unit: &'a Unit, origin: Origin, in_f64: bool, items: &mut ImportedItems<'a>) {
    if !unit.is_usable() {
        items.poisoned.insert(key.to_owned());
    }
    let scope = Unit::scope(key);
    let source = |item: &'a syn::ItemFn| FnSource {
        name: unit.key_of(key, &item.sig.ident.to_string()),
        scope: scope.clone(),
        item,
        origin,
    };
    for item in &unit.block.items {
        match item {
            Item::Op(op) => items.ops.push(source(&op.function)),
            Item::Reduce(reduce) => {
                let args = ReduceArgs { identity: reduce.identity.clone(), ordered: reduce.ordered };
                items.reducers.push((args, source(&reduce.function)));
            }
            Item::Const(constant) => {
                items.consts.push(ConstSource { scope: scope.clone(), item: &constant.item, origin });
            }
            Item::Fn(_) | Item::Use(_) => {}
            Item::Broken(function) => {
                items.poisoned.insert(unit.key_of(key, &function.name.to_string()));
            }
        }
    }
    items.prelude.extend(collect_used_ops(&unit.items, &unit.block, unit.import_paths(), &scope, in_f64));
}

/// The ops of the prelude as sources.
pub fn prelude_sources(prelude: &[UsedOp]) -> impl Iterator<Item = FnSource<'_>> {
    prelude.iter().map(|op| FnSource {
        name: op.name.clone(),
        scope: op.scope.clone(),
        item: &op.item,
        origin: Origin::Prelude,
    })
}

/// The ops of the block, then those of the prelude that it uses.
pub fn collect_ops<'a>(block: &'a Block, prelude: &'a [UsedOp]) -> Vec<FnSource<'a>> {
    let own = block.ops().map(|op| FnSource {
        name: op.function.sig.ident.to_string(),
        scope: String::new(),
        item: &op.function,
        origin: Origin::Block,
    });
    own.chain(prelude_sources(prelude)).collect()
}

/// The combiners of the block.
pub fn collect_reducers(block: &Block) -> Vec<(ReduceArgs, FnSource<'_>)> {
    block
        .reduces()
        .map(|reduce| {
            let args = ReduceArgs { identity: reduce.identity.clone(), ordered: reduce.ordered };
            let source = FnSource {
                name: reduce.function.sig.ident.to_string(),
                scope: String::new(),
                item: &reduce.function,
                origin: Origin::Block,
            };
            (args, source)
        })
        .collect()
}

/// The constants of the block.
pub fn collect_consts(block: &Block) -> Vec<ConstSource<'_>> {
    let own = |item| ConstSource { scope: String::new(), item, origin: Origin::Block };
    block.consts().map(|constant| own(&constant.item)).collect()
}
