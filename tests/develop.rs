//! The pictures that the example develops equal, to one level of 255 in every channel of every pixel, those of an
//! independent rendering: plain loops over f64, written from the definitions, without the library.

#![allow(unreachable_pub, dead_code, reason = "the modules are those of the example")]

#[path = "../examples/develop/kernels.rs"]
mod kernels;
#[path = "../examples/develop/picture.rs"]
mod picture;
#[path = "../examples/develop/render.rs"]
mod render;
#[path = "../examples/develop/settings.rs"]
mod settings;

use fuse::Device;
use picture::Picture;
use settings::Settings;
use std::path::Path;

const PHOTOGRAPHS: [&str; 3] = ["astronaut.png", "chelsea.png", "hubble_deep_field.jpg"];

fn photograph(name: &str) -> Picture {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    Picture::read(&folder.join(name)).expect("a shipped photograph")
}

/// The rectangle of `height` by `width` pixels that starts at `top`, `left`.
fn crop(picture: &Picture, top: usize, left: usize, height: usize, width: usize) -> Picture {
    let mut planes = Vec::with_capacity(3 * height * width);
    for channel in 0..3 {
        for row in picture.plane(channel).chunks(picture.width).skip(top).take(height) {
            planes.extend_from_slice(&row[left..left + width]);
        }
    }
    Picture { height, width, planes }
}

/// Settings far from the defaults.
fn strong() -> Settings {
    Settings {
        exposure: -0.75,
        auto: 0.8,
        temperature: 4200.0,
        tint: 0.3,
        grey_world: 0.6,
        contrast: 1.4,
        saturation: 1.7,
        seed: 77,
    }
}

/// `level` as linear light.
fn linear(level: u8) -> f64 {
    let v = f64::from(level) / 255.0;
    if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
}

/// The dither of a pixel's channel, from 0 to 1.
fn dither(row: usize, column: usize, channel: u32, seed: u32) -> f64 {
    let mut h = (row as u32).wrapping_mul(0x9E37_79B1);
    h = h.wrapping_add((column as u32).wrapping_mul(0x85EB_CA77));
    h = h.wrapping_add(channel.wrapping_mul(0xC2B2_AE3D)).wrapping_add(seed);
    h = (h ^ (h >> 16)).wrapping_mul(0x7FEB_352D);
    h = (h ^ (h >> 15)).wrapping_mul(0x846C_A68B);
    f64::from((h ^ (h >> 16)) >> 8) / 16_777_216.0
}

/// The developed picture in f64.
fn develop_in_f64(picture: &Picture, settings: &Settings) -> Picture {
    const GREY: f64 = 0.18;
    const FLOOR: f64 = 0.001;
    const WEIGHTS: [f64; 3] = [0.2126, 0.7152, 0.0722];
    let pixels = picture.height * picture.width;
    let luminance = |c: [f64; 3]| WEIGHTS[0] * c[0] + WEIGHTS[1] * c[1] + WEIGHTS[2] * c[2];

    // What the picture says of itself.
    let (mut log_sum, mut sums) = (0.0, [0.0; 3]);
    let (mut darkest, mut brightest) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut light = vec![[0.0; 3]; pixels];
    for (i, pixel) in light.iter_mut().enumerate() {
        for c in 0..3 {
            pixel[c] = linear(picture.planes[c * pixels + i]);
            sums[c] += pixel[c];
            darkest = f64::min(darkest, pixel[c]);
            brightest = f64::max(brightest, pixel[c]);
        }
        log_sum += (luminance(*pixel) + FLOOR).ln();
    }
    let log_mean = log_sum / pixels as f64;
    let means = sums.map(|s| s / pixels as f64);
    let mean = luminance(means);

    // Exposure, contrast, and the ends of the curve.
    let automatic = f64::from(settings.auto) * (GREY / log_mean.exp()).log2();
    let stops = f64::from(settings.exposure) + automatic.clamp(-1.5, 2.5);
    let flatness = 1.3 - 0.25 * ((mean + FLOOR).ln() - log_mean);
    let slope = f64::from(settings.contrast) * (flatness.clamp(1.0, 1.3) + 0.15 * stops.clamp(0.0, 4.0));
    let push = stops.exp2();
    let white = f64::max((brightest - darkest) * push, 0.5);
    let grey = (GREY / white).powf(slope);
    let bend = (GREY - grey) / (grey * (1.0 - GREY));
    let mut gains = settings.gains().map(f64::from);
    for c in 0..3 {
        gains[c] *= push * (mean / f64::max(means[c], FLOOR)).powf(f64::from(settings.grey_world));
    }

    let mut planes = vec![0; 3 * pixels];
    for (i, pixel) in light.iter().enumerate() {
        let (row, column) = (i / picture.width, i % picture.width);
        let balanced = [0, 1, 2].map(|c| (pixel[c] - darkest) * gains[c]);
        let luma = luminance(balanced);
        for c in 0..3 {
            let colour = f64::max(luma + f64::from(settings.saturation) * (balanced[c] - luma), 0.0);
            let u = (colour / white).powf(slope);
            let film = f64::min(u * (1.0 + bend) / (1.0 + u * bend), 1.0);
            let srgb = if film <= 0.0031308 { 12.92 * film } else { 1.055 * film.powf(1.0 / 2.4) - 0.055 };
            let level = (srgb * 255.0 + dither(row, column, c as u32, settings.seed)).floor();
            planes[c * pixels + i] = level as u8;
        }
    }
    Picture { height: picture.height, width: picture.width, planes }
}

