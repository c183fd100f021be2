//! Stand-ins for NVIDIA's driver and NVRTC, and processes in which they are what `libcuda` and `libnvrtc` name: the
//! libraries are found once a process. Each is one Rust library without dependencies, built here by rustc.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Set in the processes that [`Child`] starts.
const IN_CHILD: &str = "FUSE_STANDIN_CHILD";

/// Which libraries a process finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The stand-in.
    StandIn,
    /// One of a driver that has no graphs.
    Old,
    /// None: every name that is looked for is that of a file that is no library.
    None,
}

/// A process that runs this program again, with stand-ins in place of the driver and NVRTC, and no cache on disk.
pub struct Child(Command);

impl Child {
    /// With these libraries; `arguments` are the program's.
    pub fn new<A: AsRef<OsStr>>(driver: Found, compiler: Found, arguments: &[A]) -> Child {
        let program = std::env::current_exe().expect("a program has a path");
        let mut command = Command::new(program);
        command.args(arguments);
        Child::prepare(command, driver, compiler)
    }

    /// A shell that runs `script`, in which `"$@"` is this program with its arguments.
    pub fn in_shell<A: AsRef<OsStr>>(script: &str, arguments: &[A]) -> Child {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg("sh");
        command.arg(std::env::current_exe().expect("a program has a path")).args(arguments);
        Child::prepare(command, Found::StandIn, Found::StandIn)
    }

    fn prepare(mut command: Command, driver: Found, compiler: Found) -> Child {
        let folders = [libraries("cuda", driver), libraries("nvrtc", compiler)];
        let paths = std::env::join_paths(folders).expect("no colon in a path");
        command.env("LD_LIBRARY_PATH", paths).env("FUSE_CACHE_DIR", "").env(IN_CHILD, "1");
        Child(command)
    }

    /// With a variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Child {
        self.0.env(name, value);
        self
    }

    /// Runs it, and gives what it printed.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn run(mut self) -> String {
        let Output { status, stdout, stderr } = self.0.output().expect("the program starts again");
        let (printed, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{:?} ends with {status}\n{printed}\n{errors}", self.0);
        printed.into_owned()
    }
}

/// Whether this is a process that [`Child`] started.
pub fn in_child() -> bool {
    std::env::var_os(IN_CHILD).is_some()
}

/// A folder with a library, `cuda` or `nvrtc`, or what is none in its place.
pub fn libraries(name: &str, found: Found) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| build(Path::new(env!("CARGO_TARGET_TMPDIR"))));
    let kind = match found {
        Found::StandIn => "standin",
        Found::Old => "old",
        Found::None => "none",
    };
    folder.join(format!("{kind}-{name}"))
}

/// Builds every library in a folder of this process's own, in place of those that processes before have left.
fn build(target: &Path) -> PathBuf {
    let folder = target.join(format!("standin-{}", std::process::id()));
    for entry in std::fs::read_dir(target).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix("standin-"));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    // Tests of another package of the workspace have its folder.
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut sources = folders.map(|folder| folder.join("tests/support/standin"));
    let sources = sources.find(|folder| folder.is_dir()).expect("the sources lie in the workspace");
    let start = |name: &str, kind: &str, options: &[&str]| {
        let folder = folder.join(format!("{kind}-{name}"));
        std::fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        let mut rustc = Command::new(rustc());
        rustc.args(["--edition", "2024", "--crate-type", "cdylib", "-O"]).args(options);
        rustc.arg(sources.join(format!("lib{name}.rs"))).arg("-o").arg(folder.join(format!("lib{name}.so")));
        rustc.spawn().expect("rustc starts")
    };
    let builds = [
        start("cuda", "standin", &[]),
        start("cuda", "old", &["--cfg", "old"]),
        start("nvrtc", "standin", &[]),
    ];
    for name in ["cuda", "nvcuda", "nvrtc"] {
        let folder = folder.join(format!("none-{}", name.trim_start_matches("nv").replace("rtc", "nvrtc")));
        std::fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        for candidate in cudarc::get_lib_name_candidates(name) {
            std::fs::write(folder.join(candidate), "no library")
                .expect("cargo's folder for tests is writable");
        }
    }
    for mut build in builds {
        assert!(build.wait().is_ok_and(|status| status.success()), "a stand-in does not compile");
    }
    folder
}

