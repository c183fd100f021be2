//! Machine code that a program carries, so that it needs no NVRTC where it runs: archives that `cargo fuse warm --embed`
//! writes and [`add_machine_code`] takes in.
//!
//! An archive holds, for each kernel and architecture, what the folder on disk would: the whole key, so that only the very
//! text that is to be run is found, and the code. The compiler's version is no part of the key, since where there is no
//! compiler none can be asked for; it is kept for what is said when a driver refuses the code.

use super::disk_cache::{Key, checksum, head};
use crate::error::Error;
use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};

const MAGIC: &[u8; 8] = b"fusearc1";

/// Machine code of kernels, for a program to carry.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MachineCode {
    /// By key, so that what is written does not depend on the order in which it was compiled.
    entries: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    /// 90 for `sm_90`.
    architecture: u32,
    /// NVRTC's version, major and minor.
    compiler: (i32, i32),
    code: Vec<u8>,
}

impl MachineCode {
    /// None yet.
    pub fn new() -> MachineCode {
        MachineCode::default()
    }

    /// Whether a file that begins with these bytes is an archive, of whatever version.
    pub fn is_archive(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// How many codes there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds the code of a text under these options, the architecture among them.
    pub(super) fn insert(
        &mut self,
        (text, options): (&str, &[String]),
        architecture: u32,
        compiler: (i32, i32),
        code: Vec<u8>,
    ) {
        self.entries.insert(key(text, options), Entry { architecture, compiler, code });
    }

    /// The archive.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        write_part(&mut bytes, env!("CARGO_PKG_VERSION").as_bytes());
        write_number(&mut bytes, self.entries.len() as u64);
        for (key, Entry { architecture, compiler: (major, minor), code }) in &self.entries {
            for number in [u64::from(*architecture), *major as u64, *minor as u64] {
                write_number(&mut bytes, number);
            }
            write_part(&mut bytes, key);
            write_part(&mut bytes, code);
        }
        let sum = checksum(&bytes);
        write_number(&mut bytes, sum);
        bytes
    }
}

/// What code is found by: its text and options, under this version of the crate.
fn key(text: &str, options: &[String]) -> Vec<u8> {
    head(&Key { text, options, compiler: "" })
}

fn write_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn write_part(bytes: &mut Vec<u8>, part: &[u8]) {
    write_number(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}

/// Code that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Embedded {
    pub(super) code: &'static [u8],
    architecture: u32,
    /// The version of the NVRTC that compiled it, major and minor.
    pub(super) compiler: (i32, i32),
}

/// An archive of the program.
#[derive(Debug)]
struct Archive {
    bytes: &'static [u8],
    entries: HashMap<&'static [u8], Embedded>,
}

/// Those that were taken in.
static ARCHIVES: RwLock<Vec<Archive>> = RwLock::new(Vec::new());

/// Takes in machine code that the program carries: the bytes of a file that `cargo fuse warm --embed` has written.
///
/// A GPU for which it has code is used without NVRTC, and kernels that it has are not compiled at run time. It is looked at
/// before the folder of compiled kernels; a kernel that was changed since is compiled as if it were not there. Call it before
/// the GPU is opened, once for each file.
///
/// ```text
/// fuse::add_machine_code(include_bytes!("machine_code.fuse"))?;
/// ```
///
/// # Errors
/// If the bytes are cut or changed, or another version of this crate has written them.
pub fn add_machine_code(bytes: &'static [u8]) -> Result<(), Error> {
    let mut archives = ARCHIVES.write().unwrap_or_else(PoisonError::into_inner);
    if archives.iter().any(|archive| std::ptr::eq(archive.bytes, bytes)) {
        return Ok(());
    }
    let entries = read(bytes).map_err(|what| Error::MachineCode { what })?;
    archives.push(Archive { bytes, entries });
    Ok(())
}

/// Whether the program carries code for an architecture.
pub(super) fn has_architecture(architecture: u32) -> bool {
    let archives = ARCHIVES.read().unwrap_or_else(PoisonError::into_inner);
    archives.iter().any(|archive| archive.entries.values().any(|entry| entry.architecture == architecture))
}

/// The code of a text under these options, the architecture among them.
pub(super) fn find(text: &str, options: &[String]) -> Option<Embedded> {
    let archives = ARCHIVES.read().unwrap_or_else(PoisonError::into_inner);
    if archives.is_empty() {
        return None;
    }
    let key = key(text, options);
    archives.iter().find_map(|archive| archive.entries.get(key.as_slice()).copied())
}

