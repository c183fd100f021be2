//! Windows: convolutions and pools, their plans (golden texts) and their numbers against plain f64 loops.

#[path = "support/devices.rs"]
mod devices;
#[path = "support/golden.rs"]
mod golden;
#[path = "support/numbers.rs"]
mod numbers;

use devices::{device, on_every_device};
use fuse::{Error, Tensor, fuse};
use numbers::values;

fuse! {
    /// Convolution, batch norm, ReLU.
    #[kernel(launches = 1, assume(B = 8, C = 64, H = 56, W = 56, K = 64, R = 3, S = 3))]
    pub fn conv_norm_relu<B, C, H, W, K, R, S, P, Q>(
        x: Tensor<f32, B, C, H, W>, w: Tensor<f32, K, C, R, S>, mean: Tensor<f32, K>, var: Tensor<f32, K>,
        g: Tensor<f32, K>, b: Tensor<f32, K>,
    ) -> Tensor<f32, B, K, P, Q> {
        relu(batch_norm(conv2d::<C, H, W, K, R, S, P, Q>(x, w, 1, 1), mean, var, g, b, 1e-5))
    }

    /// The norm in the filters, once.
    #[kernel]
    pub fn folded<K, C, R, S>(
        w: Tensor<f32, K, C, R, S>, mean: Tensor<f32, K>, var: Tensor<f32, K>, g: Tensor<f32, K>, b: Tensor<f32, K>,
    ) -> (Tensor<f32, K, C, R, S>, Tensor<f32, K>) {
        fold_batch_norm(w, mean, var, g, b, 1e-5)
    }

    /// What is left of convolution, batch norm and ReLU then.
    #[kernel(launches = 1, assume(B = 8, C = 64, H = 56, W = 56, K = 64, R = 3, S = 3))]
    pub fn conv_folded_relu<B, C, H, W, K, R, S, P, Q>(
        x: Tensor<f32, B, C, H, W>, w: Tensor<f32, K, C, R, S>, b: Tensor<f32, K>,
    ) -> Tensor<f32, B, K, P, Q> {
        relu(conv2d::<C, H, W, K, R, S, P, Q>(x, w, 1, 1) + b)
    }

    /// Channels last, with strides, padding and dilation of their own on each axis.
    #[kernel(launches = 1)]
    pub fn conv_channels_last<B, C, H, W, K, R, S, P, Q>(
        x: Tensor<f32, B, H, W, C>, w: Tensor<f32, R, S, C, K>,
    ) -> Tensor<f32, B, P, Q, K> {
        x.window(H, (P, R), stride = 2, padding = 1)
            .window(W, (Q, S), stride = 1, padding = 2, dilation = 2)
            .dot(w, (R, S, C))
    }

    /// A grouped convolution.
    #[kernel(launches = 1)]
    pub fn conv_grouped<B, C, H, W, K, R, S, P, Q, CG, KG, const G: usize = 2>(
        x: Tensor<f32, B, C, H, W>, w: Tensor<f32, K, CG, R, S>,
    ) -> Tensor<f32, B, K, P, Q> {
        x.split(C, (G, CG))
            .window(H, (P, R), padding = 1)
            .window(W, (Q, S), padding = 1)
            .dot(w.split(K, (G, KG)), (CG, R, S))
            .merge((G, KG), K)
    }

    /// A filter for each channel.
    #[kernel(launches = 1, assume(B = 8, C = 64, H = 56, W = 56, R = 3, S = 3))]
    pub fn conv_depthwise<B, C, H, W, R, S, P, Q>(x: Tensor<f32, B, C, H, W>, w: Tensor<f32, C, R, S>) -> Tensor<f32, B, C, P, Q> {
        x.window(H, (P, R), padding = 1).window(W, (Q, S), padding = 1).dot(w, (R, S))
    }

    /// Along one axis, and along three.
    #[kernel(launches = 1)]
    pub fn conv_line<C, L, K, R, P>(x: Tensor<f32, C, L>, w: Tensor<f32, K, C, R>, b: Tensor<f32, K>) -> Tensor<f32, K, P> {
        x.window(L, (P, R), stride = 3).dot(w, (C, R)) + b
    }

    /// A filter along frames of a signal, which overlap: windows of windows.
    #[kernel(launches = 1)]
    pub fn conv_frames<L, T, F, K, R, P>(
        x: Tensor<f32, L>, w: Tensor<f32, K, R>, stride: i64, frame: Axis<F>,
    ) -> Tensor<f32, K, T, P> {
        x.window(L, (T, F), stride = stride).window(F, (P, R)).dot(w, R)
    }

    #[kernel(launches = 1)]
    pub fn conv_space<D, H, W, K, T, R, S, N, P, Q>(x: Tensor<f32, D, H, W>, w: Tensor<f32, K, T, R, S>) -> Tensor<f32, K, N, P, Q> {
        x.window(D, (N, T)).window(H, (P, R), padding = 1).window(W, (Q, S)).dot(w, (T, R, S))
    }

    /// Pools.
    #[kernel(launches = 1, assume(B = 8, C = 64, H = 56, W = 56))]
    pub fn pools<B, C, H, W, const R: usize = 3, const S: usize = 2, P, Q>(
        x: Tensor<f32, B, C, H, W>,
    ) -> (Tensor<f32, B, C, P, Q>, Tensor<f32, B, C, P, Q>) {
        (max_pool2d::<H, W, R, S, P, Q>(x, 2, 1), avg_pool2d::<H, W, R, S, P, Q>(x, 2, 1))
    }

    /// A padding that the call gives, and a fill that it gives too.
    #[kernel]
    pub fn pool_with_fill<N, P, const R: usize = 3>(x: Tensor<f32, N>, padding: i64, fill: f32) -> Tensor<f32, P> {
        x.window(N, (P, R), padding = padding, fill = fill).max(R)
    }
}

