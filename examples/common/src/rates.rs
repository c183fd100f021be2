//! Rates of several runs.

/// The median of rates, the least and the greatest.
///
/// # Panics
/// If there are none.
pub fn summarise(rates: &mut [f64]) -> (f64, f64, f64) {
    rates.sort_by(f64::total_cmp);
    (rates[rates.len() / 2], rates[0], rates[rates.len() - 1])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_is_between_the_others() {
        assert_eq!(super::summarise(&mut [3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
    }
}
