//! The build that is asked: `cargo check` with a folder for the records of expansions.

use crate::arguments::{CargoArguments, WorkspaceArguments};
use crate::failure::Failure;
use crate::kernel::Kernel;
use fuse_compiler::record::{BlockRecord, FORMAT};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a build compiled.
#[derive(Debug)]
pub(crate) struct Build {
    /// The folder of the workspace's manifest.
    pub(crate) workspace_root: PathBuf,
    /// The target folder of this command.
    pub(crate) target_directory: PathBuf,
    /// The kernels, in the order of packages, crates and their source.
    pub(crate) kernels: Vec<Kernel>,
    /// Why there may be more.
    pub(crate) failure: Option<Failure>,
}

/// Checks the crate and gives its kernels. What rustc and cargo say goes to the terminal.
///
/// # Errors
/// If cargo does not start, the build fails, or the crate uses another version of fuse-kernels.
pub(crate) fn check_crate(arguments: &CargoArguments) -> Result<Build, Failure> {
    let mut build = try_crate(arguments)?;
    build.failure.take().map_or(Ok(build), Err)
}

/// The same, but gives the kernels that were planned before a build failed, with the failure.
///
/// # Errors
/// As [`check_crate`], if the build does not even start.
pub(crate) fn try_crate(arguments: &CargoArguments) -> Result<Build, Failure> {
    let metadata = ask_metadata(&arguments.workspace_arguments)?;
    let path = |name: &str| {
        let text = metadata[name].as_str();
        text.map(PathBuf::from).ok_or_else(|| Failure::broken(format!("`cargo metadata` gives no `{name}`")))
    };
    let workspace_root = path("workspace_root")?;
    let target = match &arguments.target_dir {
        Some(folder) => folder.join("fuse"),
        None => choose_target(&path("target_directory")?, &workspace_root),
    };
    let folder = PlanFolder::create(&target)?;
    let (mut packages, failure) = run_check(arguments, &target, &folder.0)?;
    // A crate that fails is nothing that was compiled.
    packages.extend(packages_of(&metadata).into_iter().map(|package| package.folder));
    let kernels = read_records(&folder.0, &packages)?;
    Ok(Build { workspace_root, target_directory: target, kernels, failure })
}

/// This command's folder in the target folder. Where that serves several workspaces each has its own: to cargo a package at
/// the root of a workspace is the same wherever that lies, so that it would take what it compiled of one checkout for
/// another's, and what has no block is not compiled again for a variable.
fn choose_target(folder: &Path, workspace_root: &Path) -> PathBuf {
    let folder = folder.join("fuse");
    if folder.starts_with(workspace_root) {
        return folder;
    }
    let bytes = workspace_root.as_os_str().as_encoded_bytes().iter();
    // FNV-1a: the same in every build, unlike the standard library's.
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    folder.join(format!("{hash:016x}"))
}

/// The program that calls this one, or the one on the path.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

fn not_started(error: &std::io::Error) -> Failure {
    Failure::broken(format!("cargo does not start: {error}"))
}

/// What cargo knows of the workspace.
fn ask_metadata(arguments: &WorkspaceArguments) -> Result<Value, Failure> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .args(arguments.list())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(&error))?;
    if !output.status.success() {
        return Err(Failure::broken("`cargo metadata` fails; the reason stands above"));
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
}

/// A package of the workspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Package {
    /// The folder of its manifest.
    pub(crate) folder: PathBuf,
    /// Its edition.
    pub(crate) edition: String,
}

/// The packages of the workspace.
///
/// # Errors
/// If cargo does not start, or there is no workspace.
pub(crate) fn list_packages(arguments: &WorkspaceArguments) -> Result<Vec<Package>, Failure> {
    Ok(packages_of(&ask_metadata(arguments)?))
}

fn packages_of(metadata: &Value) -> Vec<Package> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let package = |package: &Value| {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Package { folder, edition: package["edition"].as_str()?.to_owned() })
    };
    packages.iter().filter_map(package).collect()
}

/// A folder for the records of one build, removed with them. Its name is new, so that cargo expands every block again: no
/// record of another build is taken for one of this.
struct PlanFolder(PathBuf);

impl PlanFolder {
    fn create(target: &Path) -> Result<PlanFolder, Failure> {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let folder = target.join("plans").join(format!("{}-{}", std::process::id(), time.as_nanos()));
        // The name is compiled into nothing, but rustc runs in another folder.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        fs::create_dir_all(&folder).map_err(|error| {
            Failure::broken(format!("the folder `{}` cannot be made: {error}", folder.display()))
        })?;
        Ok(PlanFolder(folder))
    }
}

