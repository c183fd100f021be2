// messages: early_return_in_scalar, unbounded_loop, loop_jump, loop_over_other_than_range, loop_bound_not_constant, invalid_assignment_target, item_in_scalar

use fuse::fuse;

fuse! {
    #[op]
    fn early(x: f32) -> f32 {
        if x < 0.0 {
            return 0.0;
        }
        x
    }

    #[op]
    fn halved(x: f32) -> f32 {
        let mut y = x;
        while y > 1.0 {
            y *= 0.5;
        }
        y
    }

    #[op]
    fn first(x: f32) -> f32 {
        for i in 0..4 {
            break;
        }
        x
    }

    #[op]
    fn backwards(x: f32) -> f32 {
        for i in (0..4).rev() {}
        x
    }

    #[op]
    fn counted(n: i32) -> i32 {
        let mut s = 0;
        for i in 0..n {
            s += i;
        }
        s
    }

    #[op]
    fn assigned(x: f32) -> f32 {
        x.abs() = 1.0;
        x
    }

    #[op]
    fn with_item(x: f32) -> f32 {
        fn inner() {}
        x
    }
}

fn main() {}
