//! The network: its launches; its numbers with random weights against plain loops over f64; and with the published weights,
//! where they are, against the published model.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is skipped is said, and how far apart numbers are"
)]

#[path = "classify/in_f64.rs"]
mod in_f64;

#[path = "../../../tests/support/golden.rs"]
mod golden;
#[path = "../../../tests/support/numbers.rs"]
mod numbers;

use classify::classes::{find_best, names};
use classify::kernels::{
    block, first_block, fold, fold_depthwise, head, likelihood, residual_block, resize, stem,
};
use classify::network::{BlockKernel, BlockSizes, Network, SIDE, Sizes, zeros_around};
use classify::photograph::Photograph;
use classify::weights::{default_file, read_network};
use example_common::weights::floats;
use fuse::{Device, Tensor};
use in_f64::{Picture, Weights};
use safetensors::SafeTensors;
use std::fmt::Write;
use std::path::{Path, PathBuf};

golden::plans! {
    "classify",
    resize: 2,
    fold: 2,
    fold_depthwise: 2,
    stem: 1,
    first_block: 2,
    block: 3,
    residual_block: 3,
    head: 3,
    likelihood: 1,
}

#[test]
fn launches_of_the_network_are_golden() {
    let mut text = String::new();
    let mut side = SIDE;
    let mut all = 0;
    let mut add = |name: &str, launches: u32, what: &str| {
        all += launches;
        let plural = if launches == 1 { "" } else { "es" };
        writeln!(text, "{name:<15} {launches} launch{plural:<2}  {what}").expect("text");
        all
    };
    let sizes = Sizes::lite0();
    side /= 2;
    add("stem", stem::plan().launch_count(), &format!("{side} x {side} x {}", sizes.stem));
    for b in &sizes.blocks {
        let (name, launches) = match b.kernel() {
            BlockKernel::First => ("first_block", first_block::plan().launch_count()),
            BlockKernel::Plain => ("block", block::plan().launch_count()),
            BlockKernel::Residual => ("residual_block", residual_block::plan().launch_count()),
        };
        side /= b.stride;
        let taps = b.taps;
        add(
            name,
            launches,
            &format!("{side} x {side} x {}, {taps} x {taps} taps, stride {}", b.gives, b.stride),
        );
    }
    let all = add("head", head::plan().launch_count(), &format!("{} classes", sizes.classes));
    writeln!(text, "{all} launches").expect("text");
    golden::check("classify/network.txt", &text);
}

/// Pictures as the network reads them, from about -1 to 1.
fn pictures(count: usize, side: usize) -> Vec<f32> {
    numbers::values(count * side * side * 3, 77).into_iter().map(|x| x / 2.0).collect()
}

