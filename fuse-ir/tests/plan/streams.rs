//! Contractions of normalised weights: which are streamed, which are not and why. Every plan is interpreted.

use super::build::Build;
use super::check::{check, find_refused, is_taken, plan};
use fuse_ir::dtype::DType;
use fuse_ir::graph::{Kernel, Op, Reducer};
use fuse_ir::id::NodeId;
use fuse_ir::plan::{PlanOptions, Refusal, Rule, plan_kernel};
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::ScheduleKind;
use fuse_ir::schedule::streamed::{Source, cut_streamed};
use fuse_ir::target::Target;

/// `weights(scores)` of a head, times values.
fn attention(name: &str, weights: impl FnOnce(&mut Build, NodeId, fuse_ir::id::AxisId) -> NodeId) -> Kernel {
    let mut b = Build::new(name);
    let [s, t, d, e] = ["S", "T", "D", "E"].map(|a| b.axis(a));
    let (q, k, v) = (b.f32("q", &[s, d]), b.f32("k", &[t, d]), b.f32("v", &[t, e]));
    let scores = b.dot(q, k, &[d]);
    let weights = weights(&mut b, scores, t);
    let out = b.dot(weights, v, &[t]);
    b.result(out, &[s, e]);
    b.build()
}

#[test]
fn attention_is_one_launch() {
    let kernel = attention("attention", |b, x, t| b.softmax(x, &[t]));
    let plan = check(&kernel, 1, 11);
    assert!(is_taken(&plan, Rule::Streaming), "{}", plan.display(&kernel));
    let group = plan.groups().next().expect("a group");
    assert_eq!(group.kind, ScheduleKind::Streamed);
    // Queries, keys, values and the result, and nothing of the scores.
    assert_eq!(plan.assume(&plan.bytes), 4 * 4 * 1024 * 1024);
    assert!(plan.temps.iter().all(|t| t.streamed));
    let parts = cut_streamed(group).expect("parts");
    assert_eq!((parts.exponent, parts.left), (Some(0), (Source::Exponential, true)));
    assert!(parts.weights.is_none() && parts.admitted.is_none());
}

#[test]
fn softmax_of_given_scores_streams_too() {
    let mut b = Build::new("pooled");
    let [s, t, e] = ["S", "T", "E"].map(|a| b.axis(a));
    let (x, v) = (b.f32("x", &[s, t]), b.f32("v", &[t, e]));
    let weights = b.softmax(x, &[t]);
    let out = b.dot(weights, v, &[t]);
    b.result(out, &[s, e]);
    check(&b.build(), 1, 10);
}

#[test]
fn norms_before_a_product_are_not_streamed() {
    let mut b = Build::new("norm_linear");
    let [s, t, e] = ["S", "T", "E"].map(|a| b.axis(a));
    let (x, w) = (b.f32("x", &[s, t]), b.f32("w", &[t, e]));
    let square = b.mul(x, x);
    let sum = b.sum(square, &[t]);
    let scale = b.unary(ScalarOp::Rsqrt, sum);
    let normal = b.mul(x, scale);
    let out = b.dot(normal, w, &[t]);
    b.result(out, &[s, e]);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert!(plan.groups().all(|g| g.kind != ScheduleKind::Streamed), "{}", plan.display(&kernel));
}

#[test]
fn what_is_no_factor_is_refused() {
    // A power of a weight is not linear in it.
    let kernel = attention("squared", |b, x, t| {
        let p = b.softmax(x, &[t]);
        b.mul(p, p)
    });
    let plan = plan(&kernel);
    assert!(plan.launch_count() > 1);
    let refused = find_refused(&plan, Refusal::NotStreamed).expect("a refusal");
    assert!(refused.reason.contains("not the weight times a factor"), "{}", refused.reason);
}

#[test]
fn other_statistics_are_refused() {
    let kernel = attention("least", |b, x, t| {
        let least = b.b.reduce(Reducer::Min, x, &[t]);
        let shifted = b.sub(x, least);
        let p = b.unary(ScalarOp::Exp, shifted);
        let sum = b.sum(p, &[t]);
        b.div(p, sum)
    });
    let plan = plan(&kernel);
    assert!(plan.launch_count() > 1);
    let refused = find_refused(&plan, Refusal::NotStreamed).expect("a refusal");
    assert!(refused.reason.contains("needs whole rows"), "{}", refused.reason);
}

/// A factor under a selection counts only where something is selected.
#[test]
fn factors_under_selections_are_counted() {
    let kernel = attention("masked_weights", |b, x, t| {
        let p = b.softmax(x, &[t]);
        let i = b.b.push(Op::Index(t));
        let two = b.integer(2);
        let seen = b.map(ScalarOp::Lt, &[i, two]);
        let zero = b.number(0.0);
        b.map(ScalarOp::Select, &[seen, p, zero])
    });
    let plan = plan(&kernel);
    let group = plan.groups().next().expect("a group");
    assert_eq!(group.kind, ScheduleKind::Streamed, "{}", plan.display(&kernel));
    let parts = cut_streamed(group).expect("parts");
    let counted = parts.sums.iter().filter(|s| !s.scaled).count();
    assert_eq!(counted, 1, "how many are selected");
    assert!(parts.weights.is_some());
}

