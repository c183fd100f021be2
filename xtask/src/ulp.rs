//! `cargo xtask ulp`: how far every f32 function of the runtime is from the true value, over all 2^32 inputs.
//!
//! The true value is the f64 function's, whose own error is a millionth of what is measured. One ulp is the distance of
//! neighbouring f32 at the true value (2^-149 for denormals), so a correctly rounded result has at most 0.5. Where the
//! true value is NaN, infinite or zero, the result has to be just that, the sign of a zero included.
//!
//! For an odd or even function the negative half is compared with the positive one bit for bit, which saves half of the
//! references.
//!
//! Functions that are exact (rounding to integers, conversions) are compared for equality.

mod exact;
mod functions;

use functions::{FUNCTIONS, Function, Symmetry};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is promised, in ulp.
const BOUND: f64 = 2.0;

/// One more than the last f32 by its bits.
const ALL_INPUTS: u64 = 1 << 32;

/// Inputs that a thread takes at a time.
const CHUNK: u64 = 1 << 20;

/// Inputs that are evaluated by one call, so that the loop is vector code.
const BLOCK: usize = 1024;

/// The worst input found so far.
#[derive(Clone, Copy)]
struct Worst {
    error: f64,
    input: u32,
    /// Results that should have been NaN, infinite or zero and were not, or that break the symmetry of the function.
    wrong_specials: u64,
}

impl Worst {
    const NONE: Self = Self { error: 0.0, input: 0, wrong_specials: 0 };

    fn add(&mut self, input: u32, result: f32, truth: f64) {
        match error_in_ulp(result, truth) {
            Some(error) if error > self.error => (self.error, self.input) = (error, input),
            Some(_) => {}
            None => {
                if self.wrong_specials == 0 && self.error <= BOUND {
                    self.input = input;
                }
                self.wrong_specials += 1;
            }
        }
    }

    fn merge(&mut self, other: Self) {
        if other.error > self.error || (self.wrong_specials == 0 && other.wrong_specials > 0) {
            (self.error, self.input) = (other.error.max(self.error), other.input);
        }
        self.wrong_specials += other.wrong_specials;
    }

    fn is_within_bound(&self) -> bool {
        self.error <= BOUND && self.wrong_specials == 0
    }
}

/// The distance in ulp of the truth; `None` if the truth is special and the result is not the same.
fn error_in_ulp(result: f32, truth: f64) -> Option<f64> {
    if truth.is_nan() || truth.is_infinite() || truth == 0.0 {
        let same =
            if truth.is_nan() { result.is_nan() } else { result.to_bits() == (truth as f32).to_bits() };
        return same.then_some(0.0);
    }
    if result.is_nan() {
        return None;
    }
    let exponent = ((truth.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let limit = 2f64.powi(128);
    if truth.abs() >= limit && result.is_infinite() && (result > 0.0) == (truth > 0.0) {
        return Some(0.0);
    }
    let spacing = f64::from_bits(((exponent.clamp(-126, 127) - 23 + 1023) as u64) << 52);
    let value = if result.is_infinite() { limit.copysign(f64::from(result)) } else { f64::from(result) };
    Some((value - truth).abs() / spacing)
}

/// What the command line asks for.
struct Options {
    stride: u64,
    threads: usize,
    names: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self { stride: 1, threads, names: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let number = arguments.next().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
                number.ok_or_else(|| format!("`{argument}` needs a positive number"))
            };
            match argument.as_str() {
                "--stride" => options.stride = number()?,
                "--threads" => options.threads = number()? as usize,
                name if name.starts_with('-') => return Err(format!("unknown option `{name}`")),
                name => options.names.push(name.to_owned()),
            }
        }
        let known = |name: &str| {
            FUNCTIONS.iter().any(|f| f.name == name) || exact::CHECKS.iter().any(|c| c.name == name)
        };
        match options.names.iter().find(|name| !known(name)) {
            Some(name) => Err(format!("no function is named `{name}`")),
            None => Ok(options),
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

/// Runs the task; fails if any function is beyond the bound.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    if !fused_is_available() {
        eprintln!(
            "error: this processor has no AVX2 with FMA, which half of the functions measured here need"
        );
        return ExitCode::from(2);
    }
    let mut all_within_bound = true;
    println!("| function | worst ulp, FMA | at | worst ulp, no FMA | at | special values |");
    println!("|---|---|---|---|---|---|");
    for function in FUNCTIONS.iter().filter(|function| options.wants(function.name)) {
        let [fused, plain] = measure(function, &options);
        all_within_bound &= fused.is_within_bound() && plain.is_within_bound();
        println!(
            "| `{}` | {:.3} | {} | {:.3} | {} | {} |",
            function.name,
            fused.error,
            show_input(fused.input),
            plain.error,
            show_input(plain.input),
            match fused.wrong_specials + plain.wrong_specials {
                0 => "right".to_owned(),
                count => format!("{count} wrong"),
            },
        );
    }
    all_within_bound &= exact::run(&options);
    if all_within_bound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show_input(bits: u32) -> String {
    format!("{bits:#010x} ({:e})", f32::from_bits(bits))
}

#[cfg(target_arch = "x86_64")]
fn fused_is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn fused_is_available() -> bool {
    true
}

/// Calls `visit(thread state, first input, end)` for chunks of the inputs below `end`, from as many threads as asked for, and returns
/// the states.
fn visit_inputs<S: Send>(
    options: &Options,
    end: u64,
    new: impl Fn() -> S + Sync,
    visit: impl Fn(&mut S, u64, u64) + Sync,
) -> Vec<S> {
    let next = AtomicU64::new(0);
    let states = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                let mut state = new();
                loop {
                    let start = next.fetch_add(CHUNK, Ordering::Relaxed);
                    if start >= end {
                        break;
                    }
                    visit(&mut state, start, start + CHUNK);
                }
                states.lock().expect("a measuring thread panicked").push(state);
            });
        }
    });
    states.into_inner().expect("a measuring thread panicked")
}

