//! The network: its sizes, its weights on a device, and the calls of the kernels.

use crate::kernels;
use fuse::{Device, Error, Tensor};

/// A block of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Taps of its filters along each axis.
    pub taps: usize,
    /// By how much it shrinks the picture.
    pub stride: usize,
    /// Mixtures of channels inside it, for each channel that it reads; of 1 there are no mixtures.
    pub expand: usize,
    /// Channels that it reads.
    pub reads: usize,
    /// Channels that it gives. Those of a block of stride 1 that gives what it reads are added to what it reads.
    pub gives: usize,
}

/// Which kernel computes a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKernel {
    /// `kernels::first_block`: nothing is expanded.
    First,
    /// `kernels::block`.
    Plain,
    /// `kernels::residual_block`: what it reads is added.
    Residual,
}

impl BlockSizes {
    /// The kernel that computes it.
    pub fn kernel(&self) -> BlockKernel {
        match (self.expand, self.stride) {
            (1, _) => BlockKernel::First,
            (_, 1) if self.reads == self.gives => BlockKernel::Residual,
            _ => BlockKernel::Plain,
        }
    }
}

/// The sizes of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Channels of the first convolution.
    pub stem: usize,
    /// The blocks, in order.
    pub blocks: Vec<BlockSizes>,
    /// Channels of the last convolution.
    pub head: usize,
    /// Classes.
    pub classes: usize,
}

/// Rows and columns of the pictures that the network was made for.
pub const SIDE: usize = 224;
/// What the norms add to variances.
pub const EPSILON: f32 = 1e-3;
/// Taps and stride of the first convolution.
const STEM: (usize, usize) = (3, 2);

impl Sizes {
    /// Those of EfficientNet-Lite0.
    pub fn lite0() -> Self {
        // Repeats, taps, stride, expansion, channels read, channels given.
        let groups = [
            (1, 3, 1, 1, 32, 16),
            (2, 3, 2, 6, 16, 24),
            (2, 5, 2, 6, 24, 40),
            (3, 3, 2, 6, 40, 80),
            (3, 5, 1, 6, 80, 112),
            (4, 5, 2, 6, 112, 192),
            (1, 3, 1, 6, 192, 320),
        ];
        let mut blocks = Vec::new();
        for (repeats, taps, stride, expand, reads, gives) in groups {
            blocks.push(BlockSizes { taps, stride, expand, reads, gives });
            // Only the first of a group shrinks the picture.
            let next = BlockSizes { taps, stride: 1, expand, reads: gives, gives };
            blocks.extend(std::iter::repeat_n(next, repeats - 1));
        }
        Sizes { stem: 32, blocks, head: 1280, classes: 1000 }
    }
}

/// Zeros before and after an axis of `extent`, such that windows at every `stride` of it fit: those after are one more where
/// they cannot be equal.
pub fn zeros_around(extent: usize, taps: usize, stride: usize) -> (usize, usize) {
    let windows = extent.div_ceil(stride);
    let all = (windows.saturating_sub(1) * stride + taps).saturating_sub(extent);
    (all / 2, all - all / 2)
}

/// Filters and what is added.
struct Filters<const R: usize> {
    w: Tensor<f32, R>,
    b: Tensor<f32, 1>,
}

struct Block {
    sizes: BlockSizes,
    /// Absent where the block does not expand.
    up: Option<Filters<2>>,
    depth: Filters<3>,
    down: Filters<2>,
}

/// A network on a device.
pub struct Network {
    stem: Filters<4>,
    blocks: Vec<Block>,
    up: Filters<2>,
    classifier: Filters<2>,
}

/// What gives weights by their published names and shapes.
struct Source<'a, F> {
    device: &'a Device,
    read: F,
}

