//! The matrix products of tensor cores: shapes and lane maps.
//!
//! A product is `D = A · B + C` with `A` of M × K, `B` of K × N, `C` and `D` of M × N, spread over the registers of the 32
//! lanes of a warp. The maps are those that the PTX ISA publishes ("Matrix Fragments for mma.m16n8k16 …"): with
//! `g = lane / 4`, `t = lane % 4` and `p` values in a 32-bit register
//!
//! ```text
//! A  register r, part h: row g + 8 (r % 2), column t p + h + 4 p (r / 2)
//! B  register r, part h: row t p + h + 4 p r, column g
//! C  register r:         row g + 8 (r / 2), column 2 t + r % 2
//! ```
//!
//! so C of one product, packed in pairs, is A of the next: registers 0 and 1 of C hold what part 0 and 1 of one A
//! register hold.

use crate::dtype::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Shape and dtypes of a product. 32-bit registers of `A` and `B` are u32 with packed parts, lowest first.
///
/// The result: products are exact, the sum of C and the products is rounded by the hardware in an order that is not
/// published. A simulator sums in f64, C first, then k ascending, and rounds once; integers are exact and wrap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum MmaShape {
    /// 16 × 8 × 8, f16 to f32; from sm_75.
    M16N8K8F16,
    /// 16 × 8 × 16, f16 to f32; from sm_80, like all below.
    M16N8K16F16,
    /// 16 × 8 × 16, bf16 to f32.
    M16N8K16Bf16,
    /// 16 × 8 × 8, tf32 to f32. Registers hold the bits of an f32; the low 13 are ignored.
    M16N8K8Tf32,
    /// 16 × 8 × 32, i8 to i32, wrapping.
    M16N8K32I8,
    /// 16 × 8 × 32, u8 to i32, wrapping.
    M16N8K32U8,
    /// 16 × 8 × 32, f8e4m3 to f32; from sm_89.
    M16N8K32F8E4M3,
    /// 16 × 8 × 32, f8e5m2 to f32; from sm_89.
    M16N8K32F8E5M2,
    /// 8 × 8 × 4, f64. Registers of all operands are f64.
    M8N8K4F64,
}

impl MmaShape {
    /// Every shape.
    pub const ALL: [MmaShape; 9] = [
        MmaShape::M16N8K8F16,
        MmaShape::M16N8K16F16,
        MmaShape::M16N8K16Bf16,
        MmaShape::M16N8K8Tf32,
        MmaShape::M16N8K32I8,
        MmaShape::M16N8K32U8,
        MmaShape::M16N8K32F8E4M3,
        MmaShape::M16N8K32F8E5M2,
        MmaShape::M8N8K4F64,
    ];

    /// M, N and K.
    pub fn extents(self) -> [u32; 3] {
        match self {
            MmaShape::M16N8K8F16 | MmaShape::M16N8K8Tf32 => [16, 8, 8],
            MmaShape::M16N8K16F16 | MmaShape::M16N8K16Bf16 => [16, 8, 16],
            MmaShape::M16N8K32I8 | MmaShape::M16N8K32U8 => [16, 8, 32],
            MmaShape::M16N8K32F8E4M3 | MmaShape::M16N8K32F8E5M2 => [16, 8, 32],
            MmaShape::M8N8K4F64 => [8, 8, 4],
        }
    }

    /// The dtype of the elements of A and B; `F32` stands for tf32.
    pub fn operand(self) -> DType {
        match self {
            MmaShape::M16N8K8F16 | MmaShape::M16N8K16F16 => DType::F16,
            MmaShape::M16N8K16Bf16 => DType::Bf16,
            MmaShape::M16N8K8Tf32 => DType::F32,
            MmaShape::M16N8K32I8 => DType::I8,
            MmaShape::M16N8K32U8 => DType::U8,
            MmaShape::M16N8K32F8E4M3 => DType::F8E4M3,
            MmaShape::M16N8K32F8E5M2 => DType::F8E5M2,
            MmaShape::M8N8K4F64 => DType::F64,
        }
    }

    /// The dtype of the registers that hold A and B.
    pub fn operand_register(self) -> DType {
        if self == MmaShape::M8N8K4F64 { DType::F64 } else { DType::U32 }
    }

    /// The dtype of the registers and elements of C and D.
    pub fn accumulator(self) -> DType {
        match self {
            MmaShape::M16N8K32I8 | MmaShape::M16N8K32U8 => DType::I32,
            MmaShape::M8N8K4F64 => DType::F64,
            MmaShape::M16N8K8F16 | MmaShape::M16N8K16F16 | MmaShape::M16N8K16Bf16 => DType::F32,
            MmaShape::M16N8K8Tf32 | MmaShape::M16N8K32F8E4M3 | MmaShape::M16N8K32F8E5M2 => DType::F32,
        }
    }

    /// Elements of A or B in one register.
    pub fn parts(self) -> u32 {
        (4 / self.operand().size()).max(1) as u32
    }

    /// Registers of each lane for A, B and C.
    pub fn registers(self) -> [u32; 3] {
        let [m, n, k] = self.extents();
        let packed = 32 * self.parts();
        [m * k / packed, k * n / packed, m * n / 32]
    }

    /// Row and column of A of a part of a register of a lane.
    pub fn a_element(self, lane: u32, register: u32, part: u32) -> (u32, u32) {
        let (g, t, p) = (lane / 4, lane % 4, self.parts());
        (g + 8 * (register % 2), t * p + part + 4 * p * (register / 2))
    }

    /// Row and column of B of a part of a register of a lane.
    pub fn b_element(self, lane: u32, register: u32, part: u32) -> (u32, u32) {
        let (g, t, p) = (lane / 4, lane % 4, self.parts());
        (t * p + part + 4 * p * register, g)
    }

    /// Row and column of C and D of a register of a lane.
    pub fn c_element(self, lane: u32, register: u32) -> (u32, u32) {
        let (g, t) = (lane / 4, lane % 4);
        (g + 8 * (register / 2), 2 * t + register % 2)
    }
}

impl fmt::Display for MmaShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.extents();
        let operand = if *self == MmaShape::M16N8K8Tf32 { "tf32" } else { self.operand().name() };
        write!(f, "m{m}n{n}k{k}.{}.{operand}", self.accumulator())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element stands in exactly one place.
    #[test]
    fn lane_maps_cover_the_matrices() {
        for shape in MmaShape::ALL {
            let [m, n, k] = shape.extents();
            let [a, b, c] = shape.registers();
            let all = |registers: u32, parts: u32| {
                (0..32)
                    .flat_map(move |l| (0..registers).flat_map(move |r| (0..parts).map(move |h| (l, r, h))))
            };
            let check = |mut places: Vec<(u32, u32)>, rows: u32, columns: u32| {
                places.sort_unstable();
                let every: Vec<_> = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))).collect();
                assert_eq!(places, every, "{shape}");
            };
            check(all(a, shape.parts()).map(|(l, r, h)| shape.a_element(l, r, h)).collect(), m, k);
            check(all(b, shape.parts()).map(|(l, r, h)| shape.b_element(l, r, h)).collect(), k, n);
            check(all(c, 1).map(|(l, r, _)| shape.c_element(l, r)).collect(), m, n);
        }
    }
}
