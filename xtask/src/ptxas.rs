//! `cargo xtask ptxas`: what the real compiler makes of the printed kernels, a JSON line for each and each architecture.
//!
//! A line of each architecture sums up: how far predicted registers are from those that there are, which kernels spill though
//! they were predicted to fit, and which take NVRTC longer than half a second. It fails if there are such, if the median error
//! is too large, and if a kernel does not compile, spills, or uses more registers than fit its blocks.

use crate::cuda_toolchain::{self, Toolchain};
use crate::nvrtc::Output;
use crate::{registers, suite};
use fuse_ir::kernel_ir::{Kernel, examples};
use fuse_ir::print_cuda::{compile_options, print_cuda};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The architectures that every kernel must compile for.
const ARCHITECTURES: [&str; 4] = ["sm_80", "sm_90", "sm_100", "sm_120"];

/// Registers of a multiprocessor, on all of them.
const REGISTERS: u32 = 65536;

/// The longest that NVRTC may take for a kernel.
const SLOWEST: Duration = Duration::from_millis(500);

/// The most by which predicted registers may differ from those that there are, of them: the median over all kernels.
const MEDIAN_ERROR: f64 = 0.2;

/// How often a kernel that seems slow is compiled again: what else the machine does only adds to a time.
const AGAIN: usize = 2;

/// What the compiler says of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Report {
    kernel: String,
    /// The registers that its blocks leave a thread.
    fits: u32,
    registers: u32,
    predicted: u32,
    time: Duration,
    stack: u32,
    spill_stores: u32,
    spill_loads: u32,
    static_shared: u32,
    instructions: usize,
    loads_16: usize,
    stores_16: usize,
    /// Loads and stores of a thread's local memory.
    local: usize,
}

