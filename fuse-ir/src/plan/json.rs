//! Plans as JSON, for reports and other tools: the user's names, numbers under the assumed extents.

use crate::graph::Kernel;
use crate::id::{AxisId, NodeId};
use crate::index_map::IndexExpr;
use crate::plan::{Decision, Plan};
use crate::schedule::build::label;
use crate::schedule::{BufferRef, Operand, ScheduleKind, ScheduledGroup};
use serde_json::{Value, json};

impl Plan {
    /// The plan as JSON with the names of its kernel.
    pub fn to_json(&self, kernel: &Kernel) -> String {
        let names = Names { kernel };
        let assumed: serde_json::Map<String, Value> =
            self.assumed.iter().map(|(a, n)| (names.axis(*a), json!(n))).collect();
        let launches: Vec<Value> = self
            .launches
            .iter()
            .map(|l| Value::Array(l.parts.iter().map(|g| names.group(g)).collect()))
            .collect();
        let temps: Vec<Value> = self
            .temps
            .iter()
            .map(|t| {
                json!({
                    "dtype": t.dtype.name(),
                    "axes": names.axes(&t.axes),
                    "value": names.node(t.node),
                    "streamed": t.streamed,
                })
            })
            .collect();
        let in_place: Vec<Value> = self
            .in_place
            .iter()
            .map(|(g, written, read)| {
                json!({
                    "group": g.to_string(),
                    "written": names.buffer(*written),
                    "read": names.buffer(*read),
                })
            })
            .collect();
        let decisions: Vec<Value> = self.decisions.iter().map(|d| names.decision(d)).collect();
        let plan = json!({
            "kernel": self.kernel,
            "target": self.target,
            "assumed": assumed,
            "launch_count": self.launch_count(),
            "launches_unfused": self.launches_unfused,
            "bytes": self.assume(&self.bytes),
            "bytes_unfused": self.assume(&self.bytes_unfused),
            "operations": self.assume(&self.flops),
            "launches": launches,
            "temps": temps,
            "in_place": in_place,
            "decisions": decisions,
            "over_best": self.over_best,
        });
        plan.to_string()
    }
}

struct Names<'a> {
    kernel: &'a Kernel,
}

impl Names<'_> {
    fn axis(&self, axis: AxisId) -> String {
        self.kernel.axis(axis).name.clone()
    }

    fn axes(&self, axes: &[AxisId]) -> Vec<String> {
        axes.iter().map(|a| self.axis(*a)).collect()
    }

    fn node(&self, node: NodeId) -> Value {
        let origin = self.kernel.origins.get(node.index());
        json!({
            "label": label(self.kernel, node),
            "file": origin.map(|o| o.file.as_str()),
            "line": origin.map(|o| o.line),
            "column": origin.map(|o| o.column),
        })
    }

    fn buffer(&self, buffer: BufferRef) -> String {
        match buffer {
            BufferRef::Param(p) => self.kernel.param(p).name.clone(),
            BufferRef::Result(k) => format!("result.{k}"),
            BufferRef::Temp(t) => t.to_string(),
        }
    }

    fn access(&self, buffer: BufferRef, indices: &[(AxisId, IndexExpr)]) -> Value {
        let indices: Vec<String> = indices.iter().map(|(_, e)| e.to_string()).collect();
        json!({ "buffer": self.buffer(buffer), "indices": indices })
    }

    fn group(&self, group: &ScheduledGroup) -> Value {
        let kind = match group.kind {
            ScheduleKind::Pointwise => "pointwise",
            ScheduleKind::Row => "row",
            ScheduleKind::Contraction => "contraction",
            ScheduleKind::Column => "column",
            ScheduleKind::Depthwise => "depthwise",
            ScheduleKind::Split => "split",
            ScheduleKind::Streamed => "streamed",
        };
        let reads: Vec<Value> = group
            .operands
            .iter()
            .filter_map(|o| match o {
                Operand::Buffer { buffer, map, .. } => Some(self.access(*buffer, &map.indices)),
                Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => None,
            })
            .collect();
        let writes: Vec<Value> = group.stores.iter().map(|s| self.access(s.buffer, &s.indices)).collect();
        json!({
            "group": group.id.to_string(),
            "kind": kind,
            "outer": self.axes(&group.outer),
            "reduced": self.axes(&group.reduced),
            "sweeps": group.passes.len(),
            "launches": group.launches(),
            "reads": reads,
            "writes": writes,
        })
    }

    fn decision(&self, d: &Decision) -> Value {
        json!({
            "rule": d.rule.to_string(),
            "producer": self.node(d.producer),
            "consumer": self.node(d.consumer),
            "taken": d.refusal.is_none(),
            "refusal": d.refusal.map(|r| r.to_string()),
            "reason": d.reason,
            "remedy": d.remedy,
            "bytes": { "fused": d.bytes.0, "apart": d.bytes.1 },
            "seconds": { "fused": d.seconds.0, "apart": d.seconds.1 },
        })
    }
}