/// Reads an archive.
fn read(bytes: &'static [u8]) -> Result<HashMap<&'static [u8], Embedded>, String> {
    let broken = || "it is cut, changed, or no archive of machine code".to_owned();
    let mut rest = bytes.strip_prefix(MAGIC.as_slice()).ok_or_else(broken)?;
    let (contents, sum) = bytes.split_last_chunk::<8>().ok_or_else(broken)?;
    if u64::from_le_bytes(*sum) != checksum(contents) {
        return Err(broken());
    }
    let (own, version) = (env!("CARGO_PKG_VERSION"), read_part(&mut rest).ok_or_else(broken)?);
    if version != own.as_bytes() {
        let version = String::from_utf8_lossy(version);
        return Err(format!("it was written by fuse-kernels {version}, this is {own}"));
    }
    let count = read_number(&mut rest).ok_or_else(broken)?;
    let mut entries = HashMap::new();
    for _ in 0..count {
        let (key, entry) = read_entry(&mut rest).ok_or_else(broken)?;
        entries.insert(key, entry);
    }
    Ok(entries)
}

fn read_entry(rest: &mut &'static [u8]) -> Option<(&'static [u8], Embedded)> {
    let architecture = u32::try_from(read_number(rest)?).ok()?;
    let mut version = || i32::try_from(read_number(rest)?).ok();
    let compiler = (version()?, version()?);
    let (key, code) = (read_part(rest)?, read_part(rest)?);
    Some((key, Embedded { code, architecture, compiler }))
}

fn read_number(rest: &mut &'static [u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

fn read_part(rest: &mut &'static [u8]) -> Option<&'static [u8]> {
    let length = usize::try_from(read_number(rest)?).ok()?;
    let (part, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(architecture: u32) -> Vec<String> {
        vec![format!("--gpu-architecture=sm_{architecture}")]
    }

    /// An archive of two codes for architectures that no GPU has.
    fn archive() -> MachineCode {
        let mut code = MachineCode::new();
        code.insert(("text", &options(7001)), 7001, (12, 8), b"first".to_vec());
        code.insert(("text", &options(7002)), 7002, (13, 0), b"second".to_vec());
        code
    }

    fn leak(bytes: Vec<u8>) -> &'static [u8] {
        Vec::leak(bytes)
    }

    #[test]
    fn code_is_found_by_its_text_and_options_alone() {
        assert_eq!(find("text", &options(7001)), None);
        let bytes = leak(archive().to_bytes());
        add_machine_code(bytes).expect("it was just written");
        add_machine_code(bytes).expect("it is there already");
        let found = find("text", &options(7001)).expect("it is there");
        assert_eq!((found.code, found.compiler), (&b"first"[..], (12, 8)));
        assert_eq!(find("text", &options(7002)).map(|found| found.code), Some(&b"second"[..]));
        assert_eq!(find("texts", &options(7001)), None);
        assert_eq!(find("text", &options(7003)), None);
        assert_eq!([7001, 7002, 7003].map(has_architecture), [true, true, false]);
    }

    #[test]
    fn the_order_of_compilation_does_not_matter() {
        let mut other = MachineCode::new();
        other.insert(("text", &options(7002)), 7002, (13, 0), b"second".to_vec());
        other.insert(("text", &options(7001)), 7001, (12, 8), b"first".to_vec());
        assert_eq!(other.to_bytes(), archive().to_bytes());
        assert_eq!((other.len(), MachineCode::new().is_empty()), (2, true));
    }

    #[test]
    fn what_is_cut_or_changed_is_refused() {
        let good = archive().to_bytes();
        for cut in 0..good.len() {
            assert!(read(leak(good[..cut].to_vec())).is_err(), "cut to {cut} bytes");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(read(leak(bad)).is_err(), "byte {at} changed");
        }
        let error = add_machine_code(b"no archive").expect_err("it is none");
        let text = "the machine code cannot be used: it is cut, changed, or no archive of machine code; \
                    `cargo fuse warm --embed` writes it anew";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn another_version_is_named() {
        let own = env!("CARGO_PKG_VERSION");
        let mut bytes = MAGIC.to_vec();
        write_part(&mut bytes, b"9.8.7");
        write_number(&mut bytes, 0);
        let sum = checksum(&bytes);
        write_number(&mut bytes, sum);
        let expected = format!("it was written by fuse-kernels 9.8.7, this is {own}");
        assert_eq!(read(leak(bytes)).err(), Some(expected));
    }
}
