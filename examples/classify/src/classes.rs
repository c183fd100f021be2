//! The classes of ImageNet.

/// Their names, synonyms with commas between them, in order.
pub fn names() -> Vec<&'static str> {
    include_str!("../data/classes.txt").lines().collect()
}

/// The classes of greatest numbers, greatest first.
pub fn find_best(numbers: &[f32], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|a, b| numbers[*b].total_cmp(&numbers[*a]));
    order.truncate(count);
    order
}
