//! Lowering: plans as kernels, run on the simulator against the reference.

mod lower {
    mod contractions;
    mod golden;
    mod noise;
    mod pieces;
    mod streamed;
}