/// A mask on scores is decided for whole tiles: there is a maker of tiles without it.
#[test]
fn masks_of_scores_have_an_admitted_form() {
    let kernel = attention("masked", |b, x, t| {
        let i = b.b.push(Op::Index(t));
        let two = b.integer(2);
        let seen = b.map(ScalarOp::Lt, &[i, two]);
        let low = b.number(f32::NEG_INFINITY);
        let x = b.map(ScalarOp::Select, &[seen, x, low]);
        b.softmax(x, &[t])
    });
    let plan = plan(&kernel);
    let parts = cut_streamed(plan.groups().next().expect("a group")).expect("parts");
    let admitted = parts.admitted.expect("an admitted form");
    assert_eq!(admitted.when.len(), 1);
    assert!(admitted.when[0].1, "where the condition holds");
    assert!(admitted.group.operands.is_empty(), "it reads no position");
    assert_eq!(parts.scores.epilogue.value(admitted.when[0].0).dtype, DType::Bool);
}

/// Attention of many heads, with a mask that has some of the axes, added or selected by.
fn many_heads(
    name: &str,
    [heads, rows, keys, width]: [u64; 4],
    mask: &[usize],
    dtype: DType,
    selects: bool,
) -> Kernel {
    let mut b = Build::new(name);
    let axes = [("B", heads / 8), ("H", 8), ("S", rows), ("T", keys), ("D", width)];
    let axes = axes.map(|(name, extent)| b.assumed(name, extent));
    let [batch, h, s, t, d] = axes;
    let [q, k, v] = [("q", s), ("k", t), ("v", t)].map(|(name, of)| {
        let x = b.b.tensor(name, dtype, &[batch, h, of, d]);
        if dtype == DType::F32 { x } else { b.map(ScalarOp::Cast(DType::F32), &[x]) }
    });
    let scores = b.dot(q, k, &[d]);
    let scores = if mask.is_empty() {
        scores
    } else {
        let on: Vec<_> = mask.iter().map(|k| axes[*k]).collect();
        if selects {
            let seen = b.b.tensor("seen", DType::Bool, &on);
            let low = b.number(f32::NEG_INFINITY);
            b.map(ScalarOp::Select, &[seen, scores, low])
        } else {
            let mask = b.f32("mask", &on);
            b.add(scores, mask)
        }
    };
    let weights = b.softmax(scores, &[t]);
    let out = b.dot(weights, v, &[t]);
    b.result(out, &[batch, h, s, d]);
    b.build()
}

/// One launch is the best on every target without a contract, however small the heads: the scores would cost their bytes.
#[test]
fn small_heads_with_masks_are_one_launch_everywhere() {
    let masks: [&[usize]; 5] = [&[], &[2, 3], &[0, 2, 3], &[1, 2, 3], &[0, 1, 2, 3]];
    let sizes = [[512, 64, 64, 64], [512, 16, 16, 64], [64, 128, 128, 64], [512, 64, 64, 128]];
    let mut wrong = Vec::new();
    for (sizes, mask) in sizes.into_iter().flat_map(|sizes| masks.map(|mask| (sizes, mask))) {
        for (dtype, selects) in [(DType::F32, false), (DType::F32, true), (DType::F16, false)] {
            let kernel = many_heads("many_heads", sizes, mask, dtype, selects);
            for target in Target::all() {
                let plan = plan_kernel(&kernel, &target, &PlanOptions::default()).expect("a plan");
                let launches = plan.launch_count();
                if launches > 1 {
                    wrong.push(format!("{sizes:?} {dtype} {mask:?} {selects} {}: {launches}", target.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A contract of one launch leaves none to put ranges of keys together on a GPU; the plan says so, with bytes and time. On
/// the CPU, and where there are enough blocks, nothing is lost.
#[test]
fn a_contract_that_keeps_ranges_from_blocks_is_told() {
    let told = |sizes, launches, target: &str| {
        let mut kernel = many_heads("decode", sizes, &[], DType::F32, false);
        kernel.launches = launches;
        let target = Target::gpu(target).unwrap_or_else(Target::cpu);
        let plan = plan_kernel(&kernel, &target, &PlanOptions::default()).expect("a plan");
        assert!(plan.launch_count() == 1 || launches != Some(1), "{}", plan.display(&kernel));
        plan.decisions.into_iter().find(|d| d.reason.contains("ranges of keys with blocks of their own"))
    };
    let decode = [8, 1, 4096, 64];
    let found = told(decode, Some(1), "sm_80").expect("a decision");
    assert!(found.reason.contains("leaves none to put together 8 ranges"), "{}", found.reason);
    assert!(found.seconds.0 > found.seconds.1, "{found:?}");
    assert!(found.bytes.1 > found.bytes.0 && found.bytes.0 > 0, "{found:?}");
    assert_eq!(told(decode, None, "sm_80"), None);
    assert_eq!(told(decode, Some(2), "sm_80"), None);
    assert_eq!(told(decode, Some(1), "cpu"), None);
    assert_eq!(told([512, 64, 4096, 64], Some(1), "sm_80"), None);
}
