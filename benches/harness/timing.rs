//! Timing that is fair on a shared machine: rows wait for idle cores, and what is compared runs in turns.

use std::time::{Duration, Instant};

/// What a function took.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Seconds of a run in the middle.
    pub median: f64,
    /// Seconds of the fastest run.
    pub min: f64,
    /// How many runs.
    pub runs: usize,
    /// Seconds of the first call, before warming up.
    pub first: f64,
    /// Cores that other processes used meanwhile.
    pub other_cpu: f64,
}

/// The middle of the sorted times.
fn median(sorted: &[f64]) -> f64 {
    let m = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[m] } else { 0.5 * (sorted[m - 1] + sorted[m]) }
}

/// Seconds of one of `inner` calls.
fn seconds(inner: usize, f: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..inner {
        f();
    }
    start.elapsed().as_secs_f64() / inner as f64
}

/// Times `f`: a first call, up to ten more or 1.5 s to warm up, then runs of `inner` calls until one second and seven
/// runs are reached, or 20 s.
pub fn measure(inner: usize, quiet: f64, mut f: impl FnMut()) -> Timed {
    wait_for_idle_cores(quiet);
    let (start, before) = (Instant::now(), cpu_seconds());
    let first = seconds(1, &mut f);
    let (warm, mut calls) = (Instant::now(), 0);
    while calls < 1 || (calls < 10 && warm.elapsed().as_secs_f64() < 1.5) {
        f();
        calls += 1;
    }
    let (mut times, mut total) = (Vec::new(), 0.0);
    while (total < 1.0 || times.len() < 7) && total < 20.0 {
        let t = seconds(inner, &mut f);
        times.push(t);
        total += t * inner as f64;
    }
    times.sort_by(f64::total_cmp);
    let after = cpu_seconds();
    let other = (after.1 - before.1) - (after.0 - before.0);
    Timed {
        median: median(&times),
        min: times[0],
        runs: times.len(),
        first,
        other_cpu: (other / start.elapsed().as_secs_f64()).max(0.0),
    }
}

/// What two functions took that ran in turns.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Median seconds of the first.
    pub a: f64,
    /// Median seconds of the second.
    pub b: f64,
    /// The median of the ratios first by second, each of two runs in a row: a slow spell of the machine hits both.
    pub ratio: f64,
}

/// Times two functions in turns, `pairs` times after two to warm up.
pub fn measure_pair(
    inner: usize,
    pairs: usize,
    quiet: f64,
    mut a: impl FnMut(),
    mut b: impl FnMut(),
) -> Pair {
    wait_for_idle_cores(quiet);
    let (mut times_a, mut times_b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..pairs + 2 {
        // The second of a pair finds the caches as the first left them, so they change places.
        let (ta, tb) = if k % 2 == 0 {
            let ta = seconds(inner, &mut a);
            (ta, seconds(inner, &mut b))
        } else {
            let tb = seconds(inner, &mut b);
            (seconds(inner, &mut a), tb)
        };
        if k >= 2 {
            times_a.push(ta);
            times_b.push(tb);
            ratios.push(ta / tb);
        }
    }
    for times in [&mut times_a, &mut times_b, &mut ratios] {
        times.sort_by(f64::total_cmp);
    }
    Pair { a: median(&times_a), b: median(&times_b), ratio: median(&ratios) }
}

/// Seconds of CPU that this process and that all of the machine have used; zeros where `/proc` does not say.
fn cpu_seconds() -> (f64, f64) {
    // Both files count in ticks of 1/100 s, which is what `sysconf(_SC_CLK_TCK)` gives on every Linux.
    let ticks = |fields: &[&str], which: &[usize]| -> f64 {
        which.iter().filter_map(|&k| fields.get(k)?.parse::<f64>().ok()).sum::<f64>() / 100.0
    };
    let own = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let own: Vec<&str> = own.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let all = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let all: Vec<&str> = all.lines().next().unwrap_or_default().split_whitespace().skip(1).collect();
    (ticks(&own, &[11, 12]), ticks(&all, &[0, 1, 2, 5, 6, 7]))
}

/// Waits, at most `limit` seconds, until other processes leave the cores alone.
pub fn wait_for_idle_cores(limit: f64) {
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < limit {
        let before = cpu_seconds();
        std::thread::sleep(Duration::from_millis(300));
        let after = cpu_seconds();
        if (after.1 - before.1) - (after.0 - before.0) < 0.06 {
            return;
        }
    }
}
