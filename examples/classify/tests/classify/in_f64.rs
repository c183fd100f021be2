//! The network in plain loops over f64, written from its definition: convolutions with their norms after them.

use crate::numbers;
use classify::network::Sizes;
use std::collections::HashMap;

/// A picture of any channels, row after row, the channels of a pixel together.
#[derive(Clone)]
pub(crate) struct Picture {
    height: usize,
    width: usize,
    channels: usize,
    data: Vec<f64>,
}

impl Picture {
    pub(crate) fn new(height: usize, width: usize, channels: usize, data: &[f32]) -> Self {
        assert_eq!(data.len(), height * width * channels);
        Picture { height, width, channels, data: data.iter().map(|x| f64::from(*x)).collect() }
    }

    /// An element, or zero outside.
    fn get(&self, row: i64, column: i64, channel: usize) -> f64 {
        let inside = (0..self.height as i64).contains(&row) && (0..self.width as i64).contains(&column);
        if inside {
            self.data[(row as usize * self.width + column as usize) * self.channels + channel]
        } else {
            0.0
        }
    }
}

/// Weights by their names.
#[derive(Default)]
pub(crate) struct Weights {
    of: HashMap<String, Vec<f32>>,
}

impl Weights {
    /// Weights as a trained network has them: such that features keep their size, with variances above zero.
    pub(crate) fn random(&mut self, name: &str, shape: &[usize]) -> Vec<f32> {
        let values = numbers::values(shape.iter().product(), self.of.len() as u32 + 1);
        let fan_in = shape[1..].iter().product::<usize>().max(1) as f32;
        let value = |x: f32| match name.rsplit('.').next() {
            Some("running_var") => 0.5 + x.abs(),
            Some("running_mean") => 0.1 * x,
            Some("weight") if shape.len() == 1 => 1.5 + x / 2.0,
            Some("bias") => x / 2.0,
            _ => 1.5 * x / fan_in.sqrt(),
        };
        let values: Vec<f32> = values.into_iter().map(value).collect();
        let previous = self.of.insert(name.to_owned(), values.clone());
        assert!(previous.is_none(), "`{name}` is read twice");
        values
    }

    fn get(&self, name: &str) -> Vec<f64> {
        self.of[name].iter().map(|x| f64::from(*x)).collect()
    }

    fn norm(&self, name: &str, mut x: Picture, clamp: bool) -> Picture {
        let part = |part: &str| self.get(&format!("{name}.{part}"));
        let (mean, var, g, b) = (part("running_mean"), part("running_var"), part("weight"), part("bias"));
        let epsilon = f64::from(1e-3f32);
        for (k, v) in x.data.iter_mut().enumerate() {
            let c = k % x.channels;
            *v = (*v - mean[c]) / (var[c] + epsilon).sqrt() * g[c] + b[c];
            if clamp {
                *v = v.clamp(0.0, 6.0);
            }
        }
        x
    }

    /// A convolution, of all channels or, if it is depthwise, of each for itself.
    fn convolve(&self, name: &str, x: &Picture, taps: usize, stride: usize, depthwise: bool) -> Picture {
        let w = self.get(&format!("{name}.weight"));
        let reads = if depthwise { 1 } else { x.channels };
        let channels = w.len() / reads / taps / taps;
        let (height, width) = (x.height.div_ceil(stride), x.width.div_ceil(stride));
        // Windows are laid such that as many of their taps hang over one edge as over the other, or one more over the last.
        let before = |windows: usize, extent: usize| {
            let over = ((windows - 1) * stride + taps) as i64 - extent as i64;
            over.max(0) / 2
        };
        let (top, left) = (before(height, x.height), before(width, x.width));
        let mut data = Vec::with_capacity(height * width * channels);
        for i in 0..height {
            for j in 0..width {
                for k in 0..channels {
                    let mut sum = 0.0;
                    for c in 0..reads {
                        for r in 0..taps {
                            for s in 0..taps {
                                let (row, column) =
                                    ((i * stride + r) as i64 - top, (j * stride + s) as i64 - left);
                                let from = if depthwise { k } else { c };
                                sum += w[((k * reads + c) * taps + r) * taps + s] * x.get(row, column, from);
                            }
                        }
                    }
                    data.push(sum);
                }
            }
        }
        Picture { height, width, channels, data }
    }

    /// The logits of a picture.
    pub(crate) fn classify(&self, sizes: &Sizes, picture: Picture) -> Vec<f64> {
        let mut x = self.norm("_bn0", self.convolve("_conv_stem", &picture, 3, 2, false), true);
        for (k, b) in sizes.blocks.iter().enumerate() {
            let name = |part: &str| format!("_blocks.{k}.{part}");
            let mut y = x.clone();
            if b.expand != 1 {
                y = self.norm(&name("_bn0"), self.convolve(&name("_expand_conv"), &y, 1, 1, false), true);
            }
            let deep = self.convolve(&name("_depthwise_conv"), &y, b.taps, b.stride, true);
            y = self.norm(&name("_bn1"), deep, true);
            y = self.norm(&name("_bn2"), self.convolve(&name("_project_conv"), &y, 1, 1, false), false);
            if b.stride == 1 && b.reads == b.gives {
                y.data.iter_mut().zip(&x.data).for_each(|(y, x)| *y += x);
            }
            x = y;
        }
        let x = self.norm("_bn1", self.convolve("_conv_head", &x, 1, 1, false), true);
        let pixels = (x.height * x.width) as f64;
        let mean = |c: usize| x.data.iter().skip(c).step_by(x.channels).sum::<f64>() / pixels;
        let means: Vec<f64> = (0..x.channels).map(mean).collect();
        let (w, b) = (self.get("_fc.weight"), self.get("_fc.bias"));
        let dot = |row: &[f64]| row.iter().zip(&means).map(|(w, x)| w * x).sum::<f64>();
        w.chunks(x.channels).zip(b).map(|(row, b)| dot(row) + b).collect()
    }
}
