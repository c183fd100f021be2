//! Random programs of the language as source text: typed `let`s over parameters, reduced and viewed at random, with
//! what it takes to make them smaller when one fails.

use std::collections::BTreeSet;
use std::fmt::Write;

/// A small generator of numbers (SplitMix64): the same seed gives the same program everywhere.
pub(crate) struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// dtype and axes of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Type {
    dtype: &'static str,
    axes: BTreeSet<&'static str>,
}

/// A parameter, or a `let` of the body.
#[derive(Clone, Debug)]
struct Value {
    name: String,
    ty: Type,
    /// The expression of a `let`; for a parameter the declared order of its axes.
    text: String,
    uses: Vec<usize>,
    parameter: bool,
}

/// A kernel.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Where it came from.
    pub(crate) seed: u64,
    values: Vec<Value>,
    results: Vec<(usize, String)>,
}

/// Axes of every program. `A` is `D * E`, so that it can be split; the others are made by operations.
const AXES: [&str; 3] = ["A", "B", "C"];
const GENERICS: &str = "B, C, D, const E: usize = 3, const A: usize = { D * E }, const P: usize = { A + 3 }, \
                        const Q: usize = { 2 * A }, const W: usize = 2";

const FLOAT_METHODS: [&str; 22] = [
    "abs()",
    "exp()",
    "tanh()",
    "sigmoid()",
    "erf()",
    "sin()",
    "cos()",
    "floor()",
    "round()",
    "trunc()",
    "square()",
    "sqrt()",
    "recip()",
    "signum()",
    "exp_m1()",
    "atan()",
    "clamp(-1.5, 2.0)",
    "max(0.25)",
    "min(1.5)",
    "powi(3)",
    "mul_add(1.5, -0.25)",
    "fract()",
];
const FLOAT_REDUCTIONS: [&str; 9] =
    ["sum", "mean", "max", "min", "prod", "var", "softmax", "log_softmax", "logsumexp"];

/// The scalar items that programs call.
pub(crate) const ITEMS: &str = r"
    #[op]
    fn polynomial(x: f32) -> f32 {
        let mut y = 0.25;
        for k in 0..3 { y = y * x + (k as f32); }
        y
    }
    #[op]
    fn branches(x: f32, y: f32) -> f32 {
        if x > y { x - y } else if x == y { 1.0 } else { let d = y - x; d * 0.5 }
    }
    #[op]
    fn bits(x: i32) -> i32 { match x & 3 { 0 => x << 2, 1 | 2 => x ^ 0x55, _ => -x } }
    #[reduce(identity = f32::NEG_INFINITY)]
    fn largest(a: f32, b: f32) -> f32 { if a.is_nan() || a > b { a } else { b } }
";

/// The program of that seed.
pub(crate) fn generate(seed: u64) -> Program {
    let mut rng = Rng(seed);
    let mut program = Program { seed, values: Vec::new(), results: Vec::new() };
    // Every axis has a shape to come from.
    let order = shuffled(&mut rng, &AXES);
    program.parameter("f32", order);
    for _ in 0..rng.below(4) {
        let dtype = rng.pick(&["f32", "f32", "f32", "f16", "bf16", "f64", "i32", "i64", "u8", "i8", "bool"]);
        let axes: Vec<&str> = AXES.into_iter().filter(|_| rng.chance(60)).collect();
        let axes = shuffled(&mut rng, &axes);
        program.parameter(dtype, axes);
    }
    for _ in 0..3 + rng.below(12) {
        program.extend(&mut rng);
    }
    let last = program.values.len() - 1;
    for k in 0..1 + rng.below(3) {
        let value = if k == 0 { last } else { rng.below(program.values.len()) };
        let axes: Vec<&str> = program.values[value].ty.axes.iter().copied().collect();
        let order = shuffled(&mut rng, &axes).join(", ");
        program.results.push((value, order));
    }
    program
}

