//! Branches, loops and barriers: which lanes run what, and what it costs.

use super::code::{Coded, Reg, Src, Step};
use super::fault::FaultKind;
use super::machine::{FULL, Machine, Masks, Stop, each, select};
use crate::dtype::Value;
use crate::eval::eval_op;
use crate::kernel_ir::{Scope, WARP};
use crate::scalar::ScalarOp;

impl Machine<'_> {
    /// Runs steps for the lanes of the masks.
    pub(super) fn run(&mut self, steps: &[Coded], masks: &Masks) -> Result<(), Stop> {
        for Coded { step, stmt } in steps {
            self.count(step, masks, *stmt)?;
            match step {
                Step::If { condition, then, otherwise } => {
                    self.branch(*condition, [then, otherwise], masks)?
                }
                Step::Loop { variable, start, end, step, body } => {
                    self.repeat(*variable, [*start, *end, *step], body, masks, *stmt)?;
                }
                Step::Barrier(Scope::Block) => self.block_barrier(masks, *stmt),
                _ => {
                    for (warp, mask) in masks.iter().enumerate().take(self.warps) {
                        if *mask != 0 {
                            self.step(step, *stmt, warp, *mask);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, step: &Step, masks: &Masks, stmt: u32) -> Result<(), Stop> {
        let each = match step {
            Step::Undefine { .. } | Step::Require { .. } | Step::Loop { .. } => return Ok(()),
            _ => 1,
        };
        self.spend(each, masks, stmt)
    }

    fn spend(&mut self, each: u64, masks: &Masks, stmt: u32) -> Result<(), Stop> {
        let (mut warps, mut lanes) = (0, 0);
        for mask in &masks[..self.warps] {
            warps += u64::from(*mask != 0);
            lanes += u64::from(mask.count_ones());
        }
        self.counters.instructions += each * warps;
        self.counters.lane_instructions += each * lanes;
        if self.counters.instructions > self.budget {
            let warp = masks.iter().position(|m| *m != 0).unwrap_or(0);
            self.fault(stmt, warp, masks[warp].trailing_zeros() % WARP, FaultKind::TooLong);
            return Err(Stop);
        }
        Ok(())
    }

    fn branch(&mut self, condition: Src, sides: [&[Coded]; 2], masks: &Masks) -> Result<(), Stop> {
        let (mut taken, mut left) = ([0u32; 32], [0u32; 32]);
        for warp in 0..self.warps {
            let mask = masks[warp];
            let holds = if mask == 0 { 0 } else { self.truth(warp, mask, condition) };
            taken[warp] = holds;
            left[warp] = mask & !holds;
        }
        for (side, masks) in sides.into_iter().zip([taken, left]) {
            if masks.iter().any(|m| *m != 0) {
                self.run(side, &masks)?;
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        variable: Reg,
        [start, end, by]: [Src; 3],
        body: &[Coded],
        masks: &Masks,
        stmt: u32,
    ) -> Result<(), Stop> {
        let mut live = *masks;
        let goes_on = |machine: &Self, warp: usize, mask: u32| {
            let (at, end) = (machine.lanes(warp, Src::Reg(variable)), machine.lanes(warp, end));
            select(mask, |l| eval_op(ScalarOp::Lt, &[at[l], end[l]]).0 == Value::Bool(true))
        };
        for warp in 0..self.warps {
            let mask = masks[warp];
            if mask != 0 {
                self.copy(warp, mask, variable, start);
                let step = self.lanes(warp, by);
                let positive = select(mask, |l| step[l].as_i128().is_some_and(|n| n > 0));
                if positive != mask {
                    self.fault(stmt, warp, (mask & !positive).trailing_zeros(), FaultKind::InvalidLoop);
                }
                live[warp] = goes_on(self, warp, positive);
            }
        }
        while live.iter().any(|m| *m != 0) {
            self.spend(2, &live, stmt)?;
            self.run(body, &live)?;
            for (warp, live) in live.iter_mut().enumerate().take(self.warps) {
                let mask = *live;
                if mask == 0 {
                    continue;
                }
                let step = *self.lanes(warp, by);
                let at = self.lanes_mut(warp, variable);
                let mut over = 0u32;
                each(mask, |l| {
                    let next = eval_op(ScalarOp::Add, &[at[l], step[l]]).0;
                    if eval_op(ScalarOp::Lt, &[next, at[l]]).0 == Value::Bool(true) {
                        over |= 1 << l;
                    }
                    at[l] = next;
                });
                if over != 0 {
                    self.fault(stmt, warp, over.trailing_zeros(), FaultKind::InvalidLoop);
                }
                *live = goes_on(self, warp, mask & !over);
            }
        }
        Ok(())
    }

    fn block_barrier(&mut self, masks: &Masks, stmt: u32) {
        if let Some(warp) = (0..self.warps).find(|w| masks[*w] != FULL) {
            let lane = (!masks[warp]).trailing_zeros();
            self.fault(stmt, warp, lane, FaultKind::Divergent { scope: Scope::Block });
        }
        self.counters.block_barriers += 1;
        self.raise_epoch();
    }

    /// Whether all lanes of the warp are there, or it is a fault.
    pub(super) fn converged(&mut self, stmt: u32, warp: usize, mask: u32) -> bool {
        if mask != FULL {
            let lane = (!mask).trailing_zeros();
            self.fault(stmt, warp, lane, FaultKind::Divergent { scope: Scope::Warp });
        }
        mask == FULL
    }
}
