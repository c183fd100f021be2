//! Machine code, kept on disk: a file for each text, set of options, architecture and compiler.
//!
//! A file carries its whole key, the text included, and a sum over its contents, so that neither a name that two keys share
//! nor a file that was cut short gives wrong code. Files are written beside and renamed. The folder is the user's own:
//! one that belongs to somebody else, or that others may write, is left alone, since code in it would run in this
//! process's name. Whatever goes wrong, the text is compiled as if there were no cache.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the code in a file depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) text: &'a str,
    pub(crate) options: &'a [String],
    /// NVRTC's version.
    pub(crate) compiler: &'a str,
}

const MAGIC: &[u8; 8] = b"fusecub1";

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub(crate) struct DiskCache {
    folder: PathBuf,
}

impl DiskCache {
    /// The folder that `FUSE_CACHE_DIR` names; else `fuse-kernels` in the user's folder for caches. None if
    /// `FUSE_CACHE_DIR` is set and empty, or there is no such folder.
    pub(crate) fn of_user() -> Option<DiskCache> {
        DiskCache::open(DiskCache::folder_of_user().ok()?)
    }

    /// The name of that folder.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn folder_of_user() -> Result<PathBuf, String> {
        match std::env::var_os("FUSE_CACHE_DIR") {
            Some(folder) if folder.is_empty() => {
                Err("FUSE_CACHE_DIR is empty, so nothing is kept; unset it, or let it name a folder"
                    .to_owned())
            }
            Some(folder) => Ok(PathBuf::from(folder)),
            None => match user_cache_folder() {
                Some(folder) => Ok(folder.join("fuse-kernels")),
                None => Err("the user has no folder; let FUSE_CACHE_DIR name one".to_owned()),
            },
        }
    }

    /// That folder, made if it is not there; `None` if it is not the user's own.
    pub(crate) fn open(folder: PathBuf) -> Option<DiskCache> {
        create_private(&folder).ok()?;
        is_own(&folder).then_some(DiskCache { folder })
    }

    /// The code that was kept for a key.
    pub(crate) fn load(&self, key: &Key<'_>) -> Option<Vec<u8>> {
        let path = self.path(key);
        if !is_own(&path) {
            return None;
        }
        let file = fs::read(path).ok()?;
        let (contents, sum) = file.split_last_chunk::<8>()?;
        if u64::from_le_bytes(*sum) != checksum(contents) {
            return None;
        }
        contents.strip_prefix(head(key).as_slice()).map(<[u8]>::to_vec)
    }

    /// Keeps code for a key. That it cannot be kept is no error.
    pub(crate) fn store(&self, key: &Key<'_>, code: &[u8]) {
        let mut contents = head(key);
        contents.extend_from_slice(code);
        contents.extend_from_slice(&checksum(&contents).to_le_bytes());
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let beside = self.folder.join(format!("{}.{number}.tmp", std::process::id()));
        let written = write_private(&beside, &contents).and_then(|()| fs::rename(&beside, self.path(key)));
        if written.is_err() {
            // What is left of it would only take space.
            let _ = fs::remove_file(&beside);
        }
    }

    fn path(&self, key: &Key<'_>) -> PathBuf {
        self.folder.join(format!("{:016x}.cubin", checksum(&head(key))))
    }
}

/// The start of a key's file: everything that the code depends on, each part with its length.
pub(super) fn head(key: &Key<'_>) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    let mut part = |bytes: &[u8]| {
        head.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        head.extend_from_slice(bytes);
    };
    part(env!("CARGO_PKG_VERSION").as_bytes());
    part(key.compiler.as_bytes());
    key.options.iter().for_each(|option| part(option.as_bytes()));
    part(b"");
    part(key.text.as_bytes());
    head
}

/// FNV-1a over 64 bits: it finds what was cut short or changed by accident. Malice is kept out by the owner of the folder.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(not(windows))]
fn user_cache_folder() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache")))
}

#[cfg(windows)]
fn user_cache_folder() -> Option<PathBuf> {
    std::env::var_os("LOCALAPPDATA").map(PathBuf::from)
}

#[cfg(unix)]
fn create_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn create_private(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)
}

fn write_private(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(contents)
}

/// Whether a file or folder belongs to the user of this process and nobody else may write it; what a link points to counts.
/// The user is who owns this process's own entry in `/proc`; where there is none the answer is no.
#[cfg(unix)]
fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(found), Ok(process)) = (fs::metadata(path), fs::metadata("/proc/self")) else { return false };
    found.uid() == process.uid() && found.mode() & 0o022 == 0
}

#[cfg(not(unix))]
fn is_own(path: &Path) -> bool {
    path.exists()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A folder of its own for a test, gone with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("fuse-cache-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }

        fn cache(&self) -> DiskCache {
            DiskCache::open(self.0.clone()).expect("the folder is new")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn options() -> Vec<String> {
        vec!["--gpu-architecture=sm_80".to_owned()]
    }

    #[test]
    fn code_comes_back_for_its_key_alone() {
        let folder = Folder::new("keys");
        let (cache, options) = (folder.cache(), options());
        let key = Key { text: "text", options: &options, compiler: "13.0" };
        assert_eq!(cache.load(&key), None);
        cache.store(&key, b"code");
        assert_eq!(cache.load(&key).as_deref(), Some(&b"code"[..]));
        assert_eq!(cache.load(&Key { text: "texts", ..key }), None);
        assert_eq!(cache.load(&Key { compiler: "13.1", ..key }), None);
        assert_eq!(cache.load(&Key { options: &[], ..key }), None);
        assert_eq!(fs::read_dir(&folder.0).map(Iterator::count).unwrap_or(0), 1, "nothing is left beside");
    }

    #[test]
    fn a_changed_or_cut_file_is_not_used() {
        let folder = Folder::new("corrupt");
        let (cache, options) = (folder.cache(), options());
        let key = Key { text: "text", options: &options, compiler: "13.0" };
        cache.store(&key, b"some machine code");
        let path = cache.path(&key);
        let good = fs::read(&path).expect("stored");
        for cut in 0..good.len() {
            fs::write(&path, &good[..cut]).expect("writable");
            assert_eq!(cache.load(&key), None, "cut to {cut} bytes");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).expect("writable");
            assert_eq!(cache.load(&key), None, "byte {at} changed");
        }
        cache.store(&key, b"some machine code");
        assert!(cache.load(&key).is_some());
    }

    #[test]
    fn what_others_may_write_is_left_alone() {
        let folder = Folder::new("owner");
        let (cache, options) = (folder.cache(), options());
        let key = Key { text: "text", options: &options, compiler: "13.0" };
        cache.store(&key, b"code");
        fs::set_permissions(cache.path(&key), fs::Permissions::from_mode(0o666)).expect("owned");
        assert_eq!(cache.load(&key), None);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("owned");
        assert!(DiskCache::open(folder.0.clone()).is_none());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_cache() {
        let folder = Folder::new("file");
        fs::write(&folder.0, b"a file").expect("writable");
        assert!(DiskCache::open(folder.0.join("inside")).is_none());
        let _ = fs::remove_file(&folder.0);
    }
}