/// The compiler beside the cargo that built this.
fn rustc() -> PathBuf {
    let beside = Path::new(env!("CARGO")).with_file_name("rustc");
    if beside.exists() { beside } else { PathBuf::from("rustc") }
}

/// One of the two stand-ins, as a process that uses it speaks to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandIn {
    /// That for the driver.
    Driver,
    /// That for NVRTC.
    Compiler,
}

/// What a stand-in has noted.
pub struct Report(String);

impl StandIn {
    fn function<F: Copy>(self, name: &CStr) -> F {
        // SAFETY: callers name a function of a stand-in with the type that it has there; its initialisers do nothing.
        let symbol = unsafe {
            match self {
                StandIn::Driver => cudarc::driver::sys::culib().get::<F>(name.to_bytes()),
                StandIn::Compiler => cudarc::nvrtc::sys::culib().get::<F>(name.to_bytes()),
            }
        };
        *symbol.expect("it is a stand-in")
    }

    /// From now on `skip` calls of that function succeed, then `times` fail with the code.
    pub fn fail(self, call: &str, skip: u64, times: u64, code: u32) {
        let call = CString::new(call).expect("a name has no zero");
        type Fail = unsafe extern "C" fn(*const c_char, u64, u64, u32);
        // SAFETY: the name ends with a zero.
        unsafe { self.function::<Fail>(c"standin_fail")(call.as_ptr(), skip, times, code) }
    }

    /// Sets a number by its name.
    pub fn set(self, name: &str, value: i64) {
        let name = CString::new(name).expect("a name has no zero");
        type Set = unsafe extern "C" fn(*const c_char, i64);
        // SAFETY: the name ends with a zero.
        unsafe { self.function::<Set>(c"standin_set")(name.as_ptr(), value) }
    }

    /// Whether launches cost the driver's stand-in nothing, and are not noted.
    pub fn quiet(self, quiet: bool) {
        self.function::<extern "C" fn(bool)>(c"standin_quiet")(quiet);
    }

    /// What it has noted. Events are given once.
    pub fn report(self) -> Report {
        let mut bytes = vec![0u8; 1 << 20];
        type Write = unsafe extern "C" fn(*mut u8, usize) -> usize;
        // SAFETY: the buffer has the length that is passed.
        let length = unsafe { self.function::<Write>(c"standin_report")(bytes.as_mut_ptr(), bytes.len()) };
        assert!(length <= bytes.len(), "a report of {length} bytes");
        bytes.truncate(length);
        Report(String::from_utf8(bytes).expect("a report is text"))
    }
}

impl Report {
    /// The lines of that kind, without it.
    fn lines(&self, kind: &'static str) -> impl Iterator<Item = &str> {
        self.0.lines().filter_map(move |line| line.strip_prefix(kind)?.strip_prefix(' '))
    }

    fn numbers(&self, kind: &'static str) -> impl Iterator<Item = (&str, u64)> {
        self.lines(kind).filter_map(|line| {
            let (name, number) = line.split_once(' ')?;
            Some((name, number.parse().ok()?))
        })
    }

    /// How often each function was called.
    pub fn calls(&self) -> impl Iterator<Item = (&str, u64)> {
        self.numbers("call")
    }

    /// How often a function was called.
    pub fn count(&self, call: &str) -> u64 {
        self.calls().find(|(name, _)| *name == call).map_or(0, |(_, count)| count)
    }

    /// How many things of that kind there are.
    pub fn live(&self, kind: &str) -> u64 {
        self.numbers("live").find(|(name, _)| *name == kind).expect("a kind that the stand-in has").1
    }

    /// What the library must never be asked for.
    pub fn misuse(&self) -> Vec<&str> {
        self.lines("misuse").collect()
    }

    /// What it was asked for since the last report.
    pub fn events(&self) -> Vec<&str> {
        self.lines("event").collect()
    }
}
