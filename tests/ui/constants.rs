// messages: circular_constant, tuple_constant, narrow_constant, division_by_zero_in_constant

use fuse::fuse;

fuse! {
    const FIRST: f32 = SECOND + 1.0;
    const SECOND: f32 = FIRST * 2.0;
    const PAIR: (f32, f32) = (1.0, 2.0);
    const HALF: f16 = 0.5;
    const NOTHING: i32 = 1 / 0;
}

fn main() {}
