//! The simulator: what it computes, what it counts, and that it finds what is wrong and nothing else.

mod simulate {
    mod barriers;
    mod faults;
    mod kernels;
    mod matrices;
    mod programs;
    mod run;
}
