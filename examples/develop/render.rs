//! A picture through the kernels.

use crate::kernels::{develop, measure};
use crate::picture::Picture;
use crate::settings::Settings;
use fuse::{Device, Error, Tensor};

/// What [`measure`] says of a picture: the mean logarithm of its luminance, its darkest and brightest channel, and the
/// means of red, green and blue.
pub type Statistics =
    (Tensor<f32, 0>, Tensor<f32, 0>, Tensor<f32, 0>, Tensor<f32, 0>, Tensor<f32, 0>, Tensor<f32, 0>);

/// The developed planes.
pub type Planes = (Tensor<u8, 2>, Tensor<u8, 2>, Tensor<u8, 2>);

/// The picture as a tensor of channels, rows and columns.
///
/// # Errors
/// If the device cannot hold it.
pub fn load_picture(picture: &Picture, device: &Device) -> Result<Tensor<u8, 3>, Error> {
    Tensor::from_vec(picture.planes.clone(), [3, picture.height, picture.width], device)
}

/// The second kernel with the settings and what the first has measured.
///
/// # Errors
/// If the device fails.
pub fn develop_planes(
    picture: &Tensor<u8, 3>,
    of: &Statistics,
    settings: &Settings,
) -> Result<Planes, Error> {
    let [red, green, blue] = settings.gains();
    develop(
        picture,
        &of.0,
        &of.1,
        &of.2,
        &of.3,
        &of.4,
        &of.5,
        settings.exposure,
        settings.auto,
        red,
        green,
        blue,
        settings.grey_world,
        settings.contrast,
        settings.saturation,
        settings.seed,
    )
}

/// Measures and develops a picture.
///
/// # Errors
/// If the device fails.
pub fn develop_picture(picture: &Picture, settings: &Settings, device: &Device) -> Result<Picture, Error> {
    let tensor = load_picture(picture, device)?;
    let statistics = measure(&tensor)?;
    let (red, green, blue) = develop_planes(&tensor, &statistics, settings)?;
    let mut planes = red.to_vec()?;
    planes.extend(green.to_vec()?);
    planes.extend(blue.to_vec()?);
    Ok(Picture { height: picture.height, width: picture.width, planes })
}