impl Drop for PlanFolder {
    fn drop(&mut self) {
        // What is left only takes space.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `cargo check`. Gives the folders of the packages that it compiled from a path: what comes from a registry is not
/// compiled again for a variable that changes, so that its kernels would be there in one run and not in the next. With them
/// comes the failure, if it fails.
fn run_check(
    arguments: &CargoArguments,
    target: &Path,
    folder: &Path,
) -> Result<(BTreeSet<PathBuf>, Option<Failure>), Failure> {
    let output = cargo()
        .args(["check", "--message-format", "json-render-diagnostics", "--target-dir"])
        .arg(target)
        .args(arguments.workspace_arguments.list())
        .args(arguments.check_arguments())
        .env("FUSE_PLAN_DIR", folder)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(&error))?;
    let failure =
        (!output.status.success()).then(|| Failure::broken("`cargo check` fails; the reason stands above"));
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let own = messages.filter(|message| {
        message["reason"] == "compiler-artifact"
            && message["package_id"].as_str().is_some_and(|id| id.starts_with("path+"))
    });
    let manifests = own.filter_map(|message| message["manifest_path"].as_str().map(PathBuf::from));
    Ok((manifests.filter_map(|manifest| manifest.parent().map(Path::to_owned)).collect(), failure))
}

fn read_records(folder: &Path, packages: &BTreeSet<PathBuf>) -> Result<Vec<Kernel>, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::broken(format!("the plans in `{}` cannot be read: {error}", folder.display()))
    };
    let mut records = Vec::new();
    for file in fs::read_dir(folder).map_err(|error| unreadable(&error))? {
        let path = file.map_err(|error| unreadable(&error))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&error))?;
        let record: Value = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        check_version(&record)?;
        let record: BlockRecord = serde_json::from_value(record).map_err(|error| unreadable(&error))?;
        if packages.contains(&record.manifest_dir) {
            records.push(record);
        }
    }
    let key = |record: &BlockRecord| {
        let place = record.kernels.first().and_then(|kernel| kernel.place.clone());
        let place = place.map(|place| (place.file, place.line, place.column));
        (record.package.clone(), record.crate_name.clone(), place)
    };
    records.sort_by_key(key);
    let mut kernels = Vec::new();
    for record in records {
        for kernel in Kernel::list(record) {
            kernels.push(kernel.ok_or_else(|| unreadable(&"a program of another version"))?);
        }
    }
    Ok(kernels)
}

/// Records are read by the version that wrote them.
fn check_version(record: &Value) -> Result<(), Failure> {
    let own = env!("CARGO_PKG_VERSION");
    let version = record["version"].as_str().unwrap_or("unknown");
    if record["format"] == FORMAT && version == own {
        return Ok(());
    }
    Err(Failure::broken(format!(
        "the package `{}` uses fuse-kernels {version}, this is cargo-fuse {own}; install cargo-fuse of that version",
        record["package"].as_str().unwrap_or_default()
    )))
}

#[cfg(test)]
mod tests {
    use super::{check_version, choose_target};
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn workspaces_that_share_a_target_folder_do_not_share_what_is_compiled() {
        let choose = |folder, root| choose_target(Path::new(folder), Path::new(root));
        assert_eq!(choose("/a/target", "/a"), Path::new("/a/target/fuse"));
        let (a, b) = (choose("/shared", "/a"), choose("/shared", "/b"));
        assert!(a.starts_with("/shared/fuse") && b.starts_with("/shared/fuse") && a != b, "{a:?} {b:?}");
        assert_eq!(choose("/shared", "/a"), a);
    }

    #[test]
    fn records_of_another_version_are_refused_with_both_versions() {
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(check_version(&json!({ "format": 1, "version": own, "package": "demo" })), Ok(()));
        let other = check_version(&json!({ "format": 1, "version": "9.8.7", "package": "demo" }));
        let failure = other.expect_err("another version");
        assert_eq!(failure.code, 2);
        assert_eq!(
            failure.message,
            format!(
                "the package `demo` uses fuse-kernels 9.8.7, this is cargo-fuse {own}; install cargo-fuse of that version"
            )
        );
        assert!(check_version(&json!({ "format": 2, "version": own, "package": "demo" })).is_err());
    }
}
