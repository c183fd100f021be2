//! What the lanes of a warp do together: shuffles, votes, matrices.

use super::code::{AccessCode, Lanes, Reg, Src};
use super::fault::FaultKind;
use super::machine::{FULL, Machine, each};
use super::memory::take;
use super::shadow::AccessKind;
use crate::dtype::{DType, Value};
use crate::kernel_ir::{MmaShape, ShuffleKind, VoteKind};

impl Machine<'_> {
    pub(super) fn shuffle(
        &mut self,
        stmt: u32,
        warp: usize,
        mask: u32,
        (kind, width): (ShuffleKind, u32),
        dst: Reg,
        [value, lane]: [Src; 2],
    ) {
        self.counters.shuffles += 1;
        let (values, lanes) = (*self.lanes(warp, value), *self.lanes(warp, lane));
        let mut given = values;
        let mut wrong = None;
        each(mask, |l| {
            let own = l as u32;
            let Value::U32(by) = lanes[l] else { return };
            let (first, within) = (own / width * width, own % width);
            let from = match kind {
                ShuffleKind::Xor if by < width => Some(own ^ by),
                ShuffleKind::Xor => {
                    wrong = wrong.or(Some((own, by)));
                    None
                }
                ShuffleKind::Up => within.checked_sub(by).map(|l| first + l),
                ShuffleKind::Down => within.checked_add(by).filter(|l| *l < width).map(|l| first + l),
                ShuffleKind::Idx => Some(first + by % width),
            };
            // A lane that is not there offers nothing; that it is missing was noted.
            if let Some(from) = from.filter(|from| mask >> from & 1 == 1) {
                given[l] = values[from as usize];
            }
        });
        if let Some((own, lane)) = wrong {
            self.fault(stmt, warp, own, FaultKind::NoSuchLane { lane });
        }
        let out = self.lanes_mut(warp, dst);
        each(mask, |l| out[l] = given[l]);
    }

    pub(super) fn vote(&mut self, warp: usize, mask: u32, kind: VoteKind, dst: Reg, value: Src) {
        self.counters.votes += 1;
        let ballot = self.truth(warp, mask, value);
        let result = match kind {
            VoteKind::Any => Value::Bool(ballot != 0),
            VoteKind::All => Value::Bool(ballot == mask),
            VoteKind::Ballot => Value::U32(ballot),
        };
        let out = self.lanes_mut(warp, dst);
        each(mask, |l| out[l] = result);
    }

    pub(super) fn load_matrix(
        &mut self,
        stmt: u32,
        warp: usize,
        access: &AccessCode,
        dst: Reg,
        matrices: u32,
        transpose: bool,
    ) {
        let rows = FULL >> (32 - 8 * matrices);
        let (found, at) = self.locate(stmt, warp, rows, access, access.width());
        if found != 0 {
            self.count_shared_load(found, &at, access.width());
        }
        // Every lane reads every row; the shadow keeps at most two readers, so the first and the last stand for all.
        for lane in [0, 31] {
            each(found, |row| {
                let mut reader = [0; 32];
                reader[lane] = at[row];
                let access = (AccessKind::Read, access.memory);
                self.watch(stmt, warp, 1 << lane, access, &reader, 16);
            });
        }
        for matrix in 0..matrices {
            let mut elements = [[0u16; 8]; 8];
            for (row, out) in elements.iter_mut().enumerate() {
                let lane = matrix as usize * 8 + row;
                if found >> lane & 1 == 1 {
                    for (column, out) in out.iter_mut().enumerate() {
                        *out = u16::from_le_bytes(take(&self.shared, at[lane] as usize + 2 * column));
                    }
                }
            }
            let out = self.lanes_mut(warp, dst + matrix);
            for (lane, out) in out.iter_mut().enumerate() {
                let (row, column) = (lane / 4, 2 * (lane % 4));
                let [low, high] = match transpose {
                    false => [elements[row][column], elements[row][column + 1]],
                    true => [elements[column][row], elements[column + 1][row]],
                };
                *out = Value::U32(u32::from(low) | u32::from(high) << 16);
            }
        }
        self.define(warp, FULL, dst, matrices);
    }

    /// `d = a · b + c`.
    pub(super) fn multiply(&mut self, warp: usize, shape: MmaShape, d: Reg, [a, b, c]: [Reg; 3]) {
        self.counters.products += 1;
        let [m, n, k] = shape.extents().map(|e| e as usize);
        let [a_count, b_count, c_count] = shape.registers();
        let mut left = [[0.0; 32]; 16];
        let mut right = [[0.0; 8]; 32];
        for register in 0..a_count {
            let lanes = self.lanes(warp, Src::Reg(a + register));
            for_each_part(shape, lanes, |lane, part, value| {
                let (row, column) = shape.a_element(lane, register, part);
                left[row as usize][column as usize] = value;
            });
        }
        for register in 0..b_count {
            let lanes = self.lanes(warp, Src::Reg(b + register));
            for_each_part(shape, lanes, |lane, part, value| {
                let (row, column) = shape.b_element(lane, register, part);
                right[row as usize][column as usize] = value;
            });
        }
        let mut sums = [[Value::U32(0); 8]; 16];
        for register in 0..c_count {
            let lanes = self.lanes(warp, Src::Reg(c + register));
            for lane in 0..32 {
                let (row, column) = shape.c_element(lane, register);
                sums[row as usize][column as usize] = lanes[lane as usize];
            }
        }
        for (row, sums) in sums.iter_mut().enumerate().take(m) {
            for (column, sum) in sums.iter_mut().enumerate().take(n) {
                let terms = (0..k).map(|i| (left[row][i], right[i][column]));
                *sum = accumulate(*sum, terms);
            }
        }
        for register in 0..c_count {
            let out = self.lanes_mut(warp, d + register);
            for lane in 0..32 {
                let (row, column) = shape.c_element(lane, register);
                out[lane as usize] = sums[row as usize][column as usize];
            }
        }
        self.define(warp, FULL, d, c_count);
    }
}

/// The values packed in a register of A or B.
fn for_each_part(shape: MmaShape, lanes: &Lanes, mut f: impl FnMut(u32, u32, f64)) {
    let dtype = shape.operand();
    for (lane, word) in (0..).zip(lanes) {
        for part in 0..shape.parts() {
            let mut bits = word.to_bits() >> (8 * dtype.size() as u32 * part);
            if shape == MmaShape::M16N8K8Tf32 {
                bits &= !0x1fff;
            }
            let value = Value::from_bits(dtype, bits);
            f(lane, part, value.cast(DType::F64).as_f64().unwrap_or(0.0));
        }
    }
}

/// `c` and the products, by the rule of [`MmaShape`]: exact products summed in f64 and rounded once; integers wrap.
fn accumulate(c: Value, terms: impl Iterator<Item = (f64, f64)>) -> Value {
    match c {
        Value::I32(c) => Value::I32(terms.fold(c, |sum, (a, b)| sum.wrapping_add((a * b) as i32))),
        Value::F64(c) => Value::F64(terms.fold(c, |sum, (a, b)| a.mul_add(b, sum))),
        Value::F32(c) => Value::F32(terms.fold(f64::from(c), |sum, (a, b)| sum + a * b) as f32),
        _ => c,
    }
}
