//! Develops a photograph: exposure, white balance, contrast, saturation, a filmic tone curve, sRGB and dither, in two
//! fused kernels, and says what the fusion saves.
//!
//! ```text
//! cargo run --release --example develop                              # a shipped portrait, to developed.png
//! cargo run --release --example develop -- PHOTO OUT.png --exposure 0.5 --temperature 7500
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that speaks to its user")]
#![allow(unreachable_pub, reason = "the modules are shared with a test")]

#[path = "develop/kernels.rs"]
mod kernels;
#[path = "develop/picture.rs"]
mod picture;
#[path = "develop/render.rs"]
mod render;
#[path = "develop/report.rs"]
mod report;
#[path = "develop/settings.rs"]
mod settings;

use fuse::Device;
use picture::Picture;
use settings::{Command, Help, Settings, parse_arguments};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match parse_arguments(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            println!("{Help}");
            Ok(())
        }
        Ok(Command::Develop { photo, out, settings, explain }) => run(photo, out, &settings, explain),
        Err(message) => Err(message),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(photo: Option<String>, out: Option<String>, settings: &Settings, explain: bool) -> Result<(), String> {
    let shipped = || Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/astronaut.png");
    let photo = photo.map_or_else(shipped, PathBuf::from);
    let out = out.map_or_else(|| PathBuf::from("developed.png"), PathBuf::from);
    let picture = Picture::read(&photo)?;
    println!("{}: {} x {} pixels", photo.display(), picture.width, picture.height);

    let device = Device::cpu();
    let developed = render::develop_picture(&picture, settings, &device).map_err(|e| e.to_string())?;
    report::print_report(&picture, settings, explain, &device).map_err(|e| e.to_string())?;
    developed.write(&out)?;

    let path = std::path::absolute(&out).unwrap_or(out);
    println!("\nwritten to {}", path.display());
    Ok(())
}
