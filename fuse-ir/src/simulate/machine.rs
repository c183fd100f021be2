//! One launch while it runs: blocks one after the other, steps in block lockstep.

use super::code::{AccessCode, Code, Lanes, Reg, Src, Uniform};
use super::copies::Copies;
use super::counters::Counters;
use super::fault::{Fault, FaultKind, Faults, Other, show_statement};
use super::memory::{GlobalMemory, Pointer};
use super::shadow::{Access, AccessKind, Conflict, Shadow};
use super::{Report, SimulateOptions};
use crate::dtype::Value;
use crate::kernel_ir::{Dims, Kernel, Memory, WARP};

/// The active lanes of each warp of a block.
pub(super) type Masks = [u32; 32];

/// All lanes.
pub(super) const FULL: u32 = u32::MAX;

/// The launch was stopped.
pub(super) struct Stop;

pub(super) struct Machine<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) code: &'a Code,
    pub(super) dims: &'a Dims,
    pub(super) memory: &'a mut GlobalMemory,
    pub(super) pointers: Vec<Option<Pointer>>,
    /// Begin and end of each view.
    pub(super) views: Vec<(u64, u64)>,
    pub(super) warps: usize,
    registers: Vec<Lanes>,
    uniforms: Vec<Lanes>,
    /// The lanes of each register that are defined; only kept for elements of arrays.
    pub(super) defined: Vec<u32>,
    pub(super) shared: Vec<u8>,
    pub(super) shared_shadow: Shadow,
    /// For each cell of shared memory the block that last wrote it.
    pub(super) shared_written: Vec<u32>,
    /// For each allocation its shadow, if the launch writes it.
    pub(super) shadows: Vec<Option<Shadow>>,
    pub(super) copies: Copies,
    position: [u32; 3],
    /// Counted from 1.
    pub(super) block: u32,
    epoch: u32,
    pub(super) warp_epochs: Vec<u32>,
    pub(super) counters: Counters,
    faults: Faults,
    pub(super) budget: u64,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        code: &'a Code,
        dims: &'a Dims,
        memory: &'a mut GlobalMemory,
        pointers: Vec<Option<Pointer>>,
        views: Vec<(u64, u64)>,
        options: &SimulateOptions,
    ) -> Self {
        let threads = kernel.geometry.threads();
        let warps = (threads / WARP) as usize;
        let needs = super::needs::Needs::of(code, &pointers, memory.buffers.len());
        let bytes = dims.shared_bytes as usize;
        let shared_shadow = Shadow::new(bytes, needs.shared_cell, false, true, needs.shared_atomics);
        let shadows = needs.shadows(memory);
        let copies = Copies::new(&needs, bytes, threads as usize, memory);
        let mut machine = Machine {
            kernel,
            code,
            dims,
            memory,
            pointers,
            views,
            warps,
            registers: vec![[Value::U32(0); 32]; warps * code.registers as usize],
            uniforms: code.uniforms.iter().map(|u| [initial(*u); 32]).collect(),
            defined: vec![0; warps * code.registers as usize],
            shared: vec![0; bytes],
            shared_written: vec![0; (bytes >> needs.shared_cell.trailing_zeros()) + 1],
            shared_shadow,
            shadows,
            copies,
            position: [0; 3],
            block: 0,
            epoch: 0,
            warp_epochs: vec![0; warps],
            counters: Counters::default(),
            faults: Faults::default(),
            budget: options.max_instructions,
        };
        machine.set_places();
        machine.set_dtypes();
        machine
    }

    /// Fills registers with zeros of their dtype, so that a faulty kernel computes on as well.
    fn set_dtypes(&mut self) {
        let kernel = self.kernel;
        let arrays = kernel.arrays.iter().flat_map(|a| (0..a.len).map(|_| a.dtype));
        let dtypes = kernel.locals.iter().map(|l| l.dtype).chain(arrays);
        for (reg, dtype) in (Code::PLACE..).zip(dtypes) {
            for warp in 0..self.warps {
                *self.lanes_mut(warp, reg) = [Value::zero(dtype); 32];
            }
        }
    }

    /// Fills the registers that say where a thread is.
    fn set_places(&mut self) {
        let [x, y, _] = self.dims.block;
        for warp in 0..self.warps {
            for lane in 0..32 {
                let thread = warp as u32 * WARP + lane;
                let place = [thread % x, thread / x % y, thread / x / y, lane, warp as u32];
                for (reg, value) in (0..Code::PLACE).zip(place) {
                    self.lanes_mut(warp, reg)[lane as usize] = Value::U32(value);
                }
            }
        }
    }

    pub(super) fn run_grid(mut self) -> Report {
        let [x, y, z] = self.dims.grid;
        let mut masks = [0; 32];
        masks[..self.warps].fill(FULL);
        let code = self.code;
        'grid: for k in 0..z {
            for j in 0..y {
                for i in 0..x {
                    self.start_block([i, j, k]);
                    if self.run(&code.body, &masks).is_err() {
                        break 'grid;
                    }
                    self.end_block();
                }
            }
        }
        Report { faults: self.faults.list, counters: self.counters }
    }

    fn start_block(&mut self, position: [u32; 3]) {
        self.position = position;
        self.block += 1;
        self.raise_epoch();
        self.counters.warps += self.warps as u64;
        for (lanes, uniform) in self.uniforms.iter_mut().zip(&self.code.uniforms) {
            if let Uniform::Block(d) = uniform {
                *lanes = [Value::U32(position.get(usize::from(*d)).copied().unwrap_or(0)); 32];
            }
        }
    }

    pub(super) fn raise_epoch(&mut self) {
        self.epoch += 1;
        self.warp_epochs.iter_mut().for_each(|e| *e += 1);
    }

    pub(super) fn register(&self, warp: usize, reg: Reg) -> usize {
        warp * self.code.registers as usize + reg as usize
    }

    /// The lanes of an operand.
    pub(super) fn lanes(&self, warp: usize, src: Src) -> &Lanes {
        match src {
            Src::Reg(reg) => &self.registers[self.register(warp, reg)],
            Src::Uniform(n) => &self.uniforms[n as usize],
        }
    }

    /// The lanes of a register.
    pub(super) fn lanes_mut(&mut self, warp: usize, reg: Reg) -> &mut Lanes {
        let at = self.register(warp, reg);
        &mut self.registers[at]
    }

    /// From now on the registers are defined for these lanes.
    pub(super) fn define(&mut self, warp: usize, mask: u32, first: Reg, count: u32) {
        let at = self.register(warp, first);
        self.defined[at..at + count as usize].iter_mut().for_each(|d| *d |= mask);
    }

    /// The lanes of a mask for which a bool is true.
    pub(super) fn truth(&self, warp: usize, mask: u32, src: Src) -> u32 {
        let lanes = self.lanes(warp, src);
        select(mask, |l| lanes[l] == Value::Bool(true))
    }

    /// The lanes that take part in an access.
    pub(super) fn predicate(&self, warp: usize, mask: u32, access: &AccessCode) -> u32 {
        access.when.map_or(mask, |when| self.truth(warp, mask, when))
    }

    pub(super) fn who(&self, stmt: u32, warp: usize, lane: u32) -> Access {
        Access {
            block: self.block,
            epoch: self.epoch,
            warp_epoch: self.warp_epochs[warp],
            thread: (warp as u32 * WARP + lane) as u16,
            stmt,
        }
    }

    /// The position of a thread in its block.
    pub(super) fn thread_position(&self, thread: u32) -> [u32; 3] {
        let [x, y, _] = self.dims.block;
        [thread % x, thread / x % y, thread / x / y]
    }

    fn block_position(&self, block: u32) -> [u32; 3] {
        let [x, y, _] = self.dims.grid;
        let number = u64::from(block.saturating_sub(1));
        let (x, y) = (u64::from(x), u64::from(y));
        [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
    }

    /// Keeps a fault of a lane.
    pub(super) fn fault(&mut self, stmt: u32, warp: usize, lane: u32, kind: FaultKind) {
        let thread = self.thread_position(warp as u32 * WARP + lane);
        let (kernel, code, block) = (self.kernel, self.code, self.position);
        self.faults.note(stmt, kind, |kind| {
            let path = code.statements.get(stmt as usize).cloned().unwrap_or_default();
            let statement = show_statement(kernel, &path);
            Fault { kernel: kernel.name.clone(), block, thread, path, statement, kind }
        });
    }

    /// Keeps a race of a lane.
    pub(super) fn race(
        &mut self,
        by: Access,
        memory: Memory,
        at: i64,
        access: AccessKind,
        conflict: Conflict,
    ) {
        if !self.faults.is_first_race(by.stmt) {
            return;
        }
        let path = self.code.statements.get(conflict.stmt as usize).cloned().unwrap_or_default();
        let other = Other {
            access: conflict.kind,
            block: self.block_position(conflict.block),
            thread: conflict.thread.map(|t| self.thread_position(t.into())),
            statement: show_statement(self.kernel, &path),
        };
        let memory = self.kernel.memory_name(memory).to_owned();
        let kind = FaultKind::Race { memory, at, access, other };
        self.fault(by.stmt, usize::from(by.thread) / 32, u32::from(by.thread) % WARP, kind);
    }
}

fn initial(uniform: Uniform) -> Value {
    match uniform {
        Uniform::Constant(value) => value,
        Uniform::Block(_) => Value::U32(0),
    }
}

/// Calls `f` for each lane of a mask, in order.
pub(super) fn each(mask: u32, mut f: impl FnMut(usize)) {
    if mask == FULL {
        (0..32).for_each(f);
    } else {
        let mut rest = mask;
        while rest != 0 {
            f(rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

/// The lanes of a mask for which `f` is true.
pub(super) fn select(mask: u32, f: impl Fn(usize) -> bool) -> u32 {
    let mut found = 0;
    each(mask, |l| found |= u32::from(f(l)) << l);
    found
}