/// Develops the picture twice, the same both times, and compares with the rendering in f64.
fn check(name: &str, picture: &Picture, settings: &Settings) {
    let device = Device::cpu();
    let got = render::develop_picture(picture, settings, &device).expect(name);
    let again = render::develop_picture(picture, settings, &device).expect(name);
    assert!(got == again, "{name}: two runs differ");
    let want = develop_in_f64(picture, settings);
    assert_eq!((got.height, got.width), (want.height, want.width), "{name}");
    assert_eq!(got.planes.len(), want.planes.len(), "{name}");
    for (i, (&g, &w)) in got.planes.iter().zip(&want.planes).enumerate() {
        assert!(g.abs_diff(w) <= 1, "{name}: level {g} in place of {w} at element {i}");
    }
    // Rounding may move a level across a dither threshold now and then; a systematic difference would move many.
    let moved = got.planes.iter().zip(&want.planes).filter(|(g, w)| g != w).count();
    assert!(moved <= 1 + got.planes.len() / 500, "{name}: {moved} of {} levels differ", got.planes.len());
}

#[test]
fn photographs_equal_the_rendering_in_f64() {
    for name in PHOTOGRAPHS {
        check(name, &photograph(name), &Settings::default());
    }
}

#[test]
fn strong_settings_equal_the_rendering_in_f64() {
    for name in PHOTOGRAPHS {
        let picture = photograph(name);
        check(name, &crop(&picture, 40, 60, 201, 197), &strong());
    }
}

#[test]
fn small_and_odd_crops_equal_the_rendering_in_f64() {
    let sizes = [(1, 1), (3, 5), (17, 1), (1, 17), (64, 65), (5, 129)];
    for name in PHOTOGRAPHS {
        let picture = photograph(name);
        for (height, width) in sizes {
            let part = crop(&picture, 101, 43, height, width);
            check(&format!("{name} {height}x{width}"), &part, &Settings::default());
            check(&format!("{name} {height}x{width}, strong"), &part, &strong());
        }
    }
}

#[test]
fn plain_pictures_equal_the_rendering_in_f64() {
    for level in [0, 1, 127, 255] {
        let picture = Picture { height: 7, width: 9, planes: vec![level; 3 * 7 * 9] };
        check(&format!("all {level}"), &picture, &Settings::default());
    }
}

