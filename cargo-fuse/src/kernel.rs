//! A kernel as the build compiled it, or planned again for other sizes or another target.

use crate::arguments::PlanArguments;
use crate::failure::Failure;
use fuse_compiler::record::{BlockRecord, KernelRecord, SourceRange, Texts};
use fuse_ir::id::NodeId;
use fuse_ir::plan::{PlanError, PlanOptions, plan_kernel};
use fuse_ir::program::Program;
use fuse_ir::target::Target;
use quote::quote;
use serde_json::Value;
use std::path::PathBuf;

/// A kernel, or an instance of a generic one.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The package that it is in.
    pub(crate) package: String,
    /// The crate that it is in.
    pub(crate) crate_name: String,
    /// Relative names of files start here.
    pub(crate) directory: PathBuf,
    /// Its graph and plan.
    pub(crate) program: Program,
    /// A contract that the plan does not keep: the launches that it allows.
    pub(crate) broken_contract: Option<u32>,
    record: KernelRecord,
    /// Whether the plan is not the build's.
    replanned: bool,
}

impl Kernel {
    /// The kernels of a block; `None` for one whose program is of another version.
    pub(crate) fn list(block: BlockRecord) -> Vec<Option<Kernel>> {
        let BlockRecord { package, crate_name, directory, kernels, .. } = block;
        let make = |record: KernelRecord| {
            Some(Kernel {
                package: package.clone(),
                crate_name: crate_name.clone(),
                directory: directory.clone(),
                program: record.to_program()?,
                broken_contract: record.broken_contract,
                record,
                replanned: false,
            })
        };
        kernels.into_iter().map(make).collect()
    }

    /// Its name, for an instance with the dtypes: `softmax::<f16>`.
    pub(crate) fn name(&self) -> &str {
        &self.record.name
    }

    /// Its name with that of its crate.
    pub(crate) fn full_name(&self) -> String {
        format!("{}::{}", self.crate_name, self.record.name)
    }

    /// Its name in the source.
    pub(crate) fn place(&self) -> Option<&SourceRange> {
        self.record.place.as_ref()
    }

    /// The whole of it in the source.
    pub(crate) fn item(&self) -> Option<&SourceRange> {
        self.record.item.as_ref()
    }

    /// Where a node of its graph stands in the source.
    pub(crate) fn place_of(&self, node: NodeId) -> Option<&SourceRange> {
        self.record.nodes.get(node.index())?.as_ref()
    }

    /// The plan as JSON.
    pub(crate) fn plan_json(&self) -> Value {
        if !self.replanned {
            return self.record.plan.clone();
        }
        serde_json::from_str(&self.program.plan.to_json(&self.program.kernel)).unwrap_or_default()
    }

    /// What is generated of it.
    pub(crate) fn texts(&self) -> Texts {
        if !self.replanned {
            return self.record.texts.clone();
        }
        Texts::of(&quote!(::fuse), &self.program)
    }

    fn is_called(&self, name: &str) -> bool {
        let bare = |full: &str| full.split_once("::<").map_or(full, |(bare, _)| bare).to_owned();
        let full = self.full_name();
        [self.record.name.as_str(), &bare(&self.record.name), &full, &bare(&full)].contains(&name)
    }
}

/// The kernels of that name, or all.
///
/// # Errors
/// If there are none.
pub(crate) fn select_kernels(kernels: Vec<Kernel>, name: Option<&str>) -> Result<Vec<Kernel>, Failure> {
    let among = if kernels.is_empty() {
        "there are none in what was compiled; those of tests and examples are compiled with --all-targets"
            .to_owned()
    } else {
        let mut names: Vec<String> = Vec::new();
        for name in kernels.iter().map(|kernel| format!("`{}`", kernel.name())) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        format!("there are {}", names.join(", "))
    };
    let Some(name) = name else {
        return if kernels.is_empty() {
            Err(Failure::found(format!("no kernels: {among}")))
        } else {
            Ok(kernels)
        };
    };
    let selected: Vec<Kernel> = kernels.into_iter().filter(|kernel| kernel.is_called(name)).collect();
    if selected.is_empty() {
        return Err(Failure::found(format!("no kernel `{name}`: {among}")));
    }
    Ok(selected)
}

