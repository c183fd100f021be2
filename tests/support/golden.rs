//! Golden files: what a stage printed once, looked at and kept. `cargo xtask bless` (or `FUSE_BLESS=1`) rewrites them.

use std::path::Path;

/// Asserts that `text` equals the file `tests/golden/NAME`, or writes it there if blessing.
#[track_caller]
pub(crate) fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("FUSE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a golden file lies in a folder"))
            .expect("the folder of golden files");
        std::fs::write(&path, text).expect("a golden file");
        return;
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == want,
        "{name} differs; `cargo xtask bless` rewrites it\n--- golden\n{want}\n--- now\n{text}"
    );
}
