//! Plans as text, for users and for golden tests.

use crate::graph::Kernel;
use crate::id::{AxisId, NodeId};
use crate::index_map::{IndexEnv, IndexExpr};
use crate::plan::{Decision, Plan, Refusal, Rule};
use crate::schedule::build::label;
use crate::schedule::contraction::contraction_of;
use crate::schedule::{BodyOp, BufferRef, Operand, ScheduleKind, ScheduledGroup};
use std::fmt::{self, Write};

/// A plan with the names of its kernel, see [`Plan::display`].
pub struct PlanDisplay<'a> {
    plan: &'a Plan,
    kernel: Option<&'a Kernel>,
}

impl Plan {
    /// The plan as text with the user's names: launches, what each reads and writes, its sweeps, and every decision.
    pub fn display<'a>(&'a self, kernel: &'a Kernel) -> PlanDisplay<'a> {
        PlanDisplay { plan: self, kernel: Some(kernel) }
    }

    /// The number that an expression over extents has under the assumed extents.
    pub fn assume(&self, expr: &IndexExpr) -> u64 {
        u64::try_from(expr.eval(&Assumed(self))).unwrap_or(0)
    }
}

/// Without the kernel axes, nodes and parameters are named by their ids.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PlanDisplay { plan: self, kernel: None }.fmt(f)
    }
}

struct Assumed<'a>(&'a Plan);

impl IndexEnv for Assumed<'_> {
    fn index(&self, _: AxisId) -> i64 {
        0
    }

    fn extent(&self, axis: AxisId) -> i64 {
        self.0.assumed.iter().find(|(a, _)| *a == axis).map_or(0, |(_, n)| *n as i64)
    }

    fn param(&self, _: crate::id::ParamId) -> i64 {
        0
    }

    fn indirect(&self, _: NodeId) -> i64 {
        0
    }
}