fn shuffled(rng: &mut Rng, of: &[&'static str]) -> Vec<&'static str> {
    let mut out = of.to_vec();
    for i in (1..out.len()).rev() {
        out.swap(i, rng.below(i + 1));
    }
    out
}

impl Program {
    fn parameter(&mut self, dtype: &'static str, order: Vec<&'static str>) {
        let name = format!("p{}", self.values.len());
        let ty = Type { dtype, axes: order.iter().copied().collect() };
        self.values.push(Value { name, ty, text: order.join(", "), uses: Vec::new(), parameter: true });
    }

    fn push(
        &mut self,
        dtype: &'static str,
        axes: BTreeSet<&'static str>,
        text: String,
        uses: Vec<usize>,
    ) -> usize {
        let name = format!("v{}", self.values.len());
        self.values.push(Value { name, ty: Type { dtype, axes }, text, uses, parameter: false });
        self.values.len() - 1
    }

    /// A value of one of these dtypes, later ones more often; made by a cast if there is none.
    fn operand(&mut self, rng: &mut Rng, dtypes: &[&'static str]) -> usize {
        let fits: Vec<usize> =
            (0..self.values.len()).filter(|&i| dtypes.contains(&self.values[i].ty.dtype)).collect();
        if fits.is_empty() {
            let i = rng.below(self.values.len());
            let (dtype, axes) = (dtypes[0], self.values[i].ty.axes.clone());
            let text = format!("{} as {dtype}", self.values[i].name);
            let text = if dtype == "bool" { format!("{} as i64 != 0", self.values[i].name) } else { text };
            return self.push(dtype, axes, text, vec![i]);
        }
        let (a, b) = (rng.below(fits.len()), rng.below(fits.len()));
        fits[a.max(b)]
    }

    /// Adds a `let`.
    fn extend(&mut self, rng: &mut Rng) {
        match rng.below(20) {
            0..=3 => {
                let i = self.operand(rng, &["f32", "f64"]);
                let method = rng.pick(&FLOAT_METHODS);
                self.unary(i, |x| format!("{x}.{method}"));
            }
            4..=8 => self.binary(rng),
            9 => self.comparison(rng),
            10 | 11 => self.reduction(rng),
            12 => self.dot(rng),
            13 => {
                let i = self.operand(rng, &["f32"]);
                self.unary(i, |x| format!("polynomial({x})"));
            }
            14 => {
                let i = self.operand(rng, &["i32"]);
                self.unary(i, |x| format!("bits({x})"));
            }
            15 => self.cast(rng),
            _ => self.view(rng),
        }
    }

    fn unary(&mut self, i: usize, text: impl Fn(&str) -> String) {
        let Value { name, ty, .. } = self.values[i].clone();
        self.push(ty.dtype, ty.axes, text(&name), vec![i]);
    }

    fn binary(&mut self, rng: &mut Rng) {
        let dtype = rng.pick(&["f32", "f32", "f32", "f64", "i32", "i64", "u8"]);
        let (i, j) = (self.operand(rng, &[dtype]), self.operand(rng, &[dtype]));
        let (a, b) = (self.values[i].clone(), self.values[j].clone());
        let axes: BTreeSet<&str> = a.ty.axes.union(&b.ty.axes).copied().collect();
        let (x, y) = (&a.name, &b.name);
        let float = dtype.starts_with('f');
        let text = match rng.below(if dtype == "f32" { 9 } else { 7 }) {
            0 => format!("{x} + {y}"),
            1 => format!("{x} - {y}"),
            2 => format!("{x} * {y}"),
            3 if float => format!("{x} / ({y}.abs() + 1.0)"),
            3 => format!("{x} ^ {y}"),
            4 => format!("{x}.max({y})"),
            5 => format!("{x}.min({y})"),
            6 if float => format!("maximum({x}, {y})"),
            6 => format!("{x} & {y}"),
            7 => format!("branches({x}, {y})"),
            _ => format!("{x} * 0.5 - {y}"),
        };
        self.push(dtype, axes, text, vec![i, j]);
    }

    fn comparison(&mut self, rng: &mut Rng) {
        let dtype = rng.pick(&["f32", "i32", "f64"]);
        let i = self.operand(rng, &[dtype]);
        let j = self.operand(rng, &[dtype]);
        let op = rng.pick(&["<", "<=", ">", ">=", "==", "!="]);
        let axes: BTreeSet<&str> = self.values[i].ty.axes.union(&self.values[j].ty.axes).copied().collect();
        let (x, y) = (self.values[i].name.clone(), self.values[j].name.clone());
        let condition = self.push("bool", axes.clone(), format!("{x} {op} {y}"), vec![i, j]);
        let name = self.values[condition].name.clone();
        self.push(dtype, axes, format!("select({name}, {x}, {y})"), vec![condition, i, j]);
    }

    fn reduction(&mut self, rng: &mut Rng) {
        let dtype = rng.pick(&["f32", "f32", "f32", "f64", "f16", "i32", "u8", "bool"]);
        let i = self.operand(rng, &[dtype]);
        let Value { name, ty, .. } = self.values[i].clone();
        if ty.axes.is_empty() {
            return;
        }
        let all: Vec<&str> = ty.axes.iter().copied().collect();
        let axis = rng.pick(&all);
        let mut axes = ty.axes.clone();
        axes.remove(axis);
        let (wide, keeps, text) = match dtype {
            "bool" => match rng.below(3) {
                0 => ("i64", false, format!("{name}.sum({axis})")),
                1 => ("bool", false, format!("{name}.any({axis})")),
                _ => ("bool", false, format!("{name}.all({axis})")),
            },
            "i32" | "u8" => {
                let wide = if dtype == "u8" { "u64" } else { "i64" };
                match rng.below(4) {
                    0 => (wide, false, format!("{name}.sum({axis})")),
                    1 => (dtype, false, format!("{name}.max({axis})")),
                    2 => ("i64", false, format!("{name}.argmin({axis})")),
                    _ => (wide, true, format!("{name}.cumsum({axis})")),
                }
            }
            _ => {
                let wide = if dtype == "f64" { "f64" } else { "f32" };
                match rng.below(12) {
                    0 => (wide, true, format!("{name}.cumsum({axis})")),
                    1 => ("i64", false, format!("{name}.argmax({axis})")),
                    2 if dtype == "f32" => (wide, false, format!("{name}.reduce({axis}, largest)")),
                    _ => {
                        let op = rng.pick(&FLOAT_REDUCTIONS);
                        (wide, op.ends_with("softmax"), format!("{name}.{op}({axis})"))
                    }
                }
            }
        };
        self.push(wide, if keeps { ty.axes } else { axes }, text, vec![i]);
    }

    /// A contraction over one or several common axes; what both operands keep is a batch.
    fn dot(&mut self, rng: &mut Rng) {
        let dtype = rng.pick(&["f32", "f32", "f32", "f16", "f64", "i8", "i32"]);
        let (i, j) = (self.operand(rng, &[dtype]), self.operand(rng, &[dtype]));
        let (a, b) = (self.values[i].clone(), self.values[j].clone());
        let common: Vec<&str> = a.ty.axes.intersection(&b.ty.axes).copied().collect();
        if common.is_empty() {
            return;
        }
        let count = 1 + rng.below(common.len());
        let contracted = shuffled(rng, &common)[..count].to_vec();
        let mut axes: BTreeSet<&str> = a.ty.axes.union(&b.ty.axes).copied().collect();
        axes.retain(|x| !contracted.contains(x));
        let wide = match dtype {
            "f16" => "f32",
            "i8" => "i32",
            "i32" => "i64",
            dtype => dtype,
        };
        let listed = contracted.join(", ");
        let listed = if count == 1 { listed } else { format!("({listed})") };
        self.push(wide, axes, format!("{}.dot({}, {listed})", a.name, b.name), vec![i, j]);
    }

    fn cast(&mut self, rng: &mut Rng) {
        let i = rng.below(self.values.len());
        let from = self.values[i].ty.dtype;
        let to = rng.pick(&["f32", "f32", "f64", "i32", "i64", "u8", "i8", "f16", "bf16", "f8e4m3"]);
        if from != "bool" || !to.contains('f') {
            let Value { name, ty, .. } = self.values[i].clone();
            self.push(to, ty.axes, format!("{name} as {to}"), vec![i]);
        }
    }

    fn view(&mut self, rng: &mut Rng) {
        let i = rng.below(self.values.len());
        let Value { name, ty, .. } = self.values[i].clone();
        let all: Vec<&str> = ty.axes.iter().copied().collect();
        if all.is_empty() {
            return;
        }
        let axis = rng.pick(&all);
        let zero = if ty.dtype == "bool" {
            "false"
        } else if ty.dtype.contains('f') {
            "0.0"
        } else {
            "0"
        };
        let text = match rng.below(8) {
            1 if ty.axes.contains("A") => {
                let (lo, start) = (rng.below(4), rng.below(4));
                format!("{name}.pad(A, {lo}, {}, P, fill = {zero}).slice(P, {start}, A)", 3 - lo)
            }
            2 if ty.axes.contains("A") => format!("{name}.split(A, (D, E)).reverse(E).merge((D, E), A)"),
            3 if ty.axes.contains("A") => {
                format!("concat(Q, ({name}, A), ({name}.reverse({axis}), A)).slice(Q, extent(D), A)")
            }
            4 => format!("stack(W, {name}, {name}.reverse({axis})).at(W, {})", rng.below(2)),
            5 => format!("{name}.materialize()"),
            6 | 7 => return self.gather(rng, i, axis),
            _ => format!("{name}.reverse({axis})"),
        };
        self.push(ty.dtype, ty.axes, text, vec![i]);
    }

    /// A read at positions that are data: in range, out of range with a fill, and rarely out of range as a fault.
    fn gather(&mut self, rng: &mut Rng, i: usize, axis: &'static str) {
        let j = self.operand(rng, &["i64", "i32", "u8"]);
        let (source, ids) = (self.values[i].clone(), self.values[j].clone());
        let mut axes = source.ty.axes.clone();
        axes.remove(axis);
        axes.extend(&ids.ty.axes);
        let fill = if source.ty.dtype == "bool" {
            "true"
        } else if source.ty.dtype.contains('f') {
            "-1.5"
        } else {
            "3"
        };
        let (x, k) = (&source.name, &ids.name);
        let text = match rng.below(6) {
            0 => format!("{x}.gather({axis}, {k})"),
            1 | 2 => format!("{x}.gather({axis}, {k}, fill = {fill})"),
            _ => format!("{x}.gather({axis}, ({k} as i64).rem_euclid(extent({axis}).max(1)))"),
        };
        self.push(source.ty.dtype, axes, text, vec![i, j]);
    }

    /// Its source as a kernel of that name.
    pub(crate) fn source(&self, name: &str) -> String {
        let used = self.reachable();
        let mut out = format!("    #[kernel]\n    pub fn {name}<{GENERICS}>(\n");
        for v in self.values.iter().filter(|v| v.parameter) {
            let _ = writeln!(out, "        {}: {},", v.name, tensor(&v.ty, &v.text));
        }
        let types: Vec<String> =
            self.results.iter().map(|(v, order)| tensor(&self.values[*v].ty, order)).collect();
        let _ = writeln!(out, "    ) -> ({},) {{", types.join(", "));
        for (_, v) in self.values.iter().enumerate().filter(|(i, v)| used.contains(i) && !v.parameter) {
            let axes: Vec<&str> = v.ty.axes.iter().copied().collect();
            let _ =
                writeln!(out, "        let {}: {} = {};", v.name, tensor(&v.ty, &axes.join(", ")), v.text);
        }
        let names: Vec<&str> = self.results.iter().map(|(v, _)| self.values[*v].name.as_str()).collect();
        let _ = writeln!(out, "        ({},)\n    }}", names.join(", "));
        out
    }

    fn reachable(&self) -> BTreeSet<usize> {
        let mut todo: Vec<usize> = self.results.iter().map(|r| r.0).collect();
        let mut seen = BTreeSet::new();
        while let Some(i) = todo.pop() {
            if seen.insert(i) {
                todo.extend(&self.values[i].uses);
            }
        }
        seen
    }

    /// The number of `let`s that count.
    pub(crate) fn size(&self) -> usize {
        self.reachable().iter().filter(|&&i| !self.values[i].parameter).count() + self.results.len()
    }

    /// Smaller programs that may show the same fault: without one of the results, with a `let` as the result, with a
    /// `let` replaced by an operand of its type or by a parameter.
    pub(crate) fn smaller(&self) -> Vec<Program> {
        let mut out = Vec::new();
        if self.results.len() > 1 {
            for k in 0..self.results.len() {
                let mut p = self.clone();
                p.results.remove(k);
                out.push(p);
            }
        }
        for i in self.reachable() {
            let v = &self.values[i];
            if v.parameter {
                continue;
            }
            let order: Vec<&str> = v.ty.axes.iter().copied().collect();
            let mut as_result = self.clone();
            as_result.results = vec![(i, order.join(", "))];
            if as_result.size() < self.size() {
                out.push(as_result);
            }
            for &u in v.uses.iter().filter(|&&u| self.values[u].ty == v.ty) {
                let mut alias = self.clone();
                for w in &mut alias.values {
                    if w.uses.contains(&i) {
                        w.text = replace_word(&w.text, &v.name, &self.values[u].name);
                        w.uses.iter_mut().filter(|x| **x == i).for_each(|x| *x = u);
                    }
                }
                alias.results.iter_mut().filter(|r| r.0 == i).for_each(|r| r.0 = u);
                out.push(alias);
            }
            if !v.uses.is_empty() {
                let mut cut = self.clone();
                cut.values[i] = Value {
                    text: order.join(", "),
                    uses: Vec::new(),
                    parameter: true,
                    ..self.values[i].clone()
                };
                out.push(cut);
            }
        }
        out.retain(|p| p.size() < self.size());
        out
    }
}

fn tensor(ty: &Type, axes: &str) -> String {
    if axes.is_empty() { format!("Tensor<{}>", ty.dtype) } else { format!("Tensor<{}, {axes}>", ty.dtype) }
}

/// Replaces whole identifiers.
fn replace_word(text: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        out.push_str(if word == from { to } else { &word });
        word.clear();
        out.push(c);
    }
    out.truncate(out.len() - 1);
    out
}
