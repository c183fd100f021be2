//! A transpose through a padded tile of shared memory.

use crate::dtype::DType;
use crate::kernel_ir::build::{Builder, block_x, thread_x};
use crate::kernel_ir::{Builtin, Expr, Kernel, KernelError, Size, Usage};

/// `y[c, r] = x[r, c]` of f32, both contiguous. Parameters: `x`, `y`, `rows`, `cols`.
///
/// # Errors
/// Never; the verifier's result.
pub fn transpose() -> Result<Kernel, KernelError> {
    let mut b = Builder::new("transpose");
    b.kernel_mut().comment = "tiles of 32 x 32; rows of 33 keep columns in distinct banks".into();
    let x = b.pointer("x", DType::F32, Usage::Read);
    let y = b.pointer("y", DType::F32, Usage::Write);
    let rows = b.scalar("rows", DType::U32);
    let cols = b.scalar("cols", DType::U32);
    let tiles = |n| Size::from(n).ceil_div(32);
    b.launch([tiles(cols), tiles(rows), 1.into()], [32, 8, 1], 32 * 33 * 4);
    let tile = b.view("tile", DType::F32, 0, 32 * 33);

    let wide = |e: Expr| e.cast(DType::U64);
    let thread_y = Expr::from(Builtin::Thread(1));
    let top = b.bind("top", Expr::from(Builtin::Block(1)) * 32u32);
    let left = b.bind("left", block_x() * 32u32);
    b.unrolled("step", 4, |b, step| {
        let y_in = b.bind("y_in", &thread_y + &step * 8u32);
        let (r, c) = (b.bind("r", &top + &y_in), b.bind("c", &left + thread_x()));
        let inside = r.clone().lt(rows) & c.clone().lt(cols);
        b.if_then(inside, |b| {
            let value = b.load("value", x, wide(r) * wide(cols.into()) + wide(c), None);
            b.store(tile, y_in * 33u32 + thread_x(), value, None);
        });
    });
    b.block_barrier();
    b.unrolled("step", 4, |b, step| {
        let y_out = b.bind("y_out", &thread_y + &step * 8u32);
        let (r, c) = (b.bind("r", &top + thread_x()), b.bind("c", &left + &y_out));
        let inside = r.clone().lt(rows) & c.clone().lt(cols);
        b.if_then(inside, |b| {
            let value = b.load("value", tile, thread_x() * 33u32 + y_out, None);
            b.store(y, wide(c) * wide(rows.into()) + wide(r), value, None);
        });
    });
    b.finish()
}
