//! Machine code on disk: it is used if it is whole and the user's own, and nothing that is wrong with the folder or a file
//! fails a call.

use crate::*;
use fuse::Tensor;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// A folder of a test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fuse-standin-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the folder for temporary files is writable");
        fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("it is this process's own");
        Folder(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).expect("a folder").flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    }

    /// The only file.
    #[track_caller]
    fn file(&self) -> PathBuf {
        let files = self.files();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::set_permissions(&self.0, Permissions::from_mode(0o700));
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Calls a kernel in a process with that folder for the cache, and says how often it compiled.
#[track_caller]
fn compiles(folder: impl AsRef<OsStr>) -> u64 {
    run(Child::new(Found::StandIn, Found::StandIn, &only("standin::cache::one_call"))
        .env("FUSE_CACHE_DIR", folder))
}

#[track_caller]
fn run(child: Child) -> u64 {
    let printed = child.env("FUSE_PRINT", "1").run();
    let count = printed.lines().find_map(|line| line.strip_prefix("compiled "));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{printed}"))
}

/// What the processes of the other tests run.
#[test]
fn one_call() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let x = Tensor::full(2.0f32, [2, 2], &device)?;
    scale(&x, 2.0)?;
    let report = StandIn::Driver.report();
    assert_eq!((report.count("cuModuleLoadData"), report.count("cuLaunchKernel")), (1, 1));
    drop((x, device));
    check_end();
    let count = StandIn::Compiler.report().count("nvrtcCompileProgram");
    if std::env::var_os("FUSE_PRINT").is_some() {
        write_line(&format!("compiled {count}"));
    }
    Ok(())
}

#[test]
fn code_is_kept_for_the_next_process() {
    let folder = Folder::new("kept");
    assert_eq!([compiles(&folder.0), compiles(&folder.0)], [1, 0]);
    let file = folder.file();
    assert_eq!(fs::metadata(&file).map(|m| m.mode() & 0o777).ok(), Some(0o600));
    // A folder that is not there yet is made.
    let inner = folder.0.join("inner");
    assert_eq!([compiles(&inner), compiles(&inner)], [1, 0]);
    assert_eq!(fs::metadata(&inner).map(|m| m.mode() & 0o777).ok(), Some(0o700));
    assert_eq!([compiles(""), compiles("")], [1, 1]);
}

#[test]
fn another_architecture_or_compiler_has_code_of_its_own() {
    let folder = Folder::new("keys");
    assert_eq!(compiles(&folder.0), 1);
    let other = |name: &str, value: &str| {
        let child = Child::new(Found::StandIn, Found::StandIn, &only("standin::cache::one_call"));
        run(child.env("FUSE_CACHE_DIR", &folder.0).env(name, value))
    };
    for (name, value) in [("STANDIN_CAPABILITY", "80"), ("STANDIN_VERSION", "13010")] {
        assert_eq!([other(name, value), other(name, value)], [1, 0], "{name}");
    }
    assert_eq!(folder.files().len(), 3);
}

#[test]
fn a_file_that_is_cut_or_changed_is_compiled_anew() {
    let folder = Folder::new("corrupt");
    assert_eq!(compiles(&folder.0), 1);
    let file = folder.file();
    let good = fs::read(&file).expect("a file");
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    for (what, bad) in [("cut", &good[..good.len() - 30]), ("empty", &[]), ("changed", &changed)] {
        fs::write(&file, bad).expect("it is this process's own");
        assert_eq!(compiles(&folder.0), 1, "{what}");
        assert_eq!(fs::read(&file).ok().as_deref(), Some(&good[..]), "it is written anew");
        assert_eq!(compiles(&folder.0), 0, "{what}");
    }
    fs::remove_file(&file).and_then(|()| fs::create_dir(&file)).expect("the folder is this process's own");
    assert_eq!(compiles(&folder.0), 1, "a folder in its place");
    assert_eq!(folder.files().len(), 1, "nothing is left beside");
}

#[test]
fn what_others_own_or_may_write_is_left_alone() {
    let folder = Folder::new("foreign");
    assert_eq!(compiles(&folder.0), 1);
    let file = folder.file();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("its owner may");
    mode(&file, 0o666);
    assert_eq!(compiles(&folder.0), 1, "a file that all may write");
    assert_eq!(compiles(&folder.0), 0, "it has been replaced by one of the process's own");
    mode(&folder.0, 0o777);
    assert_eq!([compiles(&folder.0), compiles(&folder.0)], [1, 1], "a folder that all may write");
    mode(&folder.0, 0o700);
    assert_eq!(compiles(&folder.0), 0);
    // Only root may give files to others.
    if chown(&file, Some(65534), None).is_ok() {
        assert_eq!(compiles(&folder.0), 1, "a file of another user");
    }
    if chown(&folder.0, Some(65534), None).is_ok() {
        assert_eq!([compiles(&folder.0), compiles(&folder.0)], [1, 1], "a folder of another user");
    }
}

#[test]
fn a_folder_that_cannot_be_written() {
    let folder = Folder::new("read-only");
    fs::set_permissions(&folder.0, Permissions::from_mode(0o500)).expect("it is this process's own");
    // Root may write all the same, but not here.
    let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let path = if root { Path::new("/proc") } else { &folder.0 };
    assert_eq!([compiles(path), compiles(path)], [1, 1]);
    assert_eq!([compiles("/proc/none"), compiles("/dev/null"), compiles("/dev/null/none")], [1, 1, 1]);
}

/// No file may have more than 1 KiB, so that the space ends in the middle of a kernel.
#[test]
fn a_disk_without_space() {
    let folder = Folder::new("full");
    let script = r#"trap '' XFSZ; ulimit -f 1; exec "$@""#;
    for _ in 0..2 {
        let child = Child::in_shell(script, &only("standin::cache::one_call"));
        assert_eq!(run(child.env("FUSE_CACHE_DIR", &folder.0)), 1);
        assert!(folder.files().is_empty(), "{:?} is left of the file", folder.files());
    }
    assert_eq!([compiles(&folder.0), compiles(&folder.0)], [1, 0]);
}
