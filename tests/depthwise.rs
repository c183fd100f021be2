//! Filters for each channel: that they are scheduled as such, and their numbers against plain f64 loops in every layout.

#[path = "support/devices.rs"]
mod devices;
#[path = "support/numbers.rs"]
mod numbers;
#[path = "support/threads.rs"]
mod threads;

use devices::{device, on_every_device};
use fuse::{Error, Tensor, fuse};
use numbers::values;
use threads::with_threads;

fuse! {
    /// Channels last, with zeros before and after, and what comes after a convolution.
    #[kernel(launches = 1, assume(B = 1, H = 28, W = 28, C = 240, R = 5, S = 5, P = 14, Q = 14))]
    pub fn last<B, H, W, C, R, S, P, Q, HP, WP>(
        x: Tensor<f32, B, H, W, C>, w: Tensor<f32, R, S, C>, bias: Tensor<f32, C>, stride: i64, before: i64, after: i64,
    ) -> Tensor<f32, B, P, Q, C> {
        let x = x.pad(H, before, after, HP).pad(W, before, after, WP);
        relu6(x.window(HP, (P, R), stride = stride).window(WP, (Q, S), stride = stride).dot(w, (R, S)) + bias)
    }

    /// Channels first, strides, paddings and dilations of their own on both axes.
    #[kernel(launches = 1)]
    pub fn first<B, C, H, W, R, S, P, Q>(
        x: Tensor<f32, B, C, H, W>, w: Tensor<f32, C, R, S>, strides: i64, stride: i64, padding: i64, paddings: i64,
        dilation: i64,
    ) -> Tensor<f32, B, C, P, Q> {
        x.window(H, (P, R), stride = strides, padding = padding)
            .window(W, (Q, S), stride = stride, padding = paddings, dilation = dilation)
            .dot(w, (R, S))
    }

    /// From channels first to channels last, with filters that lie as in other libraries, a norm and a residual.
    #[kernel(launches = 1, assume(B = 1, C = 64, H = 56, W = 56, R = 3, S = 3, P = 56, Q = 56))]
    pub fn turned<B, C, H, W, R, S, P, Q>(
        x: Tensor<f32, B, C, H, W>, w: Tensor<f32, C, R, S>, mean: Tensor<f32, C>, var: Tensor<f32, C>, g: Tensor<f32, C>,
        b: Tensor<f32, C>,
    ) -> Tensor<f32, B, H, W, C> {
        let windows = x.window(H, (P, R), padding = 1).window(W, (Q, S), padding = 1);
        let y: Tensor<f32, B, C, P, Q> = windows.dot(w, (R, S));
        relu6(batch_norm(y, mean, var, g, b, 1e-5)).rename(P, H).rename(Q, W) + x
    }

    /// One filter for all channels of a picture.
    #[kernel(launches = 1)]
    pub fn blur<H, W, C, R, S, P, Q>(x: Tensor<f32, H, W, C>, w: Tensor<f32, R, S>) -> Tensor<f32, P, Q, C> {
        x.window(H, (P, R), padding = 1).window(W, (Q, S), padding = 1).dot(w, (R, S))
    }

    /// Along one axis, the taps from last to first, and along three.
    #[kernel(launches = 1)]
    pub fn line<L, R, P>(x: Tensor<f32, L>, w: Tensor<f32, R>) -> Tensor<f32, P> {
        x.window(L, (P, R), stride = 2, padding = 3).dot(w.reverse(R), R)
    }

    #[kernel(launches = 1)]
    pub fn space<D, H, W, C, T, R, S, N, P, Q>(x: Tensor<f32, D, H, W, C>, w: Tensor<f32, T, R, S, C>) -> Tensor<f32, N, P, Q, C> {
        x.window(D, (N, T), padding = 1).window(H, (P, R)).window(W, (Q, S), stride = 2).dot(w, (T, R, S))
    }

    /// A source that is read backwards: no box has it.
    #[kernel(launches = 1)]
    pub fn backwards<L, R, P>(x: Tensor<f32, L>, w: Tensor<f32, R>) -> Tensor<f32, P> {
        x.reverse(L).window(L, (P, R), padding = 1).dot(w, R)
    }

    /// Not depthwise: no window slides; the source is no f32 in memory; a sum whose order is promised.
    #[kernel(launches = 1)]
    pub fn rows<M, K>(x: Tensor<f32, M, K>, v: Tensor<f32, K>) -> Tensor<f32, M> { x.dot(v, K) }

    #[kernel(launches = 1)]
    pub fn doubles<L, R, P>(x: Tensor<f64, L>, w: Tensor<f64, R>) -> Tensor<f64, P> { x.window(L, (P, R)).dot(w, R) }

    #[kernel(launches = 1)]
    pub fn summed<L, R, P>(x: Tensor<f32, L>, w: Tensor<f32, R>) -> Tensor<f32, P> {
        let products: Tensor<f32, P, R> = x.window(L, (P, R)) * w;
        products.sum(R)
    }
}