impl<F: FnMut(&str, &[usize]) -> Result<Vec<f32>, String>> Source<'_, F> {
    fn tensor<const R: usize>(&mut self, name: &str, shape: [usize; R]) -> Result<Tensor<f32, R>, String> {
        let data = (self.read)(name, &shape)?;
        Tensor::from_vec(data, shape, self.device).map_err(|e| e.to_string())
    }

    /// Mean, variance, gain and bias of a norm.
    fn norm(&mut self, name: &str, channels: usize) -> Result<[Tensor<f32, 1>; 4], String> {
        let mut part = |part: &str| self.tensor(&format!("{name}.{part}"), [channels]);
        Ok([part("running_mean")?, part("running_var")?, part("weight")?, part("bias")?])
    }

    /// Filters of all channels with the norm after them.
    fn folded(&mut self, names: [&str; 2], [k, c, taps]: [usize; 3]) -> Result<Filters<4>, String> {
        let w = self.tensor(&format!("{}.weight", names[0]), [k, c, taps, taps])?;
        let [mean, var, g, b] = self.norm(names[1], k)?;
        let folded = kernels::fold(&w, &mean, &var, &g, &b, EPSILON);
        let (w, b) = folded.map_err(|e| e.to_string())?;
        Ok(Filters { w, b })
    }

    /// The same of filters without taps: mixtures of channels.
    fn mixtures(&mut self, names: [&str; 2], k: usize, c: usize) -> Result<Filters<2>, String> {
        let Filters { w, b } = self.folded(names, [k, c, 1])?;
        Ok(Filters { w: w.reshape([k, c]).map_err(|e| e.to_string())?, b })
    }

    fn block(&mut self, number: usize, sizes: BlockSizes) -> Result<Block, String> {
        let BlockSizes { taps, reads, gives, .. } = sizes;
        if sizes.kernel() == BlockKernel::First && (sizes.stride, reads) == (1, gives) {
            return Err(format!(
                "block {number} is added to what it reads, which only blocks that expand are"
            ));
        }
        let inner = reads * sizes.expand;
        let name = |part: &str| format!("_blocks.{number}.{part}");
        let up = match sizes.kernel() {
            BlockKernel::First => None,
            BlockKernel::Plain | BlockKernel::Residual => {
                Some(self.mixtures([&name("_expand_conv"), &name("_bn0")], inner, reads)?)
            }
        };
        let w = self.tensor(&name("_depthwise_conv.weight"), [inner, 1, taps, taps])?;
        let w = w.reshape([inner, taps, taps]).map_err(|e| e.to_string())?;
        let [mean, var, g, b] = self.norm(&name("_bn1"), inner)?;
        let folded = kernels::fold_depthwise(&w, &mean, &var, &g, &b, EPSILON);
        let (w, b) = folded.map_err(|e| e.to_string())?;
        let down = self.mixtures([&name("_project_conv"), &name("_bn2")], gives, inner)?;
        Ok(Block { sizes, up, depth: Filters { w, b }, down })
    }
}

impl Network {
    /// The network whose weights `read` gives by their published names and shapes.
    ///
    /// # Errors
    /// Those of `read`, or if there is no memory.
    pub fn load(
        sizes: &Sizes,
        device: &Device,
        read: impl FnMut(&str, &[usize]) -> Result<Vec<f32>, String>,
    ) -> Result<Self, String> {
        let mut source = Source { device, read };
        let stem = source.folded(["_conv_stem", "_bn0"], [sizes.stem, 3, STEM.0])?;
        let blocks = sizes.blocks.iter().enumerate().map(|(k, block)| source.block(k, *block));
        let blocks = blocks.collect::<Result<Vec<_>, String>>()?;
        let last = sizes.blocks.last().map_or(sizes.stem, |b| b.gives);
        let up = source.mixtures(["_conv_head", "_bn1"], sizes.head, last)?;
        let w = source.tensor("_fc.weight", [sizes.classes, sizes.head])?;
        let classifier = Filters { w, b: source.tensor("_fc.bias", [sizes.classes])? };
        Ok(Network { stem, blocks, up, classifier })
    }

    /// The logits of pictures: by picture, row, column and channel, from about -1 to 1, as high as they are wide.
    ///
    /// # Errors
    /// If they are not square or there is no memory.
    pub fn classify(&self, pictures: &Tensor<f32, 4>) -> Result<Tensor<f32, 2>, Error> {
        let (taps, stride) = STEM;
        let (before, after) = zeros_around(pictures.shape()[1], taps, stride);
        let stem = &self.stem;
        let mut x = kernels::stem(pictures, &stem.w, &stem.b, stride as i64, before as i64, after as i64)?;
        for block in &self.blocks {
            x = block.apply(&x)?;
        }
        kernels::head(&x, &self.up.w, &self.up.b, &self.classifier.w, &self.classifier.b)
    }
}

impl Block {
    fn apply(&self, x: &Tensor<f32, 4>) -> Result<Tensor<f32, 4>, Error> {
        let Block { sizes, up, depth, down } = self;
        let (before, after) = zeros_around(x.shape()[1], sizes.taps, sizes.stride);
        let (before, after, stride) = (before as i64, after as i64, sizes.stride as i64);
        match (sizes.kernel(), up) {
            (BlockKernel::Residual, Some(up)) => {
                kernels::residual_block(x, &up.w, &up.b, &depth.w, &depth.b, &down.w, &down.b, before)
            }
            (_, Some(up)) => {
                kernels::block(x, &up.w, &up.b, &depth.w, &depth.b, &down.w, &down.b, stride, before, after)
            }
            (_, None) => kernels::first_block(x, &depth.w, &depth.b, &down.w, &down.b, stride, before, after),
        }
    }
}
