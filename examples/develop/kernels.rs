//! The two kernels that develop a picture. A picture is planar: one plane of `H` by `W` bytes for each channel.

use fuse::fuse;

fuse! {
    /// Linear light of a surface that looks half as bright as white; the tone curve leaves it where it is.
    const GREY: f32 = 0.18;
    /// Added before a logarithm, so that black has one; about 3 levels of 255.
    const FLOOR: f32 = 0.001;

    /// `x` to the power `p` for `x` from 0 up: by logarithms, which is close enough for 256 levels and much less work than
    /// `powf`, which is right for every pair of numbers.
    #[op]
    fn power(x: f32, p: f32) -> f32 {
        (p * x.log2()).exp2()
    }

    /// An sRGB level as linear light in 0..=1.
    #[op]
    fn to_linear(level: u8) -> f32 {
        let v = level as f32 / 255.0;
        if v <= 0.04045 { v / 12.92 } else { power((v + 0.055) / 1.055, 2.4) }
    }

    /// Linear light in 0..=1 as an sRGB value in 0..=1.
    #[op]
    fn to_srgb(light: f32) -> f32 {
        if light <= 0.0031308 { 12.92 * light } else { 1.055 * power(light, 1.0 / 2.4) - 0.055 }
    }

    /// Luminance of linear light with the primaries of sRGB.
    #[op]
    fn luminance(red: f32, green: f32, blue: f32) -> f32 {
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// A number in 0..1 for each pixel and channel: an integer hash, so that it is the same in every run and every split.
    #[op]
    fn noise(row: i64, column: i64, channel: u32, seed: u32) -> f32 {
        let mut h = (row as u32) * 0x9E3779B1 + (column as u32) * 0x85EBCA77 + channel * 0xC2B2AE3D + seed;
        h = (h ^ (h >> 16)) * 0x7FEB352D;
        h = (h ^ (h >> 15)) * 0x846CA68B;
        ((h ^ (h >> 16)) >> 8) as f32 * (1.0 / 16777216.0)
    }

    /// How many stops the picture is lifted: what the user asks, and `auto` of the way to a middle grey average.
    #[op]
    fn lift(log_mean: f32, exposure: f32, auto: f32) -> f32 {
        exposure + (auto * (GREY / log_mean.exp()).log2()).clamp(-1.5, 2.5)
    }

    /// The slope of the tone curve in the middle. Flat pictures, in which the arithmetic and the geometric mean are close,
    /// get more of it; so do lifted ones, whose shadows would turn grey.
    #[op]
    fn middle_slope(log_mean: f32, mean: f32, stops: f32, contrast: f32) -> f32 {
        let spread = (mean + FLOOR).ln() - log_mean;
        contrast * ((1.3 - 0.25 * spread).clamp(1.0, 1.3) + 0.15 * stops.clamp(0.0, 4.0))
    }

    /// How strongly the curve bends, such that it leaves [`GREY`] where it is.
    #[op]
    fn bend_of(white: f32, slope: f32) -> f32 {
        let grey = (GREY / white).powf(slope);
        (GREY - grey) / (grey * (1.0 - GREY))
    }

    /// The filmic curve: a toe, a straight middle through [`GREY`], a shoulder that ends in 1 at `white`.
    #[op]
    fn film(light: f32, white: f32, slope: f32, bend: f32) -> f32 {
        let u = power(light / white, slope);
        (u * (1.0 + bend) / (1.0 + u * bend)).min(1.0)
    }

    /// One channel of a pixel: away from its luminance, then through the film.
    #[op]
    fn expose(light: f32, luma: f32, saturation: f32, white: f32, slope: f32, bend: f32) -> f32 {
        film((luma + saturation * (light - luma)).max(0.0), white, slope, bend)
    }

    /// A finished channel as a level. Rounding up with the probability of the fraction hides the steps of the 256 levels.
    #[op]
    fn to_level(light: f32, dither: f32) -> u8 {
        (to_srgb(light) * 255.0 + dither).floor() as u8
    }

    /// What the picture says of itself: the mean logarithm of its luminance, the least and the greatest channel, and the
    /// mean of each channel, all of linear light.
    #[kernel(launches = 2, assume(H = 2048, W = 2048))]
    pub fn measure<H, W, const C: usize = 3>(
        picture: Tensor<u8, C, H, W>,
    ) -> (Tensor<f32>, Tensor<f32>, Tensor<f32>, Tensor<f32>, Tensor<f32>, Tensor<f32>) {
        let light = to_linear(picture);
        let red = light.at(C, 0);
        let green = light.at(C, 1);
        let blue = light.at(C, 2);
        let logarithm = (luminance(red, green, blue) + FLOOR).ln();
        (
            logarithm.mean((H, W)),
            red.min(green).min(blue).min((H, W)),
            red.max(green).max(blue).max((H, W)),
            red.mean((H, W)),
            green.mean((H, W)),
            blue.mean((H, W)),
        )
    }

    /// The developed picture, a plane for each channel. `log_mean` to `mean_blue` are what [`measure`] gives.
    #[kernel(launches = 1, assume(H = 2048, W = 2048))]
    pub fn develop<H, W, const C: usize = 3>(
        picture: Tensor<u8, C, H, W>,
        log_mean: Tensor<f32>,
        darkest: Tensor<f32>,
        brightest: Tensor<f32>,
        mean_red: Tensor<f32>,
        mean_green: Tensor<f32>,
        mean_blue: Tensor<f32>,
        exposure: f32,
        auto: f32,
        gain_red: f32,
        gain_green: f32,
        gain_blue: f32,
        grey_world: f32,
        contrast: f32,
        saturation: f32,
        seed: u32,
    ) -> (Tensor<u8, H, W>, Tensor<u8, H, W>, Tensor<u8, H, W>) {
        // Once a picture: exposure, white balance, and the ends of the curve.
        let mean = luminance(mean_red, mean_green, mean_blue);
        let stops = lift(log_mean, exposure, auto);
        let slope = middle_slope(log_mean, mean, stops, contrast);
        let push = stops.exp2();
        let white = ((brightest - darkest) * push).max(0.5);
        let bend = bend_of(white, slope);
        let red_gain = gain_red * push * (mean / mean_red.max(FLOOR)).powf(grey_world);
        let green_gain = gain_green * push * (mean / mean_green.max(FLOOR)).powf(grey_world);
        let blue_gain = gain_blue * push * (mean / mean_blue.max(FLOOR)).powf(grey_world);

        // Once a pixel.
        let light = to_linear(picture) - darkest;
        let red = light.at(C, 0) * red_gain;
        let green = light.at(C, 1) * green_gain;
        let blue = light.at(C, 2) * blue_gain;
        let luma = luminance(red, green, blue);
        let red = expose(red, luma, saturation, white, slope, bend);
        let green = expose(green, luma, saturation, white, slope, bend);
        let blue = expose(blue, luma, saturation, white, slope, bend);
        (
            to_level(red, noise(index(H), index(W), 0, seed)),
            to_level(green, noise(index(H), index(W), 1, seed)),
            to_level(blue, noise(index(H), index(W), 2, seed)),
        )
    }
}
