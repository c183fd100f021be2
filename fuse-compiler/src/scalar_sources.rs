//! The scalar items of a block and of the prelude, as the scalar stage takes them.

use crate::prelude::UsedOp;
use crate::scalar::{FnSource, Origin, ReduceArgs, ScalarItems};
use crate::syntax::Block;

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

/// The ops of the block, then those of the prelude that it uses.
pub fn collect_ops<'a>(block: &'a Block, prelude: &'a [UsedOp]) -> Vec<FnSource<'a>> {
    let own = block.ops().map(|op| FnSource {
        name: op.function.sig.ident.to_string(),
        scope: String::new(),
        item: &op.function,
        origin: Origin::Block,
    });
    let used = prelude.iter().map(|op| FnSource {
        name: op.name.clone(),
        scope: op.scope.to_owned(),
        item: &op.item,
        origin: Origin::Prelude,
    });
    own.chain(used).collect()
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
pub fn collect_consts(block: &Block) -> Vec<&syn::ItemConst> {
    block.consts().map(|constant| &constant.item).collect()
}
