//! `cargo xtask vectors`: whether the loops over the runtime's numeric functions are vector code.
//!
//! It compiles an example made of such loops for the baseline, AVX2 and AVX-512 and reads the assembly. A loop is vector
//! code if it calls nothing and its body works on the registers of the instruction set with no scalar float arithmetic.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The module of the example and the registers that its loops have to use.
const INSTRUCTION_SETS: [(&str, &str); 3] = [("base", "%xmm"), ("avx2", "%ymm"), ("avx512", "%zmm")];

/// Runs the task; fails if any loop is not vector code.
pub(crate) fn run() -> ExitCode {
    let assembly = match compile_example() {
        Ok(assembly) => assembly,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    let mut found = [0; INSTRUCTION_SETS.len()];
    let mut scalar = 0;
    for (symbol, body) in split_functions(&assembly) {
        let Some((index, name)) = identify_loop(symbol) else { continue };
        let (instruction_set, register) = INSTRUCTION_SETS[index];
        found[index] += 1;
        if let Err(reason) = judge_loop(&body, register) {
            scalar += 1;
            println!("{name} for {instruction_set}: {reason}");
        }
    }
    if found[0] == 0 || found.iter().any(|count| *count != found[0]) {
        eprintln!("error: the assembly lacks some of the loops: {found:?}");
        return ExitCode::from(2);
    }
    let found: usize = found.iter().sum();
    println!("{} of {found} loops are vector code", found - scalar);
    if scalar == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compiles the example and returns its assembly.
fn compile_example() -> Result<String, String> {
    let directory =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
    let path = directory.join("vector_loops.s");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["rustc", "--release", "--package", "fuse-runtime", "--example", "vector_loops", "--"])
        .args(["-Ccodegen-units=1", "-Csymbol-mangling-version=v0"])
        .arg(format!("--emit=asm={}", path.display()))
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("the example does not compile".to_owned());
    }
    std::fs::read_to_string(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

/// The symbols of an assembly file with the lines of each.
fn split_functions(assembly: &str) -> Vec<(&str, Vec<&str>)> {
    let mut functions = Vec::new();
    let mut current: Option<(&str, Vec<&str>)> = None;
    for line in assembly.lines() {
        if line.starts_with(".Lfunc_end") {
            functions.extend(current.take());
        } else if let Some(symbol) = line.strip_suffix(':').filter(|symbol| symbol.starts_with("_R")) {
            current = Some((symbol, Vec::new()));
        } else if let Some((_, lines)) = &mut current {
            lines.push(line);
        }
    }
    functions
}

/// The instruction set (by its place) and the function's name, from a mangled path such as `…12vector_loops4avx23exp`.
fn identify_loop(symbol: &str) -> Option<(usize, &str)> {
    let (_, path) = symbol.split_once("12vector_loops")?;
    let (index, rest) = INSTRUCTION_SETS.iter().enumerate().find_map(|(index, (instruction_set, _))| {
        Some((index, path.strip_prefix(&format!("{}{instruction_set}", instruction_set.len()))?))
    })?;
    let name = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    // A closure or a generic instance has more behind its name.
    (rest[..rest.len() - name.len()].parse() == Ok(name.len())).then_some((index, name))
}

/// Says why a loop is not vector code.
fn judge_loop(lines: &[&str], register: &str) -> Result<(), String> {
    if let Some(call) = lines.iter().find(|line| mnemonic(line).starts_with("call")) {
        return Err(format!("it calls `{}`", call.trim_start_matches(['\t', ' ']).replace('\t', " ")));
    }
    let packed = |line: &&str| line.contains(register) && !is_scalar_arithmetic(mnemonic(line));
    // Without debugging information a label starts a block, and the loop body is the block with the most vector code.
    let blocks = lines.split(|line| line.starts_with(".LBB"));
    let body =
        blocks.max_by_key(|block| block.iter().filter(|line| packed(line)).count()).unwrap_or_default();
    if !body.iter().any(packed) {
        return Err(format!("no block uses {register} registers"));
    }
    match body.iter().map(|line| mnemonic(line)).find(|mnemonic| is_scalar_arithmetic(mnemonic)) {
        Some(mnemonic) => Err(format!("its body has `{mnemonic}`")),
        None => Ok(()),
    }
}

/// The instruction of a line; empty for directives and labels.
fn mnemonic(line: &str) -> &str {
    let instruction = line.strip_prefix('\t').filter(|line| !line.starts_with(['.', '#']));
    instruction.and_then(|line| line.split_whitespace().next()).unwrap_or("")
}

/// Whether an instruction computes one float at a time.
fn is_scalar_arithmetic(mnemonic: &str) -> bool {
    let mnemonic = mnemonic.strip_prefix('v').unwrap_or(mnemonic);
    let operation = mnemonic.strip_suffix("ss").or_else(|| mnemonic.strip_suffix("sd"));
    let computes = |operation: &str| {
        [
            "add", "sub", "mul", "div", "sqrt", "min", "max", "ucomi", "comi", "fmadd", "fnmadd", "fmsub",
            "fnmsub",
        ]
        .iter()
        .any(|computing| operation.starts_with(computing))
    };
    operation.is_some_and(computes) || mnemonic.starts_with("cvttss2si") || mnemonic.starts_with("cvttsd2si")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_told_from_other_symbols() {
        assert_eq!(identify_loop("_RNvNtCslvjf0OEjF0B_12vector_loops4avx23exp"), Some((1, "exp")));
        assert_eq!(identify_loop("_RNvNtCslvjf0OEjF0B_12vector_loops6avx5124exp2"), Some((2, "exp2")));
        assert_eq!(identify_loop("_RNvCslvjf0OEjF0B_12vector_loops4main"), None);
    }

    #[test]
    fn a_scalar_loop_is_noticed() {
        let vector =
            ["\t.cfi_startproc", ".LBB0_1:", "\tmulps\t(%rdi), %xmm0", ".LBB0_2:", "\tmulss\t(%rdi), %xmm0"];
        assert_eq!(judge_loop(&vector, "%xmm"), Ok(()));
        assert!(judge_loop(&vector, "%ymm").is_err());
        let scalar = [".LBB0_1:", "\tmovaps\t%xmm1, %xmm0", "\tmulss\t(%rdi), %xmm0"];
        assert_eq!(judge_loop(&scalar, "%xmm"), Err("its body has `mulss`".to_owned()));
        let calling = [".LBB0_1:", "\tcallq\t*expf@GOTPCREL(%rip)"];
        assert!(judge_loop(&calling, "%xmm").is_err());
    }
}