/// The kernels, planned for what the arguments say if they say something. Where no plan keeps a kernel's contract, it is
/// planned without.
///
/// # Errors
/// If there is no such target, no kernel has an axis of that name, or one has no plan.
pub(crate) fn replan_kernels(
    kernels: Vec<Kernel>,
    arguments: &PlanArguments,
) -> Result<Vec<Kernel>, Failure> {
    if arguments.target.is_none() && arguments.assume.is_empty() {
        return Ok(kernels);
    }
    let target = find_target(arguments.target.as_deref().unwrap_or("cpu"))?;
    for (axis, _) in &arguments.assume {
        if !kernels.iter().any(|kernel| kernel.program.kernel.axes.iter().any(|a| a.name == *axis)) {
            let names =
                kernels.iter().flat_map(|kernel| &kernel.program.kernel.axes).map(|axis| axis.name.as_str());
            let names: std::collections::BTreeSet<&str> = names.collect();
            let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
            return Err(Failure::broken(format!("no axis `{axis}`: there are {}", names.join(", "))));
        }
    }
    kernels.into_iter().map(|kernel| replan(kernel, &target, &arguments.assume)).collect()
}

/// The target of that name.
///
/// # Errors
/// If there is none.
pub(crate) fn find_target(name: &str) -> Result<Target, Failure> {
    let targets = Target::all();
    if let Some(target) = targets.iter().find(|target| target.name == name) {
        return Ok(target.clone());
    }
    let names: Vec<String> = targets.iter().map(|target| format!("`{}`", target.name)).collect();
    Err(Failure::broken(format!("no target `{name}`: there are {}", names.join(", "))))
}

fn replan(mut kernel: Kernel, target: &Target, assume: &[(String, u64)]) -> Result<Kernel, Failure> {
    let graph = &mut kernel.program.kernel;
    for (name, extent) in assume {
        for axis in graph.axes.iter_mut().filter(|axis| axis.name == *name) {
            axis.assumed = Some(*extent);
        }
    }
    let mut planned = plan_kernel(graph, target, &PlanOptions::default());
    kernel.broken_contract = None;
    if let Err(PlanError::Contract { wanted, .. }) = planned {
        kernel.broken_contract = Some(wanted);
        graph.launches = None;
        planned = plan_kernel(graph, target, &PlanOptions::default());
    }
    match planned {
        Ok(plan) => kernel.program.plan = plan,
        Err(error) => {
            return Err(Failure::found(format!(
                "`{}` cannot be planned for {}: {error}",
                graph.name, target.name
            )));
        }
    }
    kernel.replanned = true;
    Ok(kernel)
}

#[cfg(test)]
impl Kernel {
    /// The first kernel of a block of that source, as if a crate `demo` had it. Its operations have no places.
    pub(crate) fn of_source(source: &str) -> Kernel {
        use fuse_compiler::diagnostic::Diagnostics;
        let mut diagnostics = Diagnostics::new();
        let mut planned =
            fuse_compiler::pipeline::plan_block(source.parse().expect("tokens"), &mut diagnostics);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let program = planned.remove(0).program;
        let record = KernelRecord {
            name: program.kernel.name.clone(),
            place: None,
            item: None,
            nodes: Vec::new(),
            program: String::new(),
            broken_contract: None,
            plan: serde_json::from_str(&program.plan.to_json(&program.kernel)).expect("JSON"),
            texts: Texts::of(&quote!(::fuse), &program),
        };
        Kernel {
            package: "demo".into(),
            crate_name: "demo".into(),
            directory: PathBuf::new(),
            program,
            broken_contract: None,
            record,
            replanned: false,
        }
    }
}
