//! Says what is on a photograph.
//!
//! ```text
//! cargo run --release -p classify                      # a shipped cat
//! cargo run --release -p classify -- PHOTO
//! cargo run --release -p classify -- --bench           # images per second
//! ```

#![allow(clippy::print_stdout, reason = "a program that speaks to its user")]

use classify::classes::{find_best, names};
use classify::kernels::likelihood;
use classify::network::{Network, SIDE};
use classify::photograph::Photograph;
use classify::weights::{default_file, read_network};
use example_common::program::run_program;
use example_common::progress::Progress;
use example_common::rates::summarise;
use fuse::{Device, Tensor};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "\
usage: classify [PHOTO] [options]

Prints the five classes of ImageNet that a PNG or JPEG, or a shipped photograph, shows most likely, with EfficientNet-Lite0.

options:
  --model FILE   the converted weights
  --bench        measures images per second, in batches of 1, 8 and 32; reading and resizing not counted
  --help         this";

/// Batches that `--bench` measures, images of a run, and runs.
const BENCH: ([usize; 3], usize, usize) = ([1, 8, 32], 64, 7);

#[derive(Default)]
struct Arguments {
    photo: Option<PathBuf>,
    model: Option<PathBuf>,
    bench: bool,
}

fn main() -> ExitCode {
    run_program(HELP, parse(std::env::args().skip(1)), run)
}

/// The arguments, or that help is asked for.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--model" => {
                let value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
                arguments.model = Some(PathBuf::from(value));
            }
            "--bench" => arguments.bench = true,
            option if option.starts_with('-') => return Err(format!("unknown option `{option}`\n{HELP}")),
            _ if arguments.photo.is_some() => {
                return Err(format!("one photograph is classified, not also `{word}`"));
            }
            photo => arguments.photo = Some(PathBuf::from(photo)),
        }
    }
    Ok(Some(arguments))
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let shipped = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/chelsea.png");
    let path = arguments.photo.clone().unwrap_or_else(shipped);
    let photograph = Photograph::read(&path)?;
    let device = Device::cpu();
    let network = read_network(&arguments.model.clone().unwrap_or_else(default_file), &device)?;
    let picture = photograph.prepare(SIDE, &device)?;
    if arguments.bench {
        return measure(&network, &picture);
    }
    let likely = network.classify(&picture).and_then(|logits| likelihood(&logits)?.to_vec());
    let likely = likely.map_err(|e| e.to_string())?;
    println!("{}: {} x {} pixels", path.display(), photograph.width, photograph.height);
    let names = names();
    for class in find_best(&likely, 5) {
        println!("{:>6.1} %  {}", 100.0 * likely[class], names[class]);
    }
    Ok(())
}

/// Prints how many images are classified in a second: the median of some runs, and the fastest and the slowest.
fn measure(network: &Network, picture: &Tensor<f32, 4>) -> Result<(), String> {
    let (batches, images, runs) = BENCH;
    let one = picture.to_vec().map_err(|e| e.to_string())?;
    for batch in batches {
        let pictures = Tensor::from_vec(one.repeat(batch), [batch, SIDE, SIDE, 3], &picture.device());
        let pictures = pictures.map_err(|e| e.to_string())?;
        let mut rates = Vec::with_capacity(runs);
        let mut progress = Progress::new(&format!("batches of {batch}"), (runs + 1) * images);
        // The first run makes room in memory and is not counted.
        for k in 0..=runs {
            let start = Instant::now();
            for _ in 0..images / batch {
                network.classify(&pictures).and_then(|logits| logits.to_vec()).map_err(|e| e.to_string())?;
                progress.advance(batch);
            }
            if k > 0 {
                rates.push(images as f64 / start.elapsed().as_secs_f64());
            }
        }
        let (median, least, greatest) = summarise(&mut rates);
        println!(
            "batches of {batch:>2}: {:.1} images/s (from {:.1} to {:.1} in {runs} runs of {images} images)",
            median, least, greatest
        );
    }
    Ok(())
}
