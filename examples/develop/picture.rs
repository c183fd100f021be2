//! Pictures as planes of bytes, read and written by the `image` crate.

use image::{ImageReader, RgbImage};
use std::path::Path;

/// A picture: red, green, then blue, each `height` rows of `width` sRGB levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// `3 * height * width` levels.
    pub planes: Vec<u8>,
}

impl Picture {
    /// The picture of these pixels, red, green and blue beside each other.
    pub fn from_interleaved(height: usize, width: usize, pixels: &[u8]) -> Self {
        let planes = (0..3).flat_map(|c| pixels.iter().skip(c).step_by(3).copied()).collect();
        Picture { height, width, planes }
    }

    /// The plane of a channel.
    pub fn plane(&self, channel: usize) -> &[u8] {
        let n = self.height * self.width;
        &self.planes[channel * n..][..n]
    }

    /// Reads a PNG or JPEG. Grey becomes RGB, 16 bits become 8, alpha is dropped.
    ///
    /// # Errors
    /// A sentence that names the file, if it cannot be opened or is not such a picture.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let reader = ImageReader::open(path).map_err(|e| format!("cannot open `{name}`: {e}"))?;
        let reader = reader.with_guessed_format().map_err(|e| format!("cannot read `{name}`: {e}"))?;
        let image =
            reader.decode().map_err(|e| format!("`{name}` is not a PNG or JPEG that can be read: {e}"))?;
        let image = image.to_rgb8();
        Ok(Picture::from_interleaved(image.height() as usize, image.width() as usize, image.as_raw()))
    }

    /// Writes the picture, in the format that the name ends in.
    ///
    /// # Errors
    /// A sentence that names the file, if it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let name = path.display();
        let planes = [self.plane(0), self.plane(1), self.plane(2)];
        let pixels = (0..self.height * self.width).flat_map(|i| planes.map(|p| p[i])).collect();
        let image = RgbImage::from_raw(self.width as u32, self.height as u32, pixels)
            .ok_or_else(|| format!("`{name}`: the picture is too large to write"))?;
        image.save(path).map_err(|e| format!("cannot write `{name}`: {e}"))
    }
}
