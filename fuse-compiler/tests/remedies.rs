//! Refused fusions as text: each kernel is planned, the remedy of its decision is applied to the text, and the fusion happens.

use fuse_compiler::diagnostic::Diagnostics;
use fuse_compiler::pipeline::plan_block;
use fuse_compiler::planning::PlannedKernel;
use fuse_ir::plan::{Decision, Refusal};

/// The only kernel of a block, planned.
#[track_caller]
fn plan(source: &str) -> PlannedKernel {
    let mut diagnostics = Diagnostics::new();
    let mut planned = plan_block(source.parse().expect("tokens"), &mut diagnostics);
    let errors: Vec<String> = diagnostics.iter().map(|error| error.text()).collect();
    assert!(errors.is_empty(), "{source}\n{errors:#?}");
    planned.swap_remove(0)
}

/// Does what a remedy says, by its words and the text alone.
#[track_caller]
fn apply(remedy: &str, source: &str) -> String {
    let quoted: Vec<&str> = remedy.split('`').skip(1).step_by(2).collect();
    let mended = match (remedy, quoted.as_slice()) {
        ("return a new tensor instead of writing in place", _) => return_new_tensor(source),
        ("leave the weights in f32", _) => source.replace(" as f16)", ")"),
        ("scale the scores before their maximum is taken", _) => scale_first(source),
        (_, ["#[op]"]) => move_to_op(source),
        (_, [quotient]) if remedy.starts_with("pad what ") => pad_operands(source, quotient),
        (_, ["materialize()"]) => source.replace(".materialize()", ""),
        (_, [argument]) if source.contains("#[kernel(") => {
            source.replace("#[kernel(", &format!("#[kernel({argument}, "))
        }
        (_, [argument]) => source.replace("#[kernel]", &format!("#[kernel({argument})]")),
        _ => panic!("`{remedy}` is not one change"),
    };
    assert_ne!(mended, source, "{remedy}");
    mended
}

/// What stands between two texts.
#[track_caller]
fn between<'a>(source: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = source.split_once(start).unwrap_or_else(|| panic!("no `{start}` in {source}"));
    rest.split_once(end).unwrap_or_else(|| panic!("no `{end}` after `{start}` in {source}")).0
}

/// `(x: &mut T) { *x = value; }` as `(x: T) -> T { value }`.
fn return_new_tensor(source: &str) -> String {
    let (name, ty) = between(source, "(", ") {").split_once(": &mut ").expect("a parameter to write to");
    let value = between(source, &format!("*{name} = "), "; }");
    let head = source.split_once('(').expect("a kernel").0;
    format!("{head}({name}: {ty}) -> {ty} {{ {value} }}")
}

/// `(score - score.max(T)) * factor` with every score times the factor, and nothing after the difference.
fn scale_first(source: &str) -> String {
    let shifted = between(source, "let e = (", ").exp()");
    let (difference, factor) = shifted.rsplit_once(" * ").expect("a factor");
    let scaled = difference.replace("score", &format!("(score * {factor})"));
    source.replace(shifted, &scaled)
}

/// The body of a kernel of one vector as an op that the kernel calls.
fn move_to_op(source: &str) -> String {
    let (head, body) = source.split_once(" { ").expect("a body");
    let name = between(head, "<N>(", ":");
    format!("#[op] fn steps({name}: f32) -> f32 {{ {body} {head} {{ steps({name}) }}")
}

/// `(x / y).pad(..)` as a quotient of padded operands; by one division cannot fault.
fn pad_operands(source: &str, quotient: &str) -> String {
    let pad = between(source, &format!("({quotient})"), ")").to_owned() + ")";
    let (dividend, divisor) = quotient.split_once(" / ").expect("a quotient");
    let by_one = pad.replace("fill = 0", "fill = 1");
    source.replace(&format!("({quotient}){pad}"), &format!("{dividend}{pad} / {divisor}{by_one}"))
}

/// The kernel is refused a fusion with this remedy. As `mended` it is refused it no more, and takes fewer launches.
#[track_caller]
fn check_mended(source: &str, refusal: Refusal, remedy: &str, mended: &str) {
    let (before, after) = (plan(source).program, plan(mended).program);
    let shown = format!("{}\n{}", before.plan.display(&before.kernel), after.plan.display(&after.kernel));
    let meets = |d: &&Decision| d.refusal == Some(refusal);
    let refused = before.plan.decisions.iter().filter(meets).find(|d| d.remedy.is_some());
    let refused = refused.unwrap_or_else(|| panic!("no remedy for {refusal:?} in\n{shown}"));
    assert_eq!(refused.remedy.as_deref(), Some(remedy), "{shown}");
    assert!(after.plan.decisions.iter().find(meets).is_none(), "{shown}");
    assert!(after.plan.launch_count() < before.plan.launch_count(), "{shown}");
}

/// The same, mended by what the remedy says.
#[track_caller]
fn check(source: &str, refusal: Refusal, remedy: &str) {
    check_mended(source, refusal, remedy, &apply(remedy, source));
}

const DROP: &str = "drop `materialize()`";

#[test]
fn a_chain_is_not_materialized() {
    check(
        "#[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.exp().materialize() + 1.0 }",
        Refusal::Materialized,
        DROP,
    );
}

#[test]
fn what_a_reduction_reads_is_not_materialized() {
    check(
        "#[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
            let y = x.exp().materialize();
            y / y.sum(N)
        }",
        Refusal::Materialized,
        DROP,
    );
}

#[test]
fn what_follows_a_product_is_not_materialized() {
    check(
        "#[kernel] fn k<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
            gelu(x.dot(w, K).materialize() + b)
        }",
        Refusal::Materialized,
        DROP,
    );
}

