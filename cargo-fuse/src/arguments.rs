//! The command line.

use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// What `fuse!` made of each kernel of a crate, and why.
#[derive(Parser, Debug)]
#[command(name = "cargo fuse", bin_name = "cargo fuse", version, after_help = EXIT)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT: &str = "\
Kernels are those that `cargo check` compiles with the given options: for those of tests and examples add --all-targets.

Exit status: 0 if all is well, 1 if something was found (an unknown kernel, a contract that is not kept, a lock file that
is out of date), 2 if the call is wrong or the build fails.";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Shows launches and, for each edge of the dataflow, whether it was fused and why
    Explain(ExplainArguments),
    /// Prints what was generated of a kernel
    Emit(EmitArguments),
    /// Writes the plans of all kernels of the workspace to `fuse.lock`, or compares them with it
    Lock(LockArguments),
    /// Writes a page of HTML with graphs, decisions, generated code and rooflines
    Report(ReportArguments),
    /// Compiles all kernels for GPUs and keeps the machine code where programs look for it, or where they carry it
    Warm(WarmArguments),
    /// Formats the insides of `fuse! { .. }` blocks, which rustfmt leaves alone
    Fmt(FormatArguments),
    /// Says what this machine has that kernels can use, and what to do about what it lacks
    Doctor,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArguments {
    /// The kernel: `name`, `name::<f16>` or `crate::name`; all if none is named
    #[arg(value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) plan: PlanArguments,
    /// Shows only what was not fused
    #[arg(long)]
    pub(crate) refused: bool,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) cargo: CargoArguments,
}