impl PlanDisplay<'_> {
    fn axis(&self, axis: AxisId) -> String {
        self.kernel.map_or_else(|| axis.to_string(), |k| k.axis(axis).name.clone())
    }

    fn axes(&self, axes: &[AxisId]) -> String {
        axes.iter().map(|a| self.axis(*a)).collect::<Vec<_>>().join(", ")
    }

    fn node(&self, node: NodeId) -> String {
        self.kernel.map_or_else(|| node.to_string(), |k| format!("`{}`", label(k, node)))
    }

    fn buffer(&self, buffer: BufferRef) -> String {
        match (buffer, self.kernel) {
            (BufferRef::Param(p), Some(kernel)) => kernel.param(p).name.clone(),
            (BufferRef::Param(p), None) => p.to_string(),
            (BufferRef::Result(k), _) => format!("result.{k}"),
            (BufferRef::Temp(t), _) => t.to_string(),
        }
    }

    fn expr(&self, expr: &IndexExpr) -> String {
        match expr {
            IndexExpr::Const(c) => c.to_string(),
            IndexExpr::Index(a) => self.axis(*a).to_lowercase(),
            IndexExpr::Extent(a) => self.axis(*a),
            IndexExpr::Param(p) => self.buffer(BufferRef::Param(*p)),
            IndexExpr::Indirect(n) => format!("x{}", n.0),
            IndexExpr::Add(a, b) => format!("{} + {}", self.expr(a), self.expr(b)),
            IndexExpr::Sub(a, b) => format!("{} - {}", self.expr(a), self.factor(b)),
            IndexExpr::Mul(a, b) => format!("{} * {}", self.factor(a), self.factor(b)),
            IndexExpr::FloorDiv(a, b) => format!("{} / {}", self.factor(a), self.factor(b)),
            IndexExpr::Mod(a, b) => format!("{} % {}", self.factor(a), self.factor(b)),
        }
    }

    fn factor(&self, expr: &IndexExpr) -> String {
        match expr {
            IndexExpr::Add(..) | IndexExpr::Sub(..) => format!("({})", self.expr(expr)),
            IndexExpr::FloorDiv(..) | IndexExpr::Mod(..) => format!("({})", self.expr(expr)),
            IndexExpr::Const(_) | IndexExpr::Index(_) | IndexExpr::Extent(_) => self.expr(expr),
            IndexExpr::Param(_) | IndexExpr::Indirect(_) | IndexExpr::Mul(..) => self.expr(expr),
        }
    }

    fn access(&self, buffer: BufferRef, indices: &[(AxisId, IndexExpr)]) -> String {
        let indices: Vec<String> = indices.iter().map(|(_, e)| self.expr(e)).collect();
        format!("{}[{}]", self.buffer(buffer), indices.join(", "))
    }

    fn write_group(&self, f: &mut impl Write, group: &ScheduledGroup) -> fmt::Result {
        if group.links.is_empty() {
            writeln!(f, "  {}: {}", group.id, self.domain(group))?;
            return self.write_loop(f, group, group, "    ");
        }
        let over = group.links.last().map_or(String::new(), |l| self.axes(&l.reduced));
        writeln!(f, "  {}: streamed over [{over}], tile by tile in {} loops", group.id, group.links.len())?;
        for link in &group.links {
            writeln!(f, "    {}", self.domain(link))?;
            self.write_loop(f, group, link, "      ")?;
        }
        Ok(())
    }

    /// What a loop runs over.
    fn domain(&self, group: &ScheduledGroup) -> String {
        match group.kind {
            ScheduleKind::Pointwise if group.outer.is_empty() => "scalar".to_owned(),
            ScheduleKind::Pointwise => format!("pointwise over [{}]", self.axes(&group.outer)),
            ScheduleKind::Contraction => {
                let (sides, products) = contraction_of(group).unwrap_or_default();
                let each = match sides.batch.is_empty() {
                    true => String::new(),
                    false => format!(" for each [{}]", self.axes(&sides.batch)),
                };
                let what = match products.len() {
                    1 => "contraction".to_owned(),
                    n => format!("{n} contractions"),
                };
                let (rows, columns) = (self.axes(&sides.rows), self.axes(&sides.columns));
                let over = self.axes(&group.reduced);
                format!("{what} [{rows}] x [{columns}]{each} over [{over}]")
            }
            kind => {
                let name = match kind {
                    ScheduleKind::Row => "row",
                    ScheduleKind::Column => "column",
                    ScheduleKind::Split => "split",
                    ScheduleKind::Depthwise => "depthwise",
                    ScheduleKind::Pointwise | ScheduleKind::Contraction => "pointwise",
                    ScheduleKind::Streamed => "streamed",
                };
                let each = match group.outer.is_empty() {
                    true => String::new(),
                    false => format!(" for each [{}]", self.axes(&group.outer)),
                };
                let sweeps = match group.passes.len() {
                    1 => "1 sweep".to_owned(),
                    n => format!("{n} sweeps"),
                };
                format!("{name}{each} over [{}] in {sweeps}", self.axes(&group.reduced))
            }
        }
    }

    /// What a loop of a group reads, computes and writes.
    fn write_loop(
        &self,
        f: &mut impl Write,
        whole: &ScheduledGroup,
        group: &ScheduledGroup,
        indent: &str,
    ) -> fmt::Result {
        let mut reads = Vec::new();
        for operand in &group.operands {
            if let Operand::Buffer { buffer, dtype, map } = operand {
                let guard = if map.bounds.is_empty() { "" } else { " where in bounds" };
                let text = format!("{}: {dtype}{guard}", self.access(*buffer, &map.indices));
                if !reads.contains(&text) {
                    reads.push(text);
                }
            }
        }
        for read in reads {
            writeln!(f, "{indent}reads  {read}")?;
        }
        for (k, pass) in group.passes.iter().enumerate() {
            let name =
                |v: &crate::id::ValueId| group.value(*v).node.map_or_else(|| v.to_string(), |n| self.node(n));
            let list = |values: &[crate::id::ValueId]| values.iter().map(name).collect::<Vec<_>>().join(", ");
            if group.passes.len() > 1 || !pass.reductions.is_empty() {
                write!(f, "{indent}sweep {}:", k + 1)?;
                let maps = pass.values.iter().filter(|v| matches!(group.value(**v).op, BodyOp::Map { .. }));
                write!(f, " {} maps", maps.count())?;
                if !pass.reductions.is_empty() {
                    write!(f, ", reduces {}", list(&pass.reductions))?;
                }
                if !pass.buffered.is_empty() {
                    write!(f, ", keeps {}", list(&pass.buffered))?;
                }
                writeln!(f)?;
            }
        }
        for store in &group.stores {
            let value = group.value(store.value).node.map_or_else(String::new, |n| self.node(n));
            let stays = whole.stores.iter().any(|s| s.buffer == store.buffer);
            let verb = if stays { "writes" } else { "makes " };
            let access = self.access(store.buffer, &store.indices);
            writeln!(f, "{indent}{verb} {access}: {} = {value}", store.dtype)?;
        }
        Ok(())
    }

    fn write_decision(&self, f: &mut impl Write, decision: &Decision) -> fmt::Result {
        let verdict = if decision.refusal.is_none() { "taken  " } else { "refused" };
        let sides = match (decision.rule, decision.producer == decision.consumer) {
            (_, true) => self.node(decision.producer),
            (Rule::Siblings | Rule::Horizontal, _) => {
                format!("{} beside {}", self.node(decision.producer), self.node(decision.consumer))
            }
            _ => format!("{} into {}", self.node(decision.producer), self.node(decision.consumer)),
        };
        write!(f, "  {verdict} {}: {sides}: {}", decision.rule, decision.reason)?;
        if let Some(remedy) = &decision.remedy {
            write!(f, "; {remedy}")?;
        }
        writeln!(f)
    }
}