#[test]
fn scores_are_not_materialized() {
    check(
        "#[kernel] fn k<S, T, D>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, D>) -> Tensor<f32, S, D> {
            q.dot(k, D).softmax(T).materialize().dot(v, T)
        }",
        Refusal::Materialized,
        DROP,
    );
}

const CENTRED: &str =
    "#[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x - x.mean((M, N)) }";

#[test]
fn short_axes_are_said_to_be_short() {
    let remedy = "if the reduced axes are short, say so: `assume(M = 64, N = 64)`";
    check(CENTRED, Refusal::LostParallelism, remedy);
}

#[test]
fn a_contract_saves_the_launch_of_long_axes() {
    let source = CENTRED.replace("#[kernel]", "#[kernel(assume(M = 4096, N = 4096))]");
    check(&source, Refusal::LostParallelism, "`launches = 2` saves the launch all the same");
}

#[test]
fn a_contract_has_a_dear_row_computed_again() {
    let row = format!("w{}", ".atan()".repeat(8));
    let source = format!(
        "#[kernel] fn k<M, N>(x: Tensor<f32, M, N>, w: Tensor<f32, N>) -> Tensor<f32, M, N> {{ x + {row} }}"
    );
    check(&source, Refusal::Recomputation, "`launches = 1` saves the launch all the same");
}

#[test]
fn a_contract_joins_long_sweeps_that_share_nothing() {
    check(
        "#[kernel(assume(M = 16777216, N = 16777216))]
         fn k<M, N>(x: Tensor<f32, M>, y: Tensor<f32, N>) -> (Tensor<f32, M>, Tensor<f32, N>) { (x.exp(), y.exp()) }",
        Refusal::Slower,
        "`launches = 1` saves the launch all the same",
    );
}

#[test]
fn a_long_chain_becomes_an_op() {
    let steps: String = (0..300).map(|k| format!("let x{} = x{k} * 1.5 + 0.5; ", k + 1)).collect();
    check(
        &format!("#[kernel] fn k<N>(x0: Tensor<f32, N>) -> Tensor<f32, N> {{ {steps} x300 }}"),
        Refusal::CodeSize,
        "write elementwise steps as one `#[op]`: its code counts as 64 operations at most",
    );
}

#[test]
fn values_are_used_up_soon() {
    let values: String = (0..60).map(|k| format!("let v{} = v{k}.sin(); ", k + 1)).collect();
    let kernel = |body: &str| format!("#[kernel] fn k<N>(v0: Tensor<f32, N>) -> Tensor<f32, N> {{ {body} }}");
    let sum = (0..=60).map(|k| format!("v{k}")).collect::<Vec<_>>();
    // Sum and product after all values, or a step of each after every value.
    let late = format!("{values} ({}) * {}", sum.join(" + "), sum[1..].join(" * "));
    let step = |k: usize| format!("let v{k} = v{}.sin(); let s{k} = s{} * v{k} + v{k}; ", k - 1, k - 1);
    let soon = format!("let s0 = v0; {} s60", (1..=60).map(step).collect::<String>());
    let remedy = "use values up soon after they are computed: 48 can wait for their last use";
    check_mended(&kernel(&late), Refusal::Registers, remedy, &kernel(&soon));
}

#[test]
fn many_tensors_are_passed_as_one() {
    let name = |letter: char| (0..32).map(move |k| format!("{letter}{k}"));
    let all: Vec<String> = "abc".chars().flat_map(name).collect();
    let params: String = all.iter().map(|name| format!("{name}: Tensor<f32, N>, ")).collect();
    let results = vec!["Tensor<f32, N>"; 32].join(", ");
    let values: Vec<String> = (0..32).map(|k| format!("a{k} + b{k} * c{k}")).collect();
    check_mended(
        &format!("#[kernel] fn k<N>({params}) -> ({results}) {{ ({}) }}", values.join(", ")),
        Refusal::Parameters,
        "pass tensors of one shape as one tensor with another axis",
        "#[kernel] fn k<N, const K: usize = 32>(
            a: Tensor<f32, K, N>, b: Tensor<f32, K, N>, c: Tensor<f32, K, N>,
         ) -> Tensor<f32, K, N> { a + b * c }",
    );
}

#[test]
fn operands_are_padded_in_place_of_a_quotient() {
    check(
        "#[kernel] fn k<N, P>(x: Tensor<i32, N>, y: Tensor<i32, N>, z: Tensor<i32, P>) -> Tensor<i32, P> {
            let y = y | 1;
            (x / y).pad(N, 1, 1, P, fill = 0) + z
        }",
        Refusal::IndexMismatch,
        "pad what `x / y` is computed from, with values for which it cannot fault",
    );
}

#[test]
fn a_new_tensor_is_returned() {
    let source = "#[kernel] fn k<N>(x: &mut Tensor<f32, N>) { *x = x.reverse(N).exp(); }";
    check(source, Refusal::InPlaceHazard, "return a new tensor instead of writing in place");
}

/// Attention with other weights.
fn attention(weights: &str) -> String {
    format!(
        "#[kernel] fn k<S, T, D>(q: Tensor<f16, S, D>, k: Tensor<f16, T, D>, v: Tensor<f32, T, D>) -> Tensor<f32, S, D> {{
            let score = q.dot(k, D);
            {weights}.dot(v, T)
        }}"
    )
}

#[test]
fn weights_stay_in_f32() {
    check(&attention("(score.softmax(T) as f16)"), Refusal::NotStreamed, "leave the weights in f32");
}

#[test]
fn scores_are_scaled_before_their_maximum_is_taken() {
    let source = attention("{ let e = ((score - score.max(T)) * 0.125).exp(); e / e.sum(T) }");
    check(&source, Refusal::NotStreamed, "scale the scores before their maximum is taken");
}
