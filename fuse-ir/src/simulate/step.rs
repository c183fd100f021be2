//! One step for one warp.

use super::code::{Reg, Src, Step};
use super::fault::FaultKind;
use super::machine::{Machine, each};
use crate::dtype::Value;
use crate::eval::{eval_fn, eval_op};
use crate::kernel_ir::Scope;
use crate::scalar::ScalarOp;

impl Machine<'_> {
    /// Runs one step for one warp; `mask` is not 0.
    pub(super) fn step(&mut self, step: &Step, stmt: u32, warp: usize, mask: u32) {
        match step {
            Step::Op { op, dst, args, arity } => self.op(warp, mask, *op, *dst, *args, *arity),
            Step::Copy { dst, src } => self.copy(warp, mask, *dst, *src),
            Step::Pack { dtype, dst, parts } => {
                let size = 8 * dtype.size();
                let mut words = [0u32; 32];
                for (k, part) in parts.iter().enumerate() {
                    let values = self.lanes(warp, *part);
                    each(mask, |l| words[l] |= (values[l].cast(*dtype).to_bits() as u32) << (size * k));
                }
                let out = self.lanes_mut(warp, *dst);
                each(mask, |l| out[l] = Value::U32(words[l]));
                self.define(warp, mask, *dst, 1);
            }
            Step::Unpack { dtype, part, dst, src } => {
                let shift = 8 * dtype.size() as u32 * part;
                let words = *self.lanes(warp, *src);
                let out = self.lanes_mut(warp, *dst);
                each(mask, |l| {
                    out[l] = Value::from_bits(*dtype, words[l].to_bits() >> shift).widened();
                });
                self.define(warp, mask, *dst, 1);
            }
            Step::Undefine { first, count } => {
                let at = self.register(warp, *first);
                self.defined[at..at + *count as usize].iter_mut().for_each(|d| *d &= !mask);
            }
            Step::Require { first, count, array } => {
                let at = self.register(warp, *first);
                let missing = self.defined[at..at + *count as usize].iter().fold(0, |m, d| m | !d) & mask;
                if missing != 0 {
                    let array = self.kernel.array(*array).name.clone();
                    let kind = FaultKind::UndefinedRegister { array };
                    self.fault(stmt, warp, missing.trailing_zeros(), kind);
                }
            }
            Step::Load { access, dst, fill } => self.load(stmt, warp, mask, access, *dst, *fill),
            Step::Store { access, from } => self.store(stmt, warp, mask, access, *from),
            Step::Atomic { op, access, value, old } => {
                self.atomic(stmt, warp, mask, (*op, access), *value, *old);
            }
            Step::CopyAsync { to, from, pointer, valid } => {
                self.copy_async(stmt, warp, mask, [to, from], *pointer, *valid);
            }
            Step::CommitAsync => self.copies.commit(warp, mask),
            Step::WaitAsync { pending } => self.wait_async(warp, mask, *pending),
            Step::LoadMatrix { access, dst, matrices, transpose } => {
                if self.converged(stmt, warp, mask) {
                    self.load_matrix(stmt, warp, access, *dst, *matrices, *transpose);
                } else {
                    self.define(warp, mask, *dst, *matrices);
                }
            }
            Step::Mma { shape, d, a, b, c } => {
                if self.converged(stmt, warp, mask) {
                    self.multiply(warp, *shape, *d, [*a, *b, *c]);
                }
            }
            Step::Shuffle { dst, kind, value, lane, width } => {
                self.converged(stmt, warp, mask);
                self.shuffle(stmt, warp, mask, (*kind, *width), *dst, [*value, *lane]);
            }
            Step::Vote { dst, kind, value } => {
                self.converged(stmt, warp, mask);
                self.vote(warp, mask, *kind, *dst, *value);
            }
            Step::Call { function, args, results, fault } => {
                for lane in (0..32).filter(|l| mask >> l & 1 == 1) {
                    let values: Vec<Value> = args.iter().map(|a| self.lanes(warp, *a)[lane]).collect();
                    let (found, failed) = eval_fn(&self.kernel.functions, *function, &values);
                    for (reg, value) in results.iter().zip(found) {
                        if let Some(reg) = reg {
                            self.lanes_mut(warp, *reg)[lane] = value.widened();
                        }
                    }
                    if let Some(reg) = fault {
                        self.lanes_mut(warp, *reg)[lane] = Value::Bool(failed.is_some());
                    }
                }
            }
            Step::Barrier(Scope::Warp) => {
                if self.converged(stmt, warp, mask) {
                    self.counters.warp_barriers += 1;
                    self.warp_epochs[warp] += 1;
                }
            }
            // Of the whole block: `run` does them.
            Step::If { .. } | Step::Loop { .. } | Step::Barrier(Scope::Block) => {}
        }
    }

    fn op(&mut self, warp: usize, mask: u32, op: ScalarOp, dst: Reg, args: [Src; 3], arity: u8) {
        let a = *self.lanes(warp, args[0]);
        match arity {
            1 => {
                let out = self.lanes_mut(warp, dst);
                each(mask, |l| out[l] = eval_op(op, &[a[l]]).0.widened());
            }
            2 => {
                let b = *self.lanes(warp, args[1]);
                let out = self.lanes_mut(warp, dst);
                each(mask, |l| out[l] = eval_op(op, &[a[l], b[l]]).0);
            }
            _ => {
                let (b, c) = (*self.lanes(warp, args[1]), *self.lanes(warp, args[2]));
                let out = self.lanes_mut(warp, dst);
                each(mask, |l| out[l] = eval_op(op, &[a[l], b[l], c[l]]).0);
            }
        }
        self.define(warp, mask, dst, 1);
    }

    pub(super) fn copy(&mut self, warp: usize, mask: u32, dst: Reg, src: Src) {
        let from = *self.lanes(warp, src);
        let out = self.lanes_mut(warp, dst);
        each(mask, |l| out[l] = from[l]);
        self.define(warp, mask, dst, 1);
    }
}