/// A tensor on the device that the test runs on.
fn place<const R: usize>(data: &[f32], shape: [usize; R]) -> Result<Tensor<f32, R>, Error> {
    Tensor::from_vec(data.to_vec(), shape, &device())
}

#[test]
fn what_slides_under_a_filter_is_scheduled_as_such() {
    let is_depthwise = |plan: &fuse::Plan| plan.to_string().contains(": depthwise for each [");
    for plan in [
        last::plan(),
        first::plan(),
        turned::plan(),
        blur::plan(),
        line::plan(),
        space::plan(),
        backwards::plan(),
    ] {
        assert!(is_depthwise(plan), "{plan}");
        assert!(plan.to_string().contains("taken   depthwise: `"), "{plan}");
        assert_eq!(plan.launch_count(), 1, "{plan}");
    }
    for plan in [rows::plan(), doubles::plan(), summed::plan()] {
        assert!(!is_depthwise(plan), "{plan}");
    }
}

/// How one axis is walked.
#[derive(Clone, Copy)]
struct Axis {
    extent: usize,
    taps: usize,
    stride: usize,
    before: usize,
    after: usize,
    dilation: usize,
}

impl Axis {
    const fn new(extent: usize, taps: usize, stride: usize, padding: usize, dilation: usize) -> Axis {
        Axis { extent, taps, stride, before: padding, after: padding, dilation }
    }

    fn places(self) -> usize {
        let reach = self.dilation * (self.taps.max(1) - 1) + 1;
        (self.extent + self.before + self.after).checked_sub(reach).map_or(0, |x| x / self.stride + 1)
    }

    fn at(self, place: usize, tap: usize) -> Option<usize> {
        (place * self.stride + tap * self.dilation).checked_sub(self.before).filter(|&at| at < self.extent)
    }
}

/// `Σ x(y, z) w(r, s)` over the window at `p` and `q`, and the sum of the magnitudes.
fn convolve(
    (h, w): (Axis, Axis),
    (p, q): (usize, usize),
    x: impl Fn(usize, usize) -> f32,
    f: impl Fn(usize, usize) -> f32,
) -> (f64, f64) {
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for r in 0..h.taps {
        for s in 0..w.taps {
            let (Some(y), Some(z)) = (h.at(p, r), w.at(q, s)) else { continue };
            let product = f64::from(x(y, z)) * f64::from(f(r, s));
            (sum, magnitude) = (sum + product, magnitude + product.abs());
        }
    }
    (sum, magnitude)
}

/// The bound of class B for so few taps, with what an epilogue may add.
#[track_caller]
fn check(what: &str, got: f32, want: f64, magnitude: f64) {
    let bound = 32.0 * f64::from(f32::EPSILON) * (magnitude + want.abs() + 1e-3);
    assert!((f64::from(got) - want).abs() <= bound, "{what}: {got} instead of {want}, {bound:e} allowed");
}

on_every_device! {
    channels_last,
    channels_first,
    from_one_layout_to_the_other,
    shared_filters_lines_and_spaces,
    nothing_and_single_elements,
    zeros_around_meet_what_is_not_finite,
}

fn check_last(b: usize, c: usize, h: Axis, w: Axis) -> Result<(), Error> {
    let (x, f, bias) = (values(b * h.extent * w.extent * c, 1), values(h.taps * w.taps * c, 2), values(c, 3));
    let got = last(
        &place(&x, [b, h.extent, w.extent, c])?,
        &place(&f, [h.taps, w.taps, c])?,
        &place(&bias, [c])?,
        h.stride as i64,
        h.before as i64,
        h.after as i64,
    )?;
    let (rows, columns) = (h.places(), w.places());
    assert_eq!(got.shape(), [b, rows, columns, c]);
    for (at, got) in got.to_vec()?.into_iter().enumerate() {
        let (ch, q, p, n) = (at % c, at / c % columns, at / c / columns % rows, at / c / columns / rows);
        let read = |y: usize, z: usize| x[((n * h.extent + y) * w.extent + z) * c + ch];
        let (sum, magnitude) = convolve((h, w), (p, q), read, |r, s| f[(r * w.taps + s) * c + ch]);
        let want = (sum + f64::from(bias[ch])).clamp(0.0, 6.0);
        let what =
            format!("{b} of {}x{}x{c}, {} taps, {} apart, at {at}", h.extent, w.extent, h.taps, h.stride);
        check(&what, got, want, magnitude + f64::from(bias[ch].abs()));
    }
    Ok(())
}