#[test]
fn dark_photographs_become_brighter_and_keep_their_blacks() {
    let before = photograph("hubble_deep_field.jpg");
    let after = render::develop_picture(&before, &Settings::default(), &Device::cpu()).expect("hubble");
    let mean =
        |p: &Picture| p.planes.iter().map(|&v| u64::from(v)).sum::<u64>() as f64 / p.planes.len() as f64;
    let below =
        |p: &Picture, v: u8| p.planes.iter().filter(|&&l| l < v).count() as f64 / p.planes.len() as f64;
    assert!(mean(&after) > 1.2 * mean(&before), "{} after {}", mean(&after), mean(&before));
    assert!(below(&after, 32) > 0.8, "the sky has turned grey: {}", below(&after, 32));
}

#[test]
fn measuring_takes_two_launches_and_developing_one() {
    assert_eq!(kernels::measure::plan().launch_count(), 2);
    assert_eq!(kernels::develop::plan().launch_count(), 1);
}

#[test]
fn grey_alpha_and_sixteen_bits_are_read_as_rgb() {
    let folder = std::env::temp_dir().join(format!("develop-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let check = |name: &str, image: image::DynamicImage, levels: [u8; 3]| {
        let path = folder.join(name);
        image.save(&path).expect("a PNG can be written");
        let read = Picture::read(&path).expect(name);
        assert_eq!((read.height, read.width), (2, 3), "{name}");
        for (channel, level) in levels.into_iter().enumerate() {
            assert!(read.plane(channel).iter().all(|&v| v == level), "{name}: channel {channel}");
        }
    };
    let grey = image::GrayImage::from_pixel(3, 2, image::Luma([40]));
    check("grey.png", grey.into(), [40; 3]);
    let grey_alpha = image::GrayAlphaImage::from_pixel(3, 2, image::LumaA([50, 9]));
    check("grey_alpha.png", grey_alpha.into(), [50; 3]);
    let alpha = image::RgbaImage::from_pixel(3, 2, image::Rgba([10, 20, 30, 0]));
    check("alpha.png", alpha.into(), [10, 20, 30]);
    let deep = image::ImageBuffer::from_pixel(3, 2, image::Luma([0x8080_u16]));
    check("deep.png", image::DynamicImage::ImageLuma16(deep), [128; 3]);
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn unreadable_files_are_named() {
    let missing = Picture::read(Path::new("no/such/picture.png")).unwrap_err();
    assert!(missing.contains("cannot open `no/such/picture.png`"), "{missing}");
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let text = Picture::read(&text).unwrap_err();
    assert!(text.contains("Cargo.toml` is not a PNG or JPEG"), "{text}");
}

#[test]
fn options_are_checked() {
    let parse = |line: &str| settings::parse_arguments(line.split_whitespace().map(String::from));
    let line = "in.jpg --exposure 1.5 out.png --seed=3 --explain";
    let Ok(settings::Command::Develop { photo, out, settings, explain: true }) = parse(line) else {
        panic!("a good command line is refused");
    };
    assert_eq!((photo.as_deref(), out.as_deref()), (Some("in.jpg"), Some("out.png")));
    assert_eq!((settings.exposure, settings.seed), (1.5, 3));
    assert!(matches!(parse("--help"), Ok(settings::Command::Help)));
    for (line, text) in [
        ("--exposure", "`--exposure` needs a value"),
        ("--exposure much", "`--exposure much`: not a number"),
        ("--exposure NaN", "must be from -10 to 10"),
        ("--contrast 99", "must be from 0.25 to 3"),
        ("--sharpness 1", "unknown option `--sharpness`"),
        ("a b c", "not also `c`"),
    ] {
        let message = parse(line).err().expect(line);
        assert!(message.contains(text), "{line}: {message}");
    }
    assert!(settings::Help.to_string().contains("--temperature"));
}

#[test]
fn neutral_temperature_has_gains_of_one() {
    let neutral = Settings::default().gains();
    assert!(neutral.iter().all(|g| (g - 1.0).abs() < 1e-6), "{neutral:?}");
    let warm = Settings { temperature: 9000.0, ..Settings::default() }.gains();
    assert!(warm[0] > 1.0 && warm[2] < 1.0, "{warm:?}");
}