#[derive(Args, Debug)]
pub(crate) struct EmitArguments {
    /// The kernel: `name`, `name::<f16>` or `crate::name`
    #[arg(value_name = "KERNEL")]
    pub(crate) kernel: String,
    #[command(flatten)]
    pub(crate) what: EmitKind,
    #[command(flatten)]
    pub(crate) plan: PlanArguments,
    #[command(flatten)]
    pub(crate) cargo: CargoArguments,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct EmitKind {
    /// CUDA C++, every variant of every launch
    #[arg(long)]
    pub(crate) cuda: bool,
    /// The Rust loops for the CPU
    #[arg(long)]
    pub(crate) rust: bool,
    /// The dataflow graph
    #[arg(long)]
    pub(crate) graph: bool,
    /// The plan
    #[arg(long)]
    pub(crate) plan: bool,
    /// The kernels for GPUs before they are printed as CUDA C++
    #[arg(long)]
    pub(crate) kernel_ir: bool,
    /// PTX of an architecture, e.g. `sm_90`; needs NVRTC
    #[arg(long, value_name = "ARCHITECTURE")]
    pub(crate) ptx: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct LockArguments {
    /// Writes nothing; says what differs, if anything does
    #[arg(long)]
    pub(crate) check: bool,
    /// The file, in place of `fuse.lock` beside the workspace's `Cargo.toml`
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cargo: CargoArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ReportArguments {
    /// The kernel: `name`, `name::<f16>` or `crate::name`; all if none is named
    #[arg(value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) plan: PlanArguments,
    /// The file, in place of `report.html` in this command's target folder
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cargo: CargoArguments,
}

#[derive(Args, Debug)]
pub(crate) struct WarmArguments {
    /// The kernel: `name`, `name::<f16>` or `crate::name`; all if none is named
    #[arg(value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// The architecture, e.g. `sm_90`; of the GPUs that are here if none is named
    #[arg(long, value_name = "ARCHITECTURE")]
    pub(crate) arch: Vec<String>,
    /// Writes the machine code to this file, which a program carries by `fuse::add_machine_code(include_bytes!(..))`
    #[arg(long, value_name = "PATH")]
    pub(crate) embed: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cargo: CargoArguments,
}

#[derive(Args, Debug)]
pub(crate) struct FormatArguments {
    /// Writes nothing; says what is not formatted, if anything is not
    #[arg(long)]
    pub(crate) check: bool,
    /// Files to format, in place of those of all packages of the workspace
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The edition of the named files
    #[arg(long, default_value = "2024")]
    pub(crate) edition: String,
    #[command(flatten)]
    pub(crate) cargo: WorkspaceArguments,
}

/// What a kernel is planned for, if not for what the build plans it for.
#[derive(Args, Debug, Default)]
pub(crate) struct PlanArguments {
    /// Plans for this machine: `cpu`, `sm_80`, `sm_90`, …
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Plans with this extent of an axis
    #[arg(long, value_name = "AXIS=EXTENT", value_parser = parse_assumption)]
    pub(crate) assume: Vec<(String, u64)>,
}

fn parse_assumption(text: &str) -> Result<(String, u64), String> {
    let (axis, extent) = text.split_once('=').ok_or("an axis and its extent are written `M=4096`")?;
    let extent = extent.trim().parse().map_err(|_| format!("`{extent}` is no extent: a whole number"))?;
    Ok((axis.trim().to_owned(), extent))
}

/// What is passed on to cargo.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Passed on to cargo")]
pub(crate) struct CargoArguments {
    /// Packages to look at
    #[arg(short, long, value_name = "SPEC")]
    pub(crate) package: Vec<String>,
    /// All packages of the workspace
    #[arg(long)]
    pub(crate) workspace: bool,
    /// Packages to leave out
    #[arg(long, value_name = "SPEC")]
    pub(crate) exclude: Vec<String>,
    /// Libraries, programs, examples, tests and benches
    #[arg(long)]
    pub(crate) all_targets: bool,
    /// The library
    #[arg(long)]
    pub(crate) lib: bool,
    /// All programs
    #[arg(long)]
    pub(crate) bins: bool,
    /// A program
    #[arg(long, value_name = "NAME")]
    pub(crate) bin: Vec<String>,
    /// All examples
    #[arg(long)]
    pub(crate) examples: bool,
    /// An example
    #[arg(long, value_name = "NAME")]
    pub(crate) example: Vec<String>,
    /// All tests
    #[arg(long)]
    pub(crate) tests: bool,
    /// A test
    #[arg(long, value_name = "NAME")]
    pub(crate) test: Vec<String>,
    /// All benches
    #[arg(long)]
    pub(crate) benches: bool,
    /// A bench
    #[arg(long, value_name = "NAME")]
    pub(crate) bench: Vec<String>,
    /// Features to switch on
    #[arg(short = 'F', long, value_name = "FEATURES")]
    pub(crate) features: Vec<String>,
    /// All features
    #[arg(long)]
    pub(crate) all_features: bool,
    /// Without the default features
    #[arg(long)]
    pub(crate) no_default_features: bool,
    /// The optimised profile
    #[arg(short, long)]
    pub(crate) release: bool,
    /// A profile
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) workspace_arguments: WorkspaceArguments,
    /// The target folder, in which `fuse` is that of this command
    #[arg(long, value_name = "PATH")]
    pub(crate) target_dir: Option<PathBuf>,
}

/// What every command of cargo takes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Passed on to cargo")]
pub(crate) struct WorkspaceArguments {
    /// The manifest of the crate
    #[arg(long, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,
    /// Settings of cargo
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,
    /// With `Cargo.lock` as it is
    #[arg(long)]
    pub(crate) locked: bool,
    /// Without the network
    #[arg(long)]
    pub(crate) offline: bool,
    /// Both
    #[arg(long)]
    pub(crate) frozen: bool,
    /// Without cargo's progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl WorkspaceArguments {
    /// As cargo takes them.
    pub(crate) fn list(&self) -> Vec<OsString> {
        let mut list = Vec::new();
        let mut flag = |set: bool, name: &str| {
            if set {
                list.push(OsString::from(name));
            }
        };
        flag(self.locked, "--locked");
        flag(self.offline, "--offline");
        flag(self.frozen, "--frozen");
        flag(self.quiet, "--quiet");
        if let Some(path) = &self.manifest_path {
            list.extend([OsString::from("--manifest-path"), path.clone().into()]);
        }
        for setting in &self.config {
            list.extend(["--config".into(), setting.into()]);
        }
        list
    }
}

impl CargoArguments {
    /// What `cargo check` takes beside that.
    pub(crate) fn check_arguments(&self) -> Vec<OsString> {
        let flags = [
            (self.workspace, "--workspace"),
            (self.all_targets, "--all-targets"),
            (self.lib, "--lib"),
            (self.bins, "--bins"),
            (self.examples, "--examples"),
            (self.tests, "--tests"),
            (self.benches, "--benches"),
            (self.all_features, "--all-features"),
            (self.no_default_features, "--no-default-features"),
            (self.release, "--release"),
        ];
        let lists = [
            (&self.package, "--package"),
            (&self.exclude, "--exclude"),
            (&self.bin, "--bin"),
            (&self.example, "--example"),
            (&self.test, "--test"),
            (&self.bench, "--bench"),
            (&self.features, "--features"),
        ];
        let mut list: Vec<OsString> =
            flags.iter().filter(|(set, _)| *set).map(|(_, name)| OsString::from(name)).collect();
        for (values, name) in lists {
            list.extend(values.iter().flat_map(|value| [OsString::from(name), OsString::from(value)]));
        }
        if let Some(profile) = &self.profile {
            list.extend(["--profile".into(), profile.into()]);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Command};
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_cargo_takes_is_passed_on() {
        let line = "cargo-fuse explain softmax --assume M=4096 --target sm_90 -p a --package b --features x,y \
                    --all-targets --manifest-path dir/Cargo.toml --offline";
        let arguments = Arguments::try_parse_from(line.split_whitespace()).expect("a line");
        let Command::Explain(explain) = arguments.command else { panic!("it is `explain`") };
        assert_eq!(explain.kernel.as_deref(), Some("softmax"));
        assert_eq!(explain.plan.assume, [("M".to_owned(), 4096)]);
        assert_eq!(
            explain.cargo.check_arguments(),
            ["--all-targets", "--package", "a", "--package", "b", "--features", "x,y"]
        );
        assert_eq!(
            explain.cargo.workspace_arguments.list(),
            ["--offline", "--manifest-path", "dir/Cargo.toml"]
        );
    }

    #[test]
    fn wrong_calls_say_what_is_expected() {
        let say = |line: &str| {
            let error = Arguments::try_parse_from(line.split_whitespace()).expect_err("a wrong line");
            error.to_string()
        };
        assert!(say("cargo-fuse explain --assume M").contains("an axis and its extent are written `M=4096`"));
        assert!(say("cargo-fuse explain --assume M=x").contains("`x` is no extent: a whole number"));
        assert!(
            say("cargo-fuse emit k")
                .contains("<--cuda|--rust|--graph|--plan|--kernel-ir|--ptx <ARCHITECTURE>>")
        );
        assert!(say("cargo-fuse emit k --cuda --rust").contains("cannot be used with"));
    }
}