#[test]
fn channels_last() -> Result<(), Error> {
    let axis =
        |extent, taps, stride, before, after| Axis { extent, taps, stride, before, after, dilation: 1 };
    for (b, c, taps, stride, height, width) in [
        (1, 1, 3, 1, 5, 5),
        (2, 3, 3, 2, 7, 8),
        (1, 8, 5, 1, 9, 1),
        (1, 33, 5, 2, 11, 14),
        (1, 40, 3, 1, 3, 17),
        (2, 70, 1, 1, 4, 5),
        (1, 19, 7, 3, 4, 6),
        (1, 129, 3, 1, 6, 30),
    ] {
        let (before, after) = ((taps - 1) / 2, taps / 2 + stride - 1);
        check_last(
            b,
            c,
            axis(height, taps, stride, before, after),
            axis(width, taps, stride, before, after),
        )?;
        check_last(b, c, axis(9, taps, stride, 0, 0), axis(8, taps, stride, 0, 0))?;
    }
    // Windows that lie over the edge as a whole.
    check_last(1, 5, axis(2, 2, 1, 4, 3), axis(3, 2, 1, 4, 3))
}

#[test]
fn channels_first() -> Result<(), Error> {
    for (b, c, h, w) in [
        (1, 1, Axis::new(5, 3, 1, 1, 1), Axis::new(7, 3, 1, 1, 1)),
        (2, 3, Axis::new(9, 3, 2, 1, 1), Axis::new(19, 3, 1, 1, 2)),
        (1, 4, Axis::new(8, 5, 1, 0, 1), Axis::new(35, 5, 2, 2, 1)),
        (2, 2, Axis::new(4, 1, 1, 0, 1), Axis::new(16, 1, 3, 0, 1)),
        (1, 2, Axis::new(40, 3, 1, 2, 1), Axis::new(50, 4, 3, 1, 3)),
        (1, 3, Axis::new(3, 3, 3, 3, 1), Axis::new(1, 3, 2, 3, 1)),
    ] {
        let (x, f) = (values(b * c * h.extent * w.extent, 1), values(c * h.taps * w.taps, 2));
        let check_of = |got: Tensor<f32, 4>| -> Result<(), Error> {
            let (rows, columns) = (h.places(), w.places());
            assert_eq!(got.shape(), [b, c, rows, columns]);
            for (at, got) in got.to_vec()?.into_iter().enumerate() {
                let (q, p, n) = (at % columns, at / columns % rows, at / columns / rows);
                let read = |y: usize, z: usize| x[(n * h.extent + y) * w.extent + z];
                let filter = |r: usize, s: usize| f[(n % c * h.taps + r) * w.taps + s];
                let (sum, magnitude) = convolve((h, w), (p, q), read, filter);
                let what = format!("{b} of {c}x{}x{}, {} apart, at {at}", h.extent, w.extent, w.stride);
                check(&what, got, sum, magnitude);
            }
            Ok(())
        };
        let x_first = place(&x, [b, c, h.extent, w.extent])?;
        let filter = place(&f, [c, h.taps, w.taps])?;
        let call = |x: &Tensor<f32, 4>, f: &Tensor<f32, 3>| {
            let [p, q] = [h, w].map(|a| a.before as i64);
            first(x, f, h.stride as i64, w.stride as i64, p, q, w.dilation as i64)
        };
        check_of(call(&x_first, &filter)?)?;
        // The same as views of memory that lies otherwise.
        let mut x_last = vec![0.0; x.len()];
        for (at, &x) in x.iter().enumerate() {
            let (z, y) = (at % w.extent, at / w.extent % h.extent);
            let (ch, n) = (at / w.extent / h.extent % c, at / w.extent / h.extent / c);
            x_last[((n * w.extent + z) * h.extent + y) * c + ch] = x;
        }
        let view = place(&x_last, [b, w.extent, h.extent, c])?.transpose(1, 3)?;
        check_of(call(&view, &filter)?)?;
    }
    Ok(())
}

