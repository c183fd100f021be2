//! What a profiler would count of a kernel on a GPU: from the simulator, which runs a call of small extents.

use super::svg::escape;
use crate::kernel::Kernel;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs};
use fuse_ir::graph::{self, AxisSource, ParamKind};
use fuse_ir::id::{AxisId, NodeId, ParamId};
use fuse_ir::index_map::IndexEnv;
use fuse_ir::simulate::{Counters, ProgramOptions, simulate_program};
use std::fmt::Write;

/// Positions of all axes together, at most; so that a page is made in seconds.
const MOST_POSITIONS: i64 = 1 << 14;
/// The greatest extent that is tried.
const EXTENT: i64 = 1024;

/// A table with a row for each kernel that ran.
pub(super) fn print(kernel: &Kernel) -> String {
    let graph = &kernel.program.kernel;
    let extents = choose_extents(graph);
    let sizes: Vec<String> =
        graph.axes.iter().zip(&extents).map(|(axis, n)| format!("{} = {n}", escape(&axis.name))).collect();
    let sizes = if sizes.is_empty() { "no axes".to_owned() } else { sizes.join(", ") };
    let report =
        match simulate_program(&kernel.program, &make_inputs(graph, &extents), &ProgramOptions::default()) {
            Ok(report) => report,
            Err(error) => {
                return format!(
                    "<p>A call of {sizes} is not simulated: {}.</p>\n",
                    escape(&error.to_string())
                );
            }
        };
    let mut text = format!(
        "<p>A call of {sizes} with contiguous tensors. Sectors are 32 bytes of global memory, wavefronts passes over the banks \
         of shared memory; each beside the fewest that would do.</p>\n<table><thead><tr><th>launch</th><th>variant</th>\
         <th>warps</th><th>instructions a warp</th><th>sectors</th><th>fewest</th><th>wavefronts</th><th>fewest</th>\
         <th>barriers</th></tr></thead><tbody>\n"
    );
    for ran in &report.kernels {
        let counters: &Counters = &ran.report.counters;
        let (loads, stores, atomics) =
            (counters.global_loads, counters.global_stores, counters.global_atomics);
        let shared = counters.shared();
        let step = if ran.step > 0 { format!(", step {}", ran.step + 1) } else { String::new() };
        let _ = writeln!(
            text,
            "<tr><td>{}{step}</td><td>{}</td><td>{}</td><td>{:.0}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            ran.launch + 1,
            ran.variant + 1,
            counters.warps,
            counters.instructions_per_warp(),
            loads.sectors + stores.sectors + atomics.sectors,
            loads.least_sectors + stores.least_sectors + atomics.least_sectors,
            shared.wavefronts,
            shared.least_wavefronts,
            counters.block_barriers,
        );
    }
    text += "</tbody></table>\n";
    for fault in report.faults() {
        let _ = writeln!(
            text,
            "<p class=\"wrong\">The simulator finds a fault: {}.</p>",
            escape(&fault.to_string())
        );
    }
    text
}

/// An extent for each axis: those that are written, and for the others the greatest power of two with which all together
/// have few positions.
fn choose_extents(graph: &graph::Kernel) -> Vec<i64> {
    let mut free = EXTENT;
    loop {
        let mut extents: Vec<i64> = Vec::with_capacity(graph.axes.len());
        for axis in &graph.axes {
            let extent = match &axis.source {
                AxisSource::Shape | AxisSource::Host(_) => free,
                AxisSource::Static(extent) => i64::try_from(*extent).unwrap_or(i64::MAX),
                AxisSource::Derived(extent) => extent.eval(&Extents(&extents)),
            };
            extents.push(extent);
        }
        let positions = extents.iter().fold(1i64, |n, extent| n.saturating_mul((*extent).max(1)));
        if positions <= MOST_POSITIONS || free <= 4 {
            return extents;
        }
        free /= 2;
    }
}

/// Arguments of these extents: numbers between 0 and 4 in no order.
fn make_inputs(graph: &graph::Kernel, extents: &[i64]) -> Inputs {
    let extent = |axis: &AxisId| usize::try_from(extents[axis.index()]).unwrap_or(0);
    let inputs = graph.params.iter().enumerate().map(|(number, param)| match &param.kind {
        ParamKind::Tensor { dtype, axes, .. } => {
            let shape: Vec<usize> = axes.iter().map(extent).collect();
            let count = shape.iter().product();
            let data = (0..count).map(|k| make_value(*dtype, number + k)).collect();
            Input::Tensor(Array { dtype: *dtype, shape, data })
        }
        ParamKind::Scalar { dtype } => Input::Scalar(make_value(*dtype, number + 1)),
        ParamKind::Axis { axis } => Input::Axis(extent(axis)),
    });
    Inputs(inputs.collect())
}

fn make_value(dtype: DType, k: usize) -> Value {
    let number = k.wrapping_mul(0x9e37) % 1024;
    Value::from_f64(dtype, number as f64 / 256.0)
        .or_else(|| Value::from_i128(dtype, (number / 256) as i128))
        .unwrap_or(Value::Bool(number % 2 == 1))
}

/// Extents by axis, and nothing else.
struct Extents<'a>(&'a [i64]);

impl IndexEnv for Extents<'_> {
    fn index(&self, _: AxisId) -> i64 {
        0
    }

    fn extent(&self, axis: AxisId) -> i64 {
        self.0.get(axis.index()).copied().unwrap_or(1)
    }

    fn param(&self, _: ParamId) -> i64 {
        1
    }

    fn indirect(&self, _: NodeId) -> i64 {
        0
    }
}
