//! What the fusion saves, and how fast the kernels are on this picture.

use crate::kernels::{develop, measure};
use crate::picture::Picture;
use crate::render::{develop_planes, load_picture};
use crate::settings::Settings;
use fuse::{Device, Error};
use std::time::Instant;

/// Prints both plans, with the reason of every decision if `explain`, and times the kernels on the picture.
///
/// # Errors
/// If the device fails.
pub fn print_report(
    picture: &Picture,
    settings: &Settings,
    explain: bool,
    device: &Device,
) -> Result<(), Error> {
    let tensor = load_picture(picture, device)?;
    let statistics = measure(&tensor)?;
    let measuring = best_seconds(|| measure(&tensor).map(drop))?;
    let developing = best_seconds(|| develop_planes(&tensor, &statistics, settings).map(drop))?;

    // The axes of both kernels, in the order of their generics: H, W, C.
    let extents = [picture.height as i64, picture.width as i64, 3];
    for program in [measure::program(), develop::program()] {
        println!();
        let text = program.plan.display(&program.kernel).to_string();
        // The decisions, one for each pair of operations, are only for those who ask.
        for line in text.lines().take_while(|line| explain || *line != "decisions") {
            println!("{line}");
        }
        if !explain {
            let taken = program.plan.decisions.iter().filter(|d| d.refusal.is_none()).count();
            println!("{taken} of {} fusions taken; `--explain` lists them", program.plan.decisions.len());
        }
    }
    println!(
        "\n{:<8} {:>8} {:>10} {:>14} {:>14} {:>9} {:>7}",
        "", "launches", "unfused", "MB moved", "MB unfused", "ms", "GB/s"
    );
    let mut total = (0, 0, 0, 0, 0.0);
    for (name, plan, seconds) in
        [("measure", measure::plan(), measuring), ("develop", develop::plan(), developing)]
    {
        let (bytes, unfused) = plan.traffic(&extents);
        print_row(name, plan.launch_count(), plan.launches_unfused, bytes, unfused, seconds);
        total.0 += plan.launch_count();
        total.1 += plan.launches_unfused;
        total.2 += bytes;
        total.3 += unfused;
        total.4 += seconds;
    }
    print_row("in all", total.0, total.1, total.2, total.3, total.4);
    Ok(())
}

fn print_row(name: &str, launches: u32, launches_unfused: u32, bytes: u64, unfused: u64, seconds: f64) {
    println!(
        "{name:<8} {launches:>8} {launches_unfused:>10} {:>14.2} {:>14.2} {:>9.3} {:>7.2}",
        bytes as f64 / 1e6,
        unfused as f64 / 1e6,
        seconds * 1e3,
        bytes as f64 / seconds / 1e9
    );
}

/// Seconds of the fastest of several calls.
fn best_seconds(mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let (start, mut best, mut calls) = (Instant::now(), f64::INFINITY, 0);
    while calls < 5 || (calls < 50 && start.elapsed().as_secs_f64() < 0.5) {
        let call_start = Instant::now();
        call()?;
        best = best.min(call_start.elapsed().as_secs_f64());
        calls += 1;
    }
    Ok(best)
}
