//! The dump of a kernel: one line for each node, with the user's names.

use super::{AxisSource, Kernel, MapFn, Op, OutputTarget, ParamKind, Reducer};
use crate::id::{AxisId, NodeId, ParamId};
use crate::index_map::{IndexExpr, IndexMap};
use std::fmt;

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}(", self.name)?;
        for (i, param) in self.params.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}: ", param.name)?;
            match &param.kind {
                ParamKind::Tensor { dtype, axes, mutable } => {
                    write!(f, "{}{dtype}[{}]", if *mutable { "&mut " } else { "" }, self.list_axes(axes))?;
                }
                ParamKind::Scalar { dtype } => write!(f, "{dtype}")?,
                ParamKind::Axis { axis } => write!(f, "Axis<{}>", self.axis_name(*axis))?,
            }
        }
        f.write_str(") {\n")?;
        for axis in &self.axes {
            match &axis.source {
                AxisSource::Shape | AxisSource::Host(_) => {}
                AxisSource::Static(n) => writeln!(f, "    axis {} = {n}", axis.name)?,
                AxisSource::Derived(e) => writeln!(f, "    axis {} = {}", axis.name, self.show_index(e))?,
            }
        }
        for id in self.node_ids() {
            let node = self.node(id);
            let line = format!(
                "    {id}: {}[{}] = {}",
                node.ty.dtype,
                self.list_axes(&node.ty.axes),
                self.show_op(&node.op)
            );
            match self.origins.get(id.index()) {
                Some(origin) if !origin.label.is_empty() => writeln!(f, "{line:<56}  // {}", origin.label)?,
                Some(_) | None => writeln!(f, "{line}")?,
            }
        }
        for output in &self.outputs {
            match &output.target {
                OutputTarget::Result { index, axes } => {
                    writeln!(f, "    result {index} [{}] = {}", self.list_axes(axes), output.value)?;
                }
                OutputTarget::Param { param, region } => {
                    let region: Vec<String> = region.iter().map(|e| self.show_index(e)).collect();
                    writeln!(f, "    {}[{}] = {}", self.param_name(*param), region.join(", "), output.value)?;
                }
            }
        }
        f.write_str("}\n")
    }
}

/// A dump may be of a kernel that is not yet verified, so an id out of range shows as itself.
impl Kernel {
    fn axis_name(&self, id: AxisId) -> String {
        self.axes.get(id.index()).map_or_else(|| id.to_string(), |a| a.name.clone())
    }

    fn param_name(&self, id: ParamId) -> String {
        self.params.get(id.index()).map_or_else(|| id.to_string(), |p| p.name.clone())
    }

    fn list_axes(&self, axes: &[AxisId]) -> String {
        axes.iter().map(|&a| self.axis_name(a)).collect::<Vec<_>>().join(", ")
    }

    fn show_op(&self, op: &Op) -> String {
        match op {
            Op::Tensor(p) | Op::Scalar(p) => self.param_name(*p),
            Op::Constant(v) => v.to_string(),
            Op::Index(a) => format!("index {}", self.axis_name(*a)),
            Op::Extent(e) => format!("extent {}", self.show_index(e)),
            Op::Map { function, args } => format!("{} {}", self.show_function(*function), list_nodes(args)),
            Op::View { source, map, fill } => {
                let fill = fill.map(|v| format!(" else {v}")).unwrap_or_default();
                format!("view {source}{}{fill}", self.show_map(map))
            }
            Op::Reduce { reducer, sources, axes, output } => {
                let component = match reducer {
                    Reducer::User { .. } if sources.len() > 1 => format!(".{output}"),
                    _ => String::new(),
                };
                let name = match reducer {
                    Reducer::Sum => "sum".to_owned(),
                    Reducer::Prod => "prod".to_owned(),
                    Reducer::Dot => "dot".to_owned(),
                    Reducer::Max => "max".to_owned(),
                    Reducer::Min => "min".to_owned(),
                    Reducer::Any => "any".to_owned(),
                    Reducer::All => "all".to_owned(),
                    Reducer::ArgMax => "argmax".to_owned(),
                    Reducer::ArgMin => "argmin".to_owned(),
                    Reducer::User { combine, identity: _, ordered } => {
                        let name = self.functions.get(combine.index()).map(|f| f.name.clone());
                        let name = name.unwrap_or_else(|| combine.to_string());
                        format!("reduce{} {name}", if *ordered { " ordered" } else { "" })
                    }
                };
                format!("{name}{component}<{}> {}", self.list_axes(axes), list_nodes(sources))
            }
            Op::CumSum { source, axis } => format!("cumsum<{}> {source}", self.axis_name(*axis)),
            Op::Materialize { source } => format!("materialize {source}"),
        }
    }

    fn show_function(&self, function: MapFn) -> String {
        match function {
            MapFn::Op(op) => op.to_string(),
            MapFn::Call { function, result } => match self.functions.get(function.index()) {
                Some(f) if f.results.len() == 1 => f.name.clone(),
                Some(f) => format!("{}.{result}", f.name),
                None => function.to_string(),
            },
        }
    }

    /// The expression with the user's names.
    fn show_index(&self, e: &IndexExpr) -> String {
        let two = |a: &IndexExpr, sign: &str, b: &IndexExpr| {
            format!("({} {sign} {})", self.show_index(a), self.show_index(b))
        };
        match e {
            IndexExpr::Const(c) => c.to_string(),
            IndexExpr::Index(a) => self.axis_name(*a).to_lowercase(),
            IndexExpr::Extent(a) => self.axis_name(*a),
            IndexExpr::Param(p) => self.param_name(*p),
            IndexExpr::Indirect(n) => format!("[{n}]"),
            IndexExpr::Add(a, b) => two(a, "+", b),
            IndexExpr::Sub(a, b) => two(a, "-", b),
            IndexExpr::Mul(a, b) => two(a, "*", b),
            IndexExpr::FloorDiv(a, b) => two(a, "/", b),
            IndexExpr::Mod(a, b) => two(a, "%", b),
        }
    }

    fn show_map(&self, map: &IndexMap) -> String {
        let indices: Vec<String> = map
            .indices
            .iter()
            .map(|(a, e)| format!("{}: {}", self.axis_name(*a), self.show_index(e)))
            .collect();
        let mut text = format!("[{}]", indices.join(", "));
        for (i, b) in map.bounds.iter().enumerate() {
            let word = if i == 0 { "if" } else { "and" };
            text += &format!(" {word} 0 <= {} < {}", self.show_index(&b.expr), self.show_index(&b.extent));
        }
        text
    }
}

fn list_nodes(nodes: &[NodeId]) -> String {
    nodes.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
}
