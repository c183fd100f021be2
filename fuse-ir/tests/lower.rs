//! Lowering: plans as kernels, run thread by thread against the reference.

mod lower {
    mod call;
    mod golden;
    mod machine;
    mod random;
}
