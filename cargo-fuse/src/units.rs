//! Numbers for people.

use std::fmt;

/// A number of bytes in the greatest unit that keeps it readable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut amount = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while amount >= 1024.0 && unit + 1 < units.len() {
            amount /= 1024.0;
            unit += 1;
        }
        write!(f, "{amount:.1} {}", units[unit])
    }
}

/// Seconds as microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Micros(pub(crate) f64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} us", self.0 * 1e6)
    }
}

/// `1 launch`, `2 launches`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Micros, count};

    #[test]
    fn numbers_keep_to_a_readable_unit() {
        let shown = [0, 1023, 1024, 12 << 20, 5 << 30, 3 << 50].map(|n| Bytes(n).to_string());
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "12.0 MiB", "5.0 GiB", "3072.0 TiB"]);
        assert_eq!(Micros(1.26e-5).to_string(), "12.6 us");
        assert_eq!([count(1, "edge", "edges"), count(0, "edge", "edges")], ["1 edge", "0 edges"]);
    }
}