/// Fills `inputs` from `start` on in steps of the stride; returns how many there are before `end`.
fn fill_inputs(inputs: &mut [f32; BLOCK], start: u64, end: u64, stride: u64) -> usize {
    let mut count = 0;
    for (slot, input) in inputs.iter_mut().zip((start..end).step_by(stride as usize)) {
        *slot = f32::from_bits(input as u32);
        count += 1;
    }
    count
}

/// The worst inputs with and without fused multiply-add.
fn measure(function: &Function, options: &Options) -> [Worst; 2] {
    let end = if function.symmetry == Symmetry::None { ALL_INPUTS } else { ALL_INPUTS / 2 };
    let states = visit_inputs(
        options,
        end,
        || [Worst::NONE; 2],
        |worst, start, end| {
            let mut inputs = [0.0; BLOCK];
            let mut outputs = [[0.0; BLOCK]; 2];
            let mut mirrored = [[0.0; BLOCK]; 2];
            let mut at = start.next_multiple_of(options.stride);
            while at < end {
                let count = fill_inputs(&mut inputs, at, end, options.stride);
                let builds = [function.fused, function.plain];
                for (build, outputs) in builds.iter().zip(&mut outputs) {
                    build(&inputs, outputs);
                }
                for i in 0..count {
                    let truth = (function.reference)(f64::from(inputs[i]));
                    for (worst, outputs) in worst.iter_mut().zip(&outputs) {
                        worst.add(inputs[i].to_bits(), outputs[i], truth);
                    }
                }
                if function.symmetry != Symmetry::None {
                    let negated = inputs.map(|input| -input);
                    for (build, mirrored) in builds.iter().zip(&mut mirrored) {
                        build(&negated, mirrored);
                    }
                    for (worst, (outputs, mirrored)) in worst.iter_mut().zip(outputs.iter().zip(&mirrored)) {
                        for i in 0..count {
                            let expected =
                                if function.symmetry == Symmetry::Odd { -outputs[i] } else { outputs[i] };
                            let same = expected.to_bits() == mirrored[i].to_bits()
                                || (expected.is_nan() && mirrored[i].is_nan());
                            if !same {
                                worst.wrong_specials += 1;
                                worst.input = negated[i].to_bits();
                            }
                        }
                    }
                }
                at += count as u64 * options.stride;
            }
        },
    );
    let mut total = [Worst::NONE; 2];
    for state in states {
        total[0].merge(state[0]);
        total[1].merge(state[1]);
    }
    total
}
