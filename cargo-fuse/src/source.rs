//! The source that rustc compiled, for excerpts.

use fuse_compiler::record::SourceRange;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Files that were read.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: HashMap<PathBuf, Option<String>>,
}

impl Sources {
    /// The text of a file, read once; `None` if it cannot be read.
    pub(crate) fn text(&mut self, directory: &Path, file: &str) -> Option<&str> {
        let path = directory.join(file);
        let text = self.files.entry(path).or_insert_with_key(|path| std::fs::read_to_string(path).ok());
        text.as_deref()
    }
}

/// The bytes of a text that a range names; `None` if the text has no such place, because it is another one.
pub(crate) fn find_bytes(text: &str, range: &SourceRange) -> Option<Range<usize>> {
    let start = find_byte(text, range.line, range.column)?;
    let end = find_byte(text, range.end_line, range.end_column)?;
    (start < end).then_some(start..end)
}

/// Lines and characters count from 1; a character may be that behind the last of its line.
fn find_byte(text: &str, line: u32, column: u32) -> Option<usize> {
    let line = text.split_inclusive('\n').nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    let start = line.as_ptr() as usize - text.as_ptr() as usize;
    let mut places = line.char_indices().map(|(place, _)| place).chain([line.len()]);
    Some(start + places.nth(usize::try_from(column.checked_sub(1)?).ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::find_bytes;
    use fuse_compiler::record::SourceRange;

    fn find(text: &str, (line, column): (u32, u32), (end_line, end_column): (u32, u32)) -> Option<&str> {
        let range = SourceRange { file: "a.rs".into(), line, column, end_line, end_column };
        find_bytes(text, &range).and_then(|bytes| text.get(bytes))
    }

    #[test]
    fn columns_count_characters() {
        let text = "let ä = x;\r\n  y.sum(N)";
        assert_eq!(find(text, (1, 9), (1, 10)), Some("x"));
        assert_eq!(find(text, (2, 3), (2, 11)), Some("y.sum(N)"));
        assert_eq!(find(text, (1, 5), (2, 4)), Some("ä = x;\r\n  y"));
        for place in [(0, 1), (1, 0), (3, 1), (2, 12)] {
            assert_eq!(find(text, place, (2, 11)), None, "{place:?}");
        }
    }
}