#[test]
fn from_one_layout_to_the_other() -> Result<(), Error> {
    for (b, c, height, width) in [(1, 1, 3, 4), (2, 20, 5, 9), (1, 70, 12, 3)] {
        let (h, w) = (Axis::new(height, 3, 1, 1, 1), Axis::new(width, 3, 1, 1, 1));
        let (x, f) = (values(b * c * height * width, 1), values(c * 9, 2));
        let (mean, g, bias) = (values(c, 3), values(c, 4), values(c, 5));
        let var: Vec<f32> = values(c, 6).iter().map(|v| v * v + 0.5).collect();
        let per = |data: &[f32]| place(data, [c]);
        let got = turned(
            &place(&x, [b, c, height, width])?,
            &place(&f, [c, 3, 3])?,
            &per(&mean)?,
            &per(&var)?,
            &per(&g)?,
            &per(&bias)?,
        )?;
        assert_eq!(got.shape(), [b, height, width, c]);
        for (at, got) in got.to_vec()?.into_iter().enumerate() {
            let (ch, q, p, n) = (at % c, at / c % width, at / c / width % height, at / c / width / height);
            let read = |y: usize, z: usize| x[((n * c + ch) * height + y) * width + z];
            let (sum, magnitude) = convolve((h, w), (p, q), read, |r, s| f[(ch * 3 + r) * 3 + s]);
            let (mean, scale) = (f64::from(mean[ch]), f64::from(g[ch]) / (f64::from(var[ch]) + 1e-5).sqrt());
            let want = ((sum - mean) * scale + f64::from(bias[ch])).clamp(0.0, 6.0) + f64::from(read(p, q));
            let around = (magnitude + mean.abs()) * scale.abs() + f64::from(bias[ch].abs());
            check(&format!("{b} of {c}x{height}x{width} at {at}"), got, want, around);
        }
    }
    Ok(())
}

#[test]
fn shared_filters_lines_and_spaces() -> Result<(), Error> {
    let (c, h, w) = (35, Axis::new(6, 3, 1, 1, 1), Axis::new(9, 2, 1, 1, 1));
    let (x, f) = (values(h.extent * w.extent * c, 1), values(h.taps * w.taps, 2));
    let got = blur(&place(&x, [h.extent, w.extent, c])?, &place(&f, [h.taps, w.taps])?)?;
    for (at, got) in got.to_vec()?.into_iter().enumerate() {
        let (ch, q, p) = (at % c, at / c % w.places(), at / c / w.places());
        let read = |y: usize, z: usize| x[(y * w.extent + z) * c + ch];
        let (sum, magnitude) = convolve((h, w), (p, q), read, |r, s| f[r * w.taps + s]);
        check(&format!("blurred at {at}"), got, sum, magnitude);
    }
    for (extent, taps) in [(1, 1), (40, 6), (3, 9), (100, 3)] {
        let w = Axis::new(extent, taps, 2, 3, 1);
        let (x, f) = (values(extent, 1), values(taps, 2));
        let got = line(&place(&x, [extent])?, &place(&f, [taps])?)?;
        assert_eq!(got.shape(), [w.places()]);
        for (q, got) in got.to_vec()?.into_iter().enumerate() {
            let one = Axis::new(1, 1, 1, 0, 1);
            let (sum, magnitude) = convolve((one, w), (0, q), |_, z| x[z], |_, s| f[taps - 1 - s]);
            check(&format!("{taps} taps along {extent} at {q}"), got, sum, magnitude);
        }
        let w = Axis::new(extent, taps.min(extent), 1, 1, 1);
        let got = backwards(&place(&x, [extent])?, &place(&f[..w.taps], [w.taps])?)?;
        for (q, got) in got.to_vec()?.into_iter().enumerate() {
            let one = Axis::new(1, 1, 1, 0, 1);
            let (sum, magnitude) = convolve((one, w), (0, q), |_, z| x[extent - 1 - z], |_, s| f[s]);
            check(&format!("{} taps backwards along {extent} at {q}", w.taps), got, sum, magnitude);
        }
    }
    let (c, d, h, w) = (5, Axis::new(4, 2, 1, 1, 1), Axis::new(5, 3, 1, 0, 1), Axis::new(8, 2, 2, 0, 1));
    let x = values(d.extent * h.extent * w.extent * c, 1);
    let f = values(d.taps * h.taps * w.taps * c, 2);
    let got =
        space(&place(&x, [d.extent, h.extent, w.extent, c])?, &place(&f, [d.taps, h.taps, w.taps, c])?)?;
    for (at, got) in got.to_vec()?.into_iter().enumerate() {
        let (ch, q, rest) = (at % c, at / c % w.places(), at / c / w.places());
        let (p, n) = (rest % h.places(), rest / h.places());
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for t in 0..d.taps {
            let Some(u) = d.at(n, t) else { continue };
            let read = |y: usize, z: usize| x[((u * h.extent + y) * w.extent + z) * c + ch];
            let filter = |r: usize, s: usize| f[((t * h.taps + r) * w.taps + s) * c + ch];
            let (own, of_own) = convolve((h, w), (p, q), read, filter);
            (sum, magnitude) = (sum + own, magnitude + of_own);
        }
        check(&format!("in space at {at}"), got, sum, magnitude);
    }
    Ok(())
}

