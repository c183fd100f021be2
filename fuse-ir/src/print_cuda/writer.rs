//! Indented lines.

/// A text that grows by lines.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    pub(super) fn new(depth: usize) -> Self {
        Writer { text: String::new(), depth }
    }

    /// One line at the present depth.
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if !line.is_empty() {
            // Directives stand at the margin.
            if !line.starts_with('#') {
                self.text.push_str(&"    ".repeat(self.depth));
            }
            self.text.push_str(line);
        }
        self.text.push('\n');
    }

    /// Further lines stand one step further in.
    pub(super) fn indent(&mut self) {
        self.depth += 1;
    }

    /// Further lines stand one step further out.
    pub(super) fn outdent(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// The lines.
    pub(super) fn finish(self) -> String {
        self.text
    }
}
