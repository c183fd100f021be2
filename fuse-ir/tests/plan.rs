//! The planner on kernels built by hand: which fusions happen, which do not, and what the plan says of them.

mod plan {
    mod build;
    mod check;
    mod contractions;
    mod limits;
    mod patterns;
    mod refusals;
    mod remedies;
    mod search;
    mod streams;
    mod targets;
    mod work;
}