/// Runs the task over all kernels and architectures, or those that `chosen` names.
pub(crate) fn run(chosen: &[String]) -> ExitCode {
    let (architectures, names): (Vec<&String>, Vec<&String>) =
        chosen.iter().partition(|name| ARCHITECTURES.contains(&name.as_str()));
    let toolchain = match cuda_toolchain::find() {
        Ok(toolchain) => toolchain,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    let mut failed = false;
    let is_chosen = |name: &&str| architectures.is_empty() || architectures.iter().any(|a| a == name);
    for architecture in ARCHITECTURES.into_iter().filter(is_chosen) {
        let kernels = match kernels(architecture) {
            Ok(kernels) => kernels,
            Err(message) => {
                eprintln!("error: {message}");
                return ExitCode::from(2);
            }
        };
        let chosen = |kernel: &&Kernel| names.is_empty() || names.iter().any(|n| kernel.name.starts_with(*n));
        let mut reports = Vec::new();
        for kernel in kernels.iter().filter(chosen) {
            match compile(&toolchain, kernel, architecture) {
                Ok(report) => {
                    println!("{}", json_line(kernel, architecture, &report));
                    if let Some(why) = objection(&report) {
                        eprintln!("error: `{}` on {architecture} {why}", kernel.name);
                        failed = true;
                    }
                    reports.push(report);
                }
                Err(message) => {
                    // What follows from the first errors says nothing more.
                    let first: Vec<&str> = message.lines().take(6).collect();
                    eprintln!("error: `{}` on {architecture}: {}", kernel.name, first.join("\n"));
                    failed = true;
                }
            }
        }
        let summary = Summary::of(&reports);
        println!("{}", summary.json_line(architecture));
        if let Some(why) = summary.objection() {
            eprintln!("error: on {architecture} {why}");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What is said of all kernels of an architecture.
#[derive(Debug, Default, PartialEq)]
struct Summary {
    kernels: usize,
    /// By how much predicted registers differ from those that there are, of them: the median.
    median_error: f64,
    /// Kernels that spill though the registers predicted for them fit.
    spill_unforeseen: Vec<String>,
    /// Kernels that take NVRTC too long.
    slow: Vec<String>,
    slowest: Duration,
}

impl Summary {
    fn of(reports: &[Report]) -> Summary {
        let names = |is: &dyn Fn(&Report) -> bool| {
            reports.iter().filter(|r| is(r)).map(|r| r.kernel.clone()).collect()
        };
        Summary {
            kernels: reports.len(),
            median_error: median_error(reports),
            spill_unforeseen: names(&|r| r.spills() > 0 && r.predicted <= r.fits),
            slow: names(&|r| r.time > SLOWEST),
            slowest: reports.iter().map(|r| r.time).max().unwrap_or_default(),
        }
    }

    fn json_line(&self, architecture: &str) -> String {
        let list = |names: &[String]| {
            let quoted: Vec<String> = names.iter().map(|n| format!("\"{n}\"")).collect();
            quoted.join(",")
        };
        format!(
            "{{\"summary\":\"{architecture}\",\"kernels\":{},\"median_error\":{:.3},\"spill_unforeseen\":[{}],\
             \"slower_than_{}_ms\":[{}],\"slowest_ms\":{}}}",
            self.kernels,
            self.median_error,
            list(&self.spill_unforeseen),
            SLOWEST.as_millis(),
            list(&self.slow),
            self.slowest.as_millis(),
        )
    }

    /// Why predictions are not good enough.
    fn objection(&self) -> Option<String> {
        if self.median_error > MEDIAN_ERROR {
            return Some(format!("predicted registers are {:.1} % off", 100.0 * self.median_error));
        }
        let spill = &self.spill_unforeseen;
        (!spill.is_empty()).then(|| format!("these were predicted to fit and spill: {}", spill.join(", ")))
    }
}

/// By how much predicted registers differ from those that there are, of them: the median.
fn median_error(reports: &[Report]) -> f64 {
    let error = |report: &Report| {
        f64::from(report.predicted.abs_diff(report.registers)) / f64::from(report.registers.max(1))
    };
    let mut errors: Vec<f64> = reports.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().unwrap_or(0.0)
}

/// How long this thread has run: what else the machine does is not counted where the system tells.
fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Every kernel that is checked: those written by hand, and those of the tests' and benches' blocks.
fn kernels(architecture: &str) -> Result<Vec<Kernel>, String> {
    let mut kernels = examples();
    kernels.extend(suite::planned_kernels(architecture)?);
    Ok(kernels)
}

fn examples() -> Vec<Kernel> {
    let examples = [examples::row_sum(), examples::transpose(), examples::attention()];
    examples.into_iter().filter_map(Result::ok).collect()
}

/// Compiles a kernel as the runtime does: one of which registers are moved to memory again, for fewer blocks at a time.
fn compile(toolchain: &Toolchain, kernel: &Kernel, architecture: &str) -> Result<Report, String> {
    let mut first = compile_text(toolchain, kernel, architecture)?;
    for _ in 0..AGAIN {
        if first.time > SLOWEST {
            first.time = first.time.min(compile_text(toolchain, kernel, architecture)?.time);
        }
    }
    if first.spills() == 0 || kernel.geometry.resident_blocks > 0 {
        return Ok(first);
    }
    let mut roomy = kernel.clone();
    roomy.geometry.resident_blocks = 1;
    let second = compile_text(toolchain, &roomy, architecture)?;
    Ok(if second.spills() < first.spills() { second } else { first })
}

fn compile_text(toolchain: &Toolchain, kernel: &Kernel, architecture: &str) -> Result<Report, String> {
    let facts = vec![true; kernel.facts.len()];
    let mut options = compile_options(kernel, &facts);
    options.push(format!("--gpu-architecture={architecture}"));
    options.push("--ptxas-options=-v".to_owned());
    let text = print_cuda(kernel);
    let start = (thread_time(), Instant::now());
    let (cubin, log) = toolchain.nvrtc.compile(&text, &options, Output::Cubin)?;
    let mut report = read_log(&log);
    report.time = match (start.0, thread_time()) {
        (Some(before), Some(after)) => after - before,
        _ => start.1.elapsed(),
    };
    report.predicted = registers::predict(kernel, architecture);
    report.kernel.clone_from(&kernel.name);
    let blocks = kernel.geometry.resident_blocks.max(1);
    report.fits = (REGISTERS / (kernel.geometry.threads() * blocks)).min(registers::MOST);
    // One file a process and kernel: tests run at the same time.
    let name = format!("fuse-{}-{}-{architecture}.cubin", std::process::id(), kernel.name);
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, cubin).map_err(|e| e.to_string())?;
    let output = Command::new(&toolchain.nvdisasm).arg("-c").arg(&path).output();
    let removed = std::fs::remove_file(&path);
    let output = output.map_err(|e| format!("nvdisasm does not start: {e}"))?;
    removed.map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    count_instructions(&String::from_utf8_lossy(&output.stdout), &mut report);
    Ok(report)
}

impl Report {
    /// Bytes that are moved for want of registers.
    fn spills(&self) -> u32 {
        self.spill_stores + self.spill_loads
    }
}

/// The numbers that `ptxas -v` writes.
fn read_log(log: &str) -> Report {
    let mut report = Report::default();
    for part in log.lines().flat_map(|line| line.split([',', ':'])) {
        let words: Vec<&str> = part.split_whitespace().collect();
        let number = |k: usize| words.get(k).and_then(|w| w.parse().ok()).unwrap_or(0);
        match words.as_slice() {
            [.., "Used", _, "registers"] => report.registers = number(words.len() - 2),
            [_, "bytes", "stack", "frame"] => report.stack = number(0),
            [_, "bytes", "spill", "stores"] => report.spill_stores = number(0),
            [_, "bytes", "spill", "loads"] => report.spill_loads = number(0),
            [_, "bytes", "smem"] => report.static_shared = number(0),
            _ => {}
        }
    }
    report
}

/// Counts the instructions of a disassembly, and those that move 16 bytes between global memory and a lane.
fn count_instructions(assembly: &str, report: &mut Report) {
    for line in assembly.lines().filter(|l| l.trim_start().starts_with("/*")) {
        let text = line.split("*/").nth(1).unwrap_or_default();
        let mnemonic = text.split_whitespace().find(|w| !w.starts_with('@')).unwrap_or_default();
        if mnemonic.is_empty() || !mnemonic.starts_with(|c: char| c.is_ascii_uppercase()) {
            continue;
        }
        report.instructions += 1;
        report.local += usize::from(mnemonic.starts_with("LDL") || mnemonic.starts_with("STL"));
        let wide = mnemonic.split('.').any(|part| part == "128");
        report.loads_16 += usize::from(wide && mnemonic.starts_with("LDG"));
        report.stores_16 += usize::from(wide && mnemonic.starts_with("STG"));
    }
}

fn json_line(kernel: &Kernel, architecture: &str, report: &Report) -> String {
    let Report { registers, predicted, stack, spill_stores, spill_loads, instructions, .. } = report;
    let (loads_16, stores_16, local) = (report.loads_16, report.stores_16, report.local);
    let time = report.time.as_millis();
    let dynamic = kernel.geometry.shared_bytes.as_const();
    let shared = dynamic.map_or("null".to_owned(), |n| (n + u64::from(report.static_shared)).to_string());
    format!(
        "{{\"kernel\":\"{}\",\"arch\":\"{architecture}\",\"threads\":{},\"registers\":{registers},\"predicted\":{predicted},\
         \"stack\":{stack},\"spill_stores\":{spill_stores},\"spill_loads\":{spill_loads},\"shared\":{shared},\
         \"instructions\":{instructions},\"loads_16\":{loads_16},\"stores_16\":{stores_16},\"local\":{local},\"nvrtc_ms\":{time}}}",
        kernel.name,
        kernel.geometry.threads(),
    )
}

/// Why a kernel is not good enough.
fn objection(report: &Report) -> Option<String> {
    let (spilled, fits) = (report.spills(), report.fits);
    if spilled > 0 {
        let predicted = report.predicted;
        return Some(format!("spills {spilled} bytes; {predicted} of {fits} registers were predicted"));
    }
    if report.time > SLOWEST {
        return Some(format!("takes NVRTC {} ms", report.time.as_millis()));
    }
    (report.registers > fits).then(|| format!("uses {} registers of {fits}", report.registers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The toolchain, or none with a word about it; where it is required its absence is a failure.
    fn toolchain() -> Option<Toolchain> {
        match cuda_toolchain::find() {
            Ok(toolchain) => Some(toolchain),
            Err(message) if std::env::var_os("FUSE_REQUIRE_CUDA_TOOLCHAIN").is_some() => panic!("{message}"),
            Err(message) => {
                println!("skipped: {message}");
                None
            }
        }
    }

    #[test]
    fn kernels_compile_and_do_not_spill() {
        let Some(toolchain) = toolchain() else { return };
        for kernel in examples() {
            for architecture in ARCHITECTURES {
                let report = compile(&toolchain, &kernel, architecture)
                    .unwrap_or_else(|log| panic!("`{}` on {architecture}: {log}", kernel.name));
                // How long that takes is the machine's business here.
                let report = Report { time: Duration::ZERO, ..report };
                assert_eq!(objection(&report), None, "{}", kernel.name);
                assert!(report.registers > 0 && report.instructions > 0, "{report:?}");
            }
        }
    }

    /// Of the kernels of tests and benches every so manieth, others for each architecture.
    const SAMPLE: usize = 24;

    #[test]
    fn registers_of_a_sample_are_as_predicted_and_none_spill() {
        let Some(toolchain) = toolchain() else { return };
        for (offset, architecture) in ARCHITECTURES.into_iter().enumerate() {
            let kernels = kernels(architecture).unwrap_or_else(|message| panic!("{message}"));
            let reports: Vec<Report> = kernels
                .iter()
                .skip(offset * SAMPLE / ARCHITECTURES.len())
                .step_by(SAMPLE)
                .map(|kernel| {
                    let report = compile(&toolchain, kernel, architecture);
                    report.unwrap_or_else(|log| panic!("`{}` on {architecture}: {log}", kernel.name))
                })
                .collect();
            let summary = Summary::of(&reports);
            println!("{}", summary.json_line(architecture));
            assert!(summary.kernels >= 20, "a sample of {}", summary.kernels);
            assert_eq!(summary.objection(), None, "{architecture}");
            for report in reports {
                let report = Report { time: Duration::ZERO, ..report };
                assert_eq!(objection(&report), None, "`{}` on {architecture}", report.kernel);
            }
        }
    }

    #[test]
    fn a_summary_names_what_spills_unforeseen_and_what_is_slow() {
        let report = |kernel: &str, predicted, spill_stores, time| Report {
            kernel: kernel.to_owned(),
            registers: 100,
            fits: 128,
            predicted,
            spill_stores,
            time: Duration::from_millis(time),
            ..Report::default()
        };
        let reports = [report("a", 100, 0, 600), report("b", 120, 8, 30), report("c", 200, 8, 40)];
        let summary = Summary::of(&reports);
        assert_eq!(summary.spill_unforeseen, ["b"], "the registers of `c` were not predicted to fit");
        assert_eq!(summary.slow, ["a"]);
        assert_eq!(
            summary.json_line("sm_90"),
            "{\"summary\":\"sm_90\",\"kernels\":3,\"median_error\":0.200,\"spill_unforeseen\":[\"b\"],\
             \"slower_than_500_ms\":[\"a\"],\"slowest_ms\":600}"
        );
        assert!(summary.objection().is_some_and(|why| why.ends_with(": b")));
        assert_eq!(Summary::of(&reports[..1]).objection(), None);
        let far = Summary::of(&[report("d", 60, 0, 1)]);
        assert_eq!(far.objection().as_deref(), Some("predicted registers are 40.0 % off"));
    }

    #[test]
    fn the_error_of_predictions_is_their_median() {
        let report = |predicted| Report { registers: 20, predicted, ..Report::default() };
        assert_eq!(median_error(&[]), 0.0);
        assert_eq!(median_error(&[report(10), report(20), report(25)]), 0.25);
    }

    #[test]
    fn the_log_of_the_assembler_is_read() {
        let log = "ptxas info    : Function properties for fuse_a\n    \
                   8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
                   ptxas info    : Used 32 registers, used 1 barriers, 64 bytes smem, 400 bytes cmem[0]\n";
        let report = read_log(log);
        assert_eq!((report.registers, report.stack, report.static_shared), (32, 8, 64));
        assert_eq!((report.spill_stores, report.spill_loads), (4, 12));
        let mut report = Report::default();
        let assembly = "        /*0010*/  LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;\n        \
                        /*0020*/  @!P0 STG.E.128 desc[UR4][R2.64], R4 ;\n        /*0030*/  EXIT ;\n.L_x_1:\n";
        count_instructions(assembly, &mut report);
        assert_eq!((report.instructions, report.loads_16, report.stores_16), (3, 1, 1));
    }
}