#[test]
fn random_weights_give_what_plain_loops_over_f64_give() {
    let block = |taps, stride, expand, reads, gives| BlockSizes { taps, stride, expand, reads, gives };
    let all = [
        (
            Sizes {
                stem: 8,
                blocks: vec![
                    block(3, 1, 1, 8, 4),
                    block(3, 2, 6, 4, 6),
                    block(3, 1, 6, 6, 6),
                    block(5, 2, 3, 6, 9),
                    block(5, 1, 2, 9, 9),
                    block(5, 1, 2, 9, 7),
                ],
                head: 21,
                classes: 10,
            },
            // Even at each stride, odd at some, and smaller than the filters.
            [(2, 32), (3, 27), (1, 6)],
        ),
        (
            Sizes {
                stem: 32,
                blocks: vec![block(3, 1, 1, 32, 16), block(5, 2, 6, 16, 24), block(3, 1, 6, 24, 24)],
                head: 130,
                classes: 33,
            },
            [(1, 48), (2, 19), (1, 1)],
        ),
    ];
    for (sizes, inputs) in all {
        let mut weights = Weights::default();
        let network = Network::load(&sizes, &Device::cpu(), |name, shape| Ok(weights.random(name, shape)))
            .expect("random weights");
        for (count, side) in inputs {
            let data = pictures(count, side);
            let tensor = Tensor::from_slice(&data, [count, side, side, 3], &Device::cpu()).expect("memory");
            let got = network.classify(&tensor).and_then(|l| l.to_vec()).expect("square pictures");
            assert_eq!(got.len(), count * sizes.classes);
            let one = side * side * 3;
            for k in 0..count {
                let picture = Picture::new(side, side, 3, &data[k * one..(k + 1) * one]);
                let want = weights.classify(&sizes, picture);
                let greatest = want.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
                assert!(greatest > 0.1, "logits that say nothing: {want:?}");
                for (class, (got, want)) in got[k * sizes.classes..].iter().zip(&want).enumerate() {
                    let off = (f64::from(*got) - want).abs();
                    assert!(
                        off <= 1e-5 * greatest,
                        "picture {k} of side {side}, class {class}: {got} is off {want} by {off:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn zeros_lie_around_pictures_as_windows_need_them() {
    assert_eq!(zeros_around(224, 3, 2), (0, 1));
    assert_eq!(zeros_around(112, 3, 1), (1, 1));
    assert_eq!(zeros_around(56, 5, 2), (1, 2));
    assert_eq!(zeros_around(7, 5, 2), (2, 2));
    assert_eq!(zeros_around(1, 1, 2), (0, 0));
}

/// A photograph whose red levels these are, and whose green and blue ones are 127.
fn photograph(height: usize, width: usize, red: impl Fn(usize, usize) -> u8) -> Photograph {
    let level = |k: usize| if k.is_multiple_of(3) { red(k / 3 / width, k / 3 % width) } else { 127 };
    Photograph { height, width, levels: (0..3 * height * width).map(level).collect() }
}

#[test]
fn photographs_are_cut_and_resized() {
    let prepare = |p: &Photograph, side: usize| {
        p.prepare(side, &Device::cpu()).and_then(|t| t.to_vec().map_err(|e| e.to_string()))
    };
    // The middle of 7 by 7 pixels, as it is.
    let cut = prepare(&photograph(8, 10, |i, j| (10 * i + j) as u8), 7).expect("a photograph");
    for (k, pixel) in cut.chunks(3).enumerate() {
        let red = (10 * (k / 7) + k % 7 + 1) as f32;
        assert_eq!(pixel, [(red - 127.0) / 128.0, 0.0, 0.0], "pixel {k}");
    }
    // Halved along columns: each new pixel is 1/8, 3/8, 3/8, 1/8 of four, at the edge without the one outside.
    let squares: Vec<u8> = (0..16).map(|j| (j * j) as u8).collect();
    let half = prepare(&photograph(16, 16, |_, j| squares[j]), 7).expect("a photograph");
    let old = |j: usize| f64::from(squares[j + 1]);
    for (k, pixel) in half.chunks(3).enumerate() {
        let terms = [(-1, 1.0), (0, 3.0), (1, 3.0), (2, 1.0)].map(|(d, w)| ((k % 7 * 2) as i64 + d, w));
        let inside = terms.iter().filter(|(j, _)| (0..14).contains(j));
        let (sum, all) = inside.fold((0.0, 0.0), |(s, a), (j, w)| (s + w * old(*j as usize), a + w));
        let want = (sum / all - 127.0) / 128.0;
        assert!((f64::from(pixel[0]) - want).abs() < 1e-6, "pixel {k}: {} instead of {want}", pixel[0]);
        assert!(pixel[1].abs() < 1e-6 && pixel[2].abs() < 1e-6, "pixel {k}");
    }
    let message = prepare(&photograph(1, 9, |_, _| 0), 7).expect_err("a line");
    assert!(message.contains("9 by 1 pixels is too small"), "{message}");
}

#[test]
fn the_best_are_found_and_named() {
    assert_eq!(find_best(&[0.5, 3.0, -1.0, 2.0], 3), [1, 3, 0]);
    assert_eq!(find_best(&[1.0], 5), [0]);
    let names = names();
    assert_eq!((names.len(), names[0], names[285]), (1000, "tench, Tinca tinca", "Egyptian cat"));
}

/// The published weights, if they are there.
fn published() -> Option<PathBuf> {
    let file = default_file();
    if file.is_file() {
        return Some(file);
    }
    eprintln!("skipped: there is no `{}`\n{}", file.display(), classify::weights::HOW);
    None
}

#[test]
fn published_weights_give_the_published_logits() {
    let Some(file) = published() else { return };
    let device = Device::cpu();
    let network = read_network(&file, &device).expect("the published weights");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let reference = std::fs::read(here.join("data/reference.safetensors")).expect("shipped logits");
    let reference = SafeTensors::deserialize(&reference).expect("shipped logits");
    for (name, best) in [("chelsea.png", "tiger cat"), ("astronaut.png", "bobsled, bobsleigh, bob")] {
        let photograph = Photograph::read(&here.join("../data").join(name)).expect("a shipped photograph");
        let picture = photograph.prepare(SIDE, &device).expect("a shipped photograph");
        let got = network.classify(&picture).and_then(|l| l.to_vec()).expect("a picture");
        let want = floats(reference.tensor(name).expect("shipped logits").data());
        assert_eq!((got.len(), want.len()), (1000, 1000));
        let off = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
        println!("{name}: logits up to {off:.1e} apart");
        assert!(off <= 1e-3, "{name}: logits are {off} apart");
        assert_eq!(find_best(&got, 5), find_best(&want, 5), "{name}");
        assert_eq!(names()[find_best(&got, 1)[0]], best);
    }
}

#[test]
fn missing_weights_and_photographs_are_said() {
    let message =
        read_network(Path::new("no/such.safetensors"), &Device::cpu()).map(drop).expect_err("no file");
    assert!(message.contains("cannot read `no/such.safetensors`"), "{message}");
    assert!(message.contains("python examples/classify/convert.py"), "{message}");
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/reference.safetensors");
    let message = read_network(&other, &Device::cpu()).map(drop).expect_err("another file");
    assert!(
        message.contains("is not EfficientNet-Lite0") && message.contains("_conv_stem.weight"),
        "{message}"
    );
    let message = Photograph::read(&other).map(drop).expect_err("no picture");
    assert!(message.contains("is not a PNG or JPEG"), "{message}");
}