golden::plans! {
    "convolutions",
    conv_norm_relu: 1,
    conv_channels_last: 1,
    conv_grouped: 1,
    conv_depthwise: 1,
    conv_line: 1,
    pools: 1,
}

/// A tensor on the device that the test runs on.
fn place<const R: usize>(data: &[f32], shape: [usize; R]) -> Result<Tensor<f32, R>, Error> {
    Tensor::from_vec(data.to_vec(), shape, &device())
}

/// How one axis is walked.
#[derive(Clone, Copy)]
struct Axis {
    extent: usize,
    taps: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

impl Axis {
    const fn new(extent: usize, taps: usize, stride: usize, padding: usize, dilation: usize) -> Axis {
        Axis { extent, taps, stride, padding, dilation }
    }

    fn places(self) -> usize {
        (self.extent + 2 * self.padding - self.dilation * (self.taps - 1) - 1) / self.stride + 1
    }

    fn at(self, place: usize, tap: usize) -> Option<usize> {
        (place * self.stride + tap * self.dilation).checked_sub(self.padding).filter(|&at| at < self.extent)
    }
}

/// `Σ x(c, y, z) w(c, r, s)` over the windows at `p` and `q`, and the sum of the magnitudes.
fn convolve(
    (h, w): (Axis, Axis),
    (p, q): (usize, usize),
    channels: usize,
    x: impl Fn(usize, usize, usize) -> f32,
    f: impl Fn(usize, usize, usize) -> f32,
) -> (f64, f64) {
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for c in 0..channels {
        for r in 0..h.taps {
            for s in 0..w.taps {
                let (Some(y), Some(z)) = (h.at(p, r), w.at(q, s)) else { continue };
                let product = f64::from(x(c, y, z)) * f64::from(f(c, r, s));
                (sum, magnitude) = (sum + product, magnitude + product.abs());
            }
        }
    }
    (sum, magnitude)
}

#[track_caller]
fn check(what: &str, got: f32, want: f64, magnitude: f64) {
    let bound = 32.0 * f64::from(f32::EPSILON) * (magnitude + want.abs());
    assert!((f64::from(got) - want).abs() <= bound, "{what}: {got} instead of {want}, {bound:e} allowed");
}

on_every_device! {
    convolution_norm_and_activation,
    strides_dilations_and_channels_last,
    groups_and_single_channels,
    one_and_three_axes,
    windows_of_windows,
    pools_of_windows,
}

#[test]
fn convolution_norm_and_activation() -> Result<(), Error> {
    for (b, c, side, k, r) in [(1, 1, 3, 1, 3), (2, 3, 7, 5, 3), (1, 4, 30, 70, 1), (2, 9, 12, 33, 3)] {
        let (h, w) = (Axis::new(side, r, 1, 1, 1), Axis::new(side + 1, r, 1, 1, 1));
        let (x, f) = (values(b * c * side * (side + 1), 1), values(k * c * r * r, 2));
        let (mean, g, bias) = (values(k, 3), values(k, 4), values(k, 5));
        let var: Vec<f32> = values(k, 6).iter().map(|v| v * v + 0.5).collect();
        let per = |data: &[f32]| place(data, [k]);
        let got = conv_norm_relu(
            &place(&x, [b, c, side, side + 1])?,
            &place(&f, [k, c, r, r])?,
            &per(&mean)?,
            &per(&var)?,
            &per(&g)?,
            &per(&bias)?,
        )?;
        assert_eq!(got.shape(), [b, k, h.places(), w.places()]);
        // The same with the norm in the filters.
        let (filters, added) =
            folded(&place(&f, [k, c, r, r])?, &per(&mean)?, &per(&var)?, &per(&g)?, &per(&bias)?)?;
        let by_filters = conv_folded_relu(&place(&x, [b, c, side, side + 1])?, &filters, &added)?;
        for (at, pair) in got.to_vec()?.into_iter().zip(by_filters.to_vec()?).enumerate() {
            let (got, by_filters) = pair;
            let (q, rest) = (at % w.places(), at / w.places());
            let (p, rest) = (rest % h.places(), rest / h.places());
            let (o, n) = (rest % k, rest / k);
            let read = |ch: usize, y: usize, z: usize| x[((n * c + ch) * side + y) * (side + 1) + z];
            let (sum, magnitude) =
                convolve((h, w), (p, q), c, read, |ch, i, j| f[((o * c + ch) * r + i) * r + j]);
            let (mean, scale) = (f64::from(mean[o]), f64::from(g[o]) / (f64::from(var[o]) + 1e-5).sqrt());
            let want = ((sum - mean) * scale + f64::from(bias[o])).max(0.0);
            check(
                &format!("{b}x{c}x{side} to {k} at {at}"),
                got,
                want,
                (magnitude + mean.abs()) * scale.abs() + f64::from(bias[o].abs()),
            );
            check(
                &format!("{b}x{c}x{side} to {k} by folded filters at {at}"),
                by_filters,
                want,
                (magnitude + mean.abs()) * scale.abs() + f64::from(bias[o].abs()),
            );
        }
    }
    Ok(())
}

#[test]
fn strides_dilations_and_channels_last() -> Result<(), Error> {
    let (b, c, k, r, s) = (2, 3, 20, 3, 2);
    let (h, w) = (Axis::new(9, r, 2, 1, 1), Axis::new(11, s, 1, 2, 2));
    let (x, f) = (values(b * 9 * 11 * c, 1), values(r * s * c * k, 2));
    let got = conv_channels_last(&place(&x, [b, 9, 11, c])?, &place(&f, [r, s, c, k])?)?;
    assert_eq!(got.shape(), [b, h.places(), w.places(), k]);
    for (at, got) in got.to_vec()?.into_iter().enumerate() {
        let (o, rest) = (at % k, at / k);
        let (q, rest) = (rest % w.places(), rest / w.places());
        let (p, n) = (rest % h.places(), rest / h.places());
        let read = |ch: usize, y: usize, z: usize| x[((n * 9 + y) * 11 + z) * c + ch];
        let (want, magnitude) =
            convolve((h, w), (p, q), c, read, |ch, i, j| f[((i * s + j) * c + ch) * k + o]);
        check(&format!("at {at}"), got, want, magnitude);
    }
    Ok(())
}

#[test]
fn groups_and_single_channels() -> Result<(), Error> {
    let (b, groups, cg, kg, side, r) = (2, 2, 3, 5, 8, 3);
    let (c, k) = (groups * cg, groups * kg);
    let axis = Axis::new(side, r, 1, 1, 1);
    let (x, f) = (values(b * c * side * side, 1), values(k * cg * r * r, 2));
    let got = conv_grouped(&place(&x, [b, c, side, side])?, &place(&f, [k, cg, r, r])?)?.to_vec()?;
    let depthwise =
        conv_depthwise(&place(&x, [b, c, side, side])?, &place(&f[..c * r * r], [c, r, r])?)?.to_vec()?;
    let window = |at: usize| (at / side % side, at % side);
    for (at, got) in got.into_iter().enumerate() {
        let (o, n) = (at / (side * side) % k, at / (side * side) / k);
        let read = |ch: usize, y: usize, z: usize| x[((n * c + o / kg * cg + ch) * side + y) * side + z];
        let (want, magnitude) =
            convolve((axis, axis), window(at), cg, read, |ch, i, j| f[((o * cg + ch) * r + i) * r + j]);
        check(&format!("grouped at {at}"), got, want, magnitude);
    }
    for (at, got) in depthwise.into_iter().enumerate() {
        let ch = at / (side * side) % c;
        let read = |_: usize, y: usize, z: usize| x[(at / (side * side) * side + y) * side + z];
        let (want, magnitude) =
            convolve((axis, axis), window(at), 1, read, |_, i, j| f[(ch * r + i) * r + j]);
        check(&format!("depthwise at {at}"), got, want, magnitude);
    }
    Ok(())
}

#[test]
fn one_and_three_axes() -> Result<(), Error> {
    let (c, length, k, r) = (4, 50, 6, 5);
    let axis = Axis::new(length, r, 3, 0, 1);
    let (x, f, b) = (values(c * length, 1), values(k * c * r, 2), values(k, 3));
    let got = conv_line(&place(&x, [c, length])?, &place(&f, [k, c, r])?, &place(&b, [k])?)?;
    assert_eq!(got.shape(), [k, axis.places()]);
    let one = Axis::new(1, 1, 1, 0, 1);
    for (at, got) in got.to_vec()?.into_iter().enumerate() {
        let (o, p) = (at / axis.places(), at % axis.places());
        let (sum, magnitude) = convolve(
            (axis, one),
            (p, 0),
            c,
            |ch, y, _| x[ch * length + y],
            |ch, i, _| f[(o * c + ch) * r + i],
        );
        check(&format!("line at {at}"), got, sum + f64::from(b[o]), magnitude + 2.0);
    }
    let (d, h, w, k) = (4, 5, 6, 3);
    let (x, f) = (values(d * h * w, 4), values(k * 2 * 3 * 2, 5));
    let got = conv_space(&place(&x, [d, h, w])?, &place(&f, [k, 2, 3, 2])?)?;
    assert_eq!(got.shape(), [k, 3, 5, 5]);
    let (h_axis, w_axis) = (Axis::new(h, 3, 1, 1, 1), Axis::new(w, 2, 1, 0, 1));
    for (at, got) in got.to_vec()?.into_iter().enumerate() {
        let (q, p, n, o) = (at % 5, at / 5 % 5, at / 25 % 3, at / 75);
        let read = |t: usize, y: usize, z: usize| x[((n + t) * h + y) * w + z];
        let (want, magnitude) =
            convolve((h_axis, w_axis), (p, q), 2, read, |t, i, j| f[((o * 2 + t) * 3 + i) * 2 + j]);
        check(&format!("space at {at}"), got, want, magnitude);
    }
    Ok(())
}

/// The rows of such a picture overlap in memory, wholly or in part, or have gaps between them.
#[test]
fn windows_of_windows() -> Result<(), Error> {
    let (k, r) = (7, 3);
    for (frames, width, stride) in
        [(2, 27, 1), (21, 18, 4), (40, 30, 30), (9, 16, 17), (5, 12, 40), (3, 600, 599)]
    {
        let length = (frames - 1) * stride + width + r - 1;
        let (x, f) = (values(length, 1), values(k * r, 2));
        let got = conv_frames(&place(&x, [length])?, &place(&f, [k, r])?, stride as i64, width + r - 1)?;
        assert_eq!(got.shape(), [k, frames, width]);
        for (at, got) in got.to_vec()?.into_iter().enumerate() {
            let (p, t, o) = (at % width, at / width % frames, at / width / frames);
            let taps = (0..r).map(|i| f64::from(x[t * stride + p + i]) * f64::from(f[o * r + i]));
            let (want, magnitude) = taps.fold((0.0, 0.0), |(sum, all), tap| (sum + tap, all + tap.abs()));
            check(&format!("{frames} frames of {width}, {stride} apart, at {at}"), got, want, magnitude);
        }
    }
    Ok(())
}

#[test]
fn pools_of_windows() -> Result<(), Error> {
    let (b, c, h, w) = (2, 3, 9, 10);
    let (rows, columns) = (Axis::new(h, 3, 2, 1, 1), Axis::new(w, 2, 2, 1, 1));
    let x = values(b * c * h * w, 1);
    let (max, mean) = pools(&place(&x, [b, c, h, w])?)?;
    assert_eq!(max.shape(), [b, c, rows.places(), columns.places()]);
    for (at, (max, mean)) in max.to_vec()?.into_iter().zip(mean.to_vec()?).enumerate() {
        let (q, p, n) = (
            at % columns.places(),
            at / columns.places() % rows.places(),
            at / columns.places() / rows.places(),
        );
        let taps: Vec<Option<f32>> =
            (0..6).map(|t| Some(x[(n * h + rows.at(p, t / 2)?) * w + columns.at(q, t % 2)?])).collect();
        let greatest = taps.iter().flatten().copied().fold(f32::NEG_INFINITY, f32::max);
        assert_eq!(max, greatest, "at {at}");
        let sum: f64 = taps.iter().flatten().map(|&x| f64::from(x)).sum();
        check(&format!("mean at {at}"), mean, sum / 6.0, 4.0);
    }
    let got = pool_with_fill(&place(&[1.0, 2.0, 3.0], [3])?, 2, 2.5)?;
    assert_eq!(got.to_vec()?, [2.5, 2.5, 3.0, 3.0, 3.0]);
    let got = pool_with_fill(&place(&[1.0, 2.0, 3.0], [3])?, 0, 2.5)?;
    assert_eq!(got.to_vec()?, [3.0]);
    Ok(())
}

#[test]
fn kernels_verify_themselves() -> Result<(), Error> {
    conv_norm_relu::verify().run()?;
    conv_channels_last::verify().run()?;
    conv_grouped::verify().run()?;
    conv_depthwise::verify().run()?;
    conv_line::verify().run()?;
    pools::verify().run()?;
    pool_with_fill::verify().run()?;
    Ok(())
}
