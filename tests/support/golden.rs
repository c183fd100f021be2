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

/// A test that the plans of kernels, each with its number of launches, are the golden ones of a folder.
macro_rules! plans {
    ($folder:literal, $($kernel:ident: $launches:literal,)*) => {
        #[test]
        fn plans_are_golden() {
            $(
                assert_eq!($kernel::plan().launch_count(), $launches, "launches of {}", stringify!($kernel));
                let file = concat!($folder, "/", stringify!($kernel), ".txt");
                $crate::golden::check(file, &$kernel::plan().to_string());
            )*
        }
    };
}

pub(crate) use plans;
