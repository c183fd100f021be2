//! From a file to what the network reads.

use crate::kernels::resize;
use fuse::{Device, Tensor};
use std::path::Path;

/// A photograph: three bytes a pixel, row after row.
pub struct Photograph {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Red, green and blue of each pixel.
    pub levels: Vec<u8>,
}

impl Photograph {
    /// Reads a PNG or JPEG.
    ///
    /// # Errors
    /// If the file is missing or is neither.
    pub fn read(path: &Path) -> Result<Self, String> {
        let reader = image::ImageReader::open(path)
            .and_then(image::ImageReader::with_guessed_format)
            .map_err(|e| format!("cannot open `{}`: {e}", path.display()))?;
        let image = reader.decode().map_err(|e| format!("`{}` is not a PNG or JPEG: {e}", path.display()))?;
        let image = image.into_rgb8();
        let (width, height) = (image.width() as usize, image.height() as usize);
        Ok(Photograph { height, width, levels: image.into_raw() })
    }

    /// The square in the middle, seven eighths of the shorter side, as `side` by `side` pixels from about -1 to 1: one picture
    /// for the network.
    ///
    /// # Errors
    /// If the photograph is smaller than two pixels, or there is no memory.
    pub fn prepare(&self, side: usize, device: &Device) -> Result<Tensor<f32, 4>, String> {
        let shorter = self.height.min(self.width) * 7 / 8;
        if shorter == 0 {
            return Err(format!("a photograph of {} by {} pixels is too small", self.width, self.height));
        }
        let told = |e: fuse::Error| e.to_string();
        let (top, left) = ((self.height - shorter) / 2, (self.width - shorter) / 2);
        let all = Tensor::from_slice(&self.levels, [self.height, self.width, 3], device).map_err(told)?;
        let square = all.slice((top..top + shorter, left..left + shorter, ..)).map_err(told)?;
        let weights = Tensor::from_vec(shares(shorter, side), [side, shorter], device).map_err(told)?;
        let small = resize(&square, &weights, &weights).map_err(told)?;
        small.reshape([1, side, side, 3]).map_err(told)
    }
}

/// How much of each of `from` pixels goes into each of `to`: linear in the distance of their middles, over two of the larger
/// kind of pixel.
fn shares(from: usize, to: usize) -> Vec<f32> {
    let scale = from as f64 / to as f64;
    let reach = scale.max(1.0);
    let mut all = Vec::with_capacity(from * to);
    for k in 0..to {
        let middle = (k as f64 + 0.5) * scale;
        let share = |j: usize| (1.0 - ((j as f64 + 0.5 - middle) / reach).abs()).max(0.0);
        let sum: f64 = (0..from).map(share).sum();
        all.extend((0..from).map(|j| (share(j) / sum) as f32));
    }
    all
}