impl fmt::Display for PlanDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan;
        let count = |n: u32| if n == 1 { "1 launch".to_owned() } else { format!("{n} launches") };
        writeln!(
            f,
            "plan of `{}` for {}: {}, unfused {}",
            plan.kernel,
            plan.target,
            count(plan.launch_count()),
            plan.launches_unfused
        )?;
        let sizes: Vec<String> =
            plan.assumed.iter().map(|(a, n)| format!("{} = {n}", self.axis(*a))).collect();
        if !sizes.is_empty() {
            writeln!(f, "assuming {}", sizes.join(", "))?;
        }
        writeln!(
            f,
            "moves {} of memory, unfused {}; {} operations",
            Bytes(plan.assume(&plan.bytes)),
            Bytes(plan.assume(&plan.bytes_unfused)),
            plan.assume(&plan.flops)
        )?;
        for (k, launch) in plan.launches.iter().enumerate() {
            let launches = launch.parts.iter().map(ScheduledGroup::launches).max().unwrap_or(1);
            let twice = if launches == 2 { " (and one that folds)" } else { "" };
            writeln!(f, "launch {}{twice}", k + 1)?;
            for group in &launch.parts {
                self.write_group(f, group)?;
            }
        }
        for (k, temp) in plan.temps.iter().enumerate() {
            let axes = self.axes(&temp.axes);
            let what = if temp.streamed { "tiles of" } else { "temp" };
            writeln!(f, "{what} t{k}[{axes}]: {} = {}", temp.dtype, self.node(temp.node))?;
        }
        for (group, written, read) in &plan.in_place {
            let (written, read) = (self.buffer(*written), self.buffer(*read));
            if written == read {
                writeln!(f, "in place: {group} updates {written}")?;
            } else {
                writeln!(f, "in place: {group} writes {written} over {read}")?;
            }
        }
        if !plan.decisions.is_empty() {
            writeln!(f, "decisions")?;
        }
        for decision in &plan.decisions {
            self.write_decision(f, decision)?;
        }
        if let Some(over) = plan.over_best {
            writeln!(f, "modelled cost over that of the best plan: {over:.3}")?;
        }
        Ok(())
    }
}

/// A number of bytes in the greatest unit that keeps it readable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut amount = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while amount >= 1024.0 && unit + 1 < units.len() {
            amount /= 1024.0;
            unit += 1;
        }
        write!(f, "{amount:.1} {}", units[unit])
    }
}

/// Seconds as microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Micros(pub f64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} us", self.0 * 1e6)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Vertical => "vertical",
            Rule::ReductionPrologue => "reduction prologue",
            Rule::ReductionEpilogue => "reduction epilogue",
            Rule::ContractionPrologue => "contraction prologue",
            Rule::ContractionEpilogue => "contraction epilogue",
            Rule::Streaming => "streaming",
            Rule::Siblings => "siblings",
            Rule::Horizontal => "horizontal",
            Rule::Recomputation => "recomputation",
            Rule::Depthwise => "depthwise",
            Rule::InPlace => "in place",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Materialized => "`materialize()`",
            Refusal::Cycle => "cycle",
            Refusal::IncompleteReduction => "incomplete reduction",
            Refusal::DifferentAxes => "different axes",
            Refusal::IndexMismatch => "other positions",
            Refusal::Registers => "registers",
            Refusal::Parameters => "parameters",
            Refusal::CodeSize => "code size",
            Refusal::LostParallelism => "lost parallelism",
            Refusal::Recomputation => "recomputation",
            Refusal::Slower => "slower",
            Refusal::NotStreamed => "not streamed",
            Refusal::InPlaceHazard => "in-place hazard",
        })
    }
}
