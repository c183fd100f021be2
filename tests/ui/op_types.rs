// messages: mismatched_operands, mismatched_types, unsupported_operand, unsupported_literal, literal_out_of_range, narrow_value_in_scalar

use fuse::fuse;

fuse! {
    #[op]
    fn added(x: f32, n: u32) -> f32 { x + n }

    #[op]
    fn doubled(x: f32) -> f32 { x * 2 }

    #[op]
    fn truncated(x: f32) -> i32 { x }

    #[op]
    fn root(n: i32) -> i32 { n.sqrt() }

    #[op]
    fn text(x: f32) -> f32 { x + "1" }

    #[op]
    fn low_byte(n: u8) -> u8 { n & 256 }

    #[op]
    fn rounded(x: f32) -> f32 {
        let y = x as f16;
        y as f32
    }
}

fn main() {}