#[test]
fn nothing_and_single_elements() -> Result<(), Error> {
    // No channels, no pictures, no taps.
    let got = last(&place(&[], [1, 4, 4, 0])?, &place(&[], [3, 3, 0])?, &place(&[], [0])?, 1, 1, 1)?;
    assert_eq!(got.shape(), [1, 4, 4, 0]);
    let f = values(9 * 2, 2);
    let bias = [1.5, -1.0];
    let got = last(&place(&[], [0, 4, 4, 2])?, &place(&f, [3, 3, 2])?, &place(&bias, [2])?, 2, 1, 1)?;
    assert_eq!(got.shape(), [0, 2, 2, 2]);
    let got = blur(&place(&[1.0], [1, 1, 1])?, &place(&values(9, 1), [3, 3])?)?;
    assert_eq!(got.to_vec()?, [values(9, 1)[4]]);
    // A picture of nothing but padding.
    let got = last(&place(&[], [1, 0, 4, 2])?, &place(&f, [3, 3, 2])?, &place(&bias, [2])?, 1, 2, 1)?;
    assert_eq!(got.shape(), [1, 1, 5, 2]);
    assert!(got.to_vec()?.chunks(2).all(|c| c == [1.5, 0.0]));
    Ok(())
}

/// Zeros are multiplied like other numbers: what is not finite in a filter makes NaN of them.
#[test]
fn zeros_around_meet_what_is_not_finite() -> Result<(), Error> {
    let (c, side) = (3, 4);
    let mut f = vec![1.0; 9 * c];
    f[0] = f32::INFINITY;
    let x = vec![1.0; side * side * c];
    let got =
        last(&place(&x, [1, side, side, c])?, &place(&f, [3, 3, c])?, &place(&[0.0; 3], [c])?, 1, 1, 1)?;
    let got = got.to_vec()?;
    // `relu6` of NaN is that of Rust's `max` and `min`, 0; of infinity 6.
    assert_eq!([got[0], got[(side + 1) * c]], [0.0, 6.0]);
    let line = line(&place(&[1.0; 4], [4])?, &place(&[1.0, f32::NAN, 1.0], [3])?)?;
    assert!(line.to_vec()?.iter().all(|x| x.is_nan()));
    Ok(())
}

#[test]
fn kernels_verify_themselves() -> Result<(), Error> {
    last::verify().run()?;
    first::verify().run()?;
    let same = [("H", 5), ("P", 5), ("W", 7), ("Q", 7), ("R", 3), ("S", 3), ("C", 17)];
    turned::verify().sizes(&same).run()?;
    blur::verify().run()?;
    line::verify().run()?;
    space::verify().run()?;
    backwards::verify().run()?;
    Ok(())
}

/// The same bits for any number of threads, and whatever else there is.
#[test]
fn sums_depend_on_neither_threads_nor_batch() -> Result<(), Error> {
    let (c, side) = (130, 40);
    let (x, f, bias) = (values(2 * side * side * c, 1), values(25 * c, 2), values(c, 3));
    let (filter, bias) = (place(&f, [5, 5, c])?, place(&bias, [c])?);
    let whole = place(&x, [2, side, side, c])?;
    let mut results = Vec::new();
    for threads in [1, 2, 5] {
        results.push(with_threads(threads, || last(&whole, &filter, &bias, 1, 2, 2)?.to_vec())?);
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    let half = place(&x[side * side * c..], [1, side, side, c])?;
    let alone = last(&half, &filter, &bias, 1, 2, 2)?.to_vec()?;
    assert_eq!(alone, results[0][side * side * c..]);
    Ok(())
}
