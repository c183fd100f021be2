//! Numbers for people.

pub(crate) use fuse_ir::plan::{Bytes, Micros};

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
