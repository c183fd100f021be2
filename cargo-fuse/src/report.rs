//! `cargo fuse report`: one page of HTML with everything that is known of each kernel, without anything that is fetched.
//!
//! The page is a document of XML too, so that a test can read it.

mod counters;
mod dataflow;
mod roofline;
mod svg;

use crate::arguments::ReportArguments;
use crate::build::{Build, check_crate};
use crate::edges::{Edge, list_edges};
use crate::emit::{format_rust, list_variants};
use crate::excerpt::Style;
use crate::explain::{describe_decision, name_sides};
use crate::failure::{Failure, Outcome};
use crate::kernel::{Kernel, replan_kernels, select_kernels};
use crate::source::Sources;
use crate::units::{Bytes, count};
use fuse_compiler::record::Texts;
use fuse_ir::plan::Plan;
use std::fmt::Write;
use svg::escape;

/// Runs the command.
///
/// # Errors
/// If there is no such kernel, the file cannot be written, or the build fails.
pub(crate) fn run(arguments: &ReportArguments) -> Outcome {
    let Build { target_directory, kernels, .. } = check_crate(&arguments.cargo)?;
    let kernels = select_kernels(kernels, arguments.kernel.as_deref())?;
    let kernels = replan_kernels(kernels, &arguments.plan)?;
    let path = arguments.out.clone().unwrap_or_else(|| target_directory.join("report.html"));
    std::fs::write(&path, print_page(&kernels, &mut Sources::default()))
        .map_err(|error| Failure::broken(format!("`{}` cannot be written: {error}", path.display())))?;
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(format!("{} in {}\n", count(kernels.len(), "kernel", "kernels"), path.display()))
}

/// The page.
fn print_page(kernels: &[Kernel], sources: &mut Sources) -> String {
    let mut page =
        String::from("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n");
    page += "<meta charset=\"utf-8\" />\n<meta name=\"viewport\" content=\"width=device-width\" />\n";
    page += "<title>Kernels of fuse!</title>\n";
    let _ = writeln!(page, "<style>/*<![CDATA[*/\n{}/*]]>*/</style>", include_str!("report/page.css"));
    page += "</head>\n<body>\n<header><h1>Kernels of <code>fuse!</code></h1>\n";
    page += &print_overview(kernels);
    page += "</header>\n<main>\n";
    for (number, kernel) in kernels.iter().enumerate() {
        page += &print_kernel(number, kernel, sources);
    }
    page += "</main>\n";
    let _ = writeln!(page, "<script>//<![CDATA[\n{}//]]></script>", include_str!("report/page.js"));
    page += "</body>\n</html>\n";
    page
}

/// A table with a row for each kernel.
fn print_overview(kernels: &[Kernel]) -> String {
    let mut text = String::from(
        "<nav aria-label=\"Kernels\"><table><thead><tr><th>kernel</th><th>launches</th><th>unfused</th>\
         <th>memory</th><th>unfused</th><th>edges fused</th></tr></thead><tbody>\n",
    );
    for (number, kernel) in kernels.iter().enumerate() {
        let plan = &kernel.program.plan;
        let edges = list_edges(&kernel.program);
        let _ = writeln!(
            text,
            "<tr><td><a href=\"#k{number}\"><code>{}</code></a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{} of {}</td></tr>",
            escape(&kernel.full_name()),
            plan.launch_count(),
            plan.launches_unfused,
            Bytes(plan.assume(&plan.bytes)),
            Bytes(plan.assume(&plan.bytes_unfused)),
            count_fused(plan, &edges),
            edges.len()
        );
    }
    text + "</tbody></table></nav>\n"
}

fn count_fused(plan: &Plan, edges: &[Edge]) -> usize {
    let decisions = edges.iter().filter_map(|edge| plan.decisions.get(edge.decision?));
    decisions.filter(|decision| decision.refusal.is_none()).count()
}

/// What there is to know of a kernel. `number` is its own on the page.
fn print_kernel(number: usize, kernel: &Kernel, sources: &mut Sources) -> String {
    let plan = &kernel.program.plan;
    let edges = list_edges(&kernel.program);
    let mut text =
        format!("<section id=\"k{number}\">\n<h2><code>{}</code></h2>\n", escape(&kernel.full_name()));
    let place = kernel.place().map_or_else(String::new, |place| {
        format!("<code>{}:{}:{}</code>; ", escape(&place.file), place.line, place.column)
    });
    let sizes = plan
        .assumed
        .iter()
        .map(|(axis, extent)| format!(", {} = {extent}", escape(&kernel.program.kernel.axis(*axis).name)));
    let _ = writeln!(
        text,
        "<p>{place}planned for {}{}: {} in place of {}, {} over memory in place of {}.</p>",
        escape(&plan.target),
        sizes.collect::<String>(),
        count(plan.launch_count() as usize, "launch", "launches"),
        plan.launches_unfused,
        Bytes(plan.assume(&plan.bytes)),
        Bytes(plan.assume(&plan.bytes_unfused)),
    );
    if let Some(wanted) = kernel.broken_contract {
        let _ = writeln!(
            text,
            "<p class=\"wrong\">The contract <code>launches = {wanted}</code> is not kept.</p>"
        );
    }
    text += "<h3>Dataflow</h3>\n<p>A frame is a launch. A line is an edge: solid where both operations share a loop, dashed \
             where the value goes over memory. Choose one with the mouse or with Tab and Enter for its decision.</p>\n";
    let _ = writeln!(text, "<div class=\"wide\">\n{}</div>", dataflow::draw(number, kernel, &edges));
    text += &print_decisions(number, kernel, &edges, sources);
    text += "<h3>Roofline</h3>\n";
    text += &roofline::print(kernel);
    text += "<h3>Simulated on a GPU</h3>\n";
    text += &counters::print(kernel);
    text += "<h3>Written and generated</h3>\n";
    text += &print_texts(number, kernel, sources);
    text + "</section>\n"
}

/// A decision for each edge, then the others; each opens.
fn print_decisions(number: usize, kernel: &Kernel, edges: &[Edge], sources: &mut Sources) -> String {
    let decisions = &kernel.program.plan.decisions;
    let fused = count_fused(&kernel.program.plan, edges);
    let mut text = format!(
        "<h3>Decisions</h3>\n<p>{}: {fused} fused, {} not.</p>\n",
        count(edges.len(), "edge", "edges"),
        edges.len() - fused
    );
    let about_edges = edges.iter().filter_map(|edge| edge.decision);
    let others = (0..decisions.len()).filter(|k| edges.iter().all(|edge| edge.decision != Some(*k)));
    for k in about_edges.chain(others) {
        let decision = &decisions[k];
        let (class, word) =
            if decision.refusal.is_none() { ("fused", "fused") } else { ("refused", "refused") };
        let sides = name_sides(kernel, decision.rule, decision.producer, decision.consumer);
        let message = describe_decision(kernel, decision).render(sources, &kernel.directory, Style::Plain);
        let _ = writeln!(
            text,
            "<details class=\"{class}\" id=\"k{number}-d{k}\"><summary><b>{word}</b> {} <i>{}</i></summary>\
             <pre>{}</pre></details>",
            escape(&sides),
            decision.rule,
            escape(&message)
        );
    }
    text
}

/// The kernel as it is written, and what is generated of it, side by side.
fn print_texts(number: usize, kernel: &Kernel, sources: &mut Sources) -> String {
    let Texts { graph, plan, rust, gpu } = kernel.texts();
    let generated = [
        ("Rust", format_rust(&rust)),
        ("CUDA C++", list_variants(&gpu, |gpu| &gpu.cuda)),
        ("kernel IR", list_variants(&gpu, |gpu| &gpu.kernel_ir)),
        ("graph", graph),
        ("plan", plan),
    ];
    let mut text = String::from("<div class=\"sides\"><div>\n<h4>written</h4>\n");
    let _ = writeln!(text, "<pre>{}</pre>", escape(&print_source(kernel, sources)));
    text += "</div><div>\n<h4>generated</h4>\n<div class=\"tabs\">\n";
    for (k, (name, _)) in generated.iter().enumerate() {
        let checked = if k == 0 { " checked=\"checked\"" } else { "" };
        let _ = writeln!(
            text,
            "<input type=\"radio\" name=\"k{number}-text\" id=\"k{number}-t{k}\"{checked} />\
             <label for=\"k{number}-t{k}\">{name}</label>"
        );
    }
    for (_, generated) in &generated {
        let _ = writeln!(text, "<pre>{}</pre>", escape(generated));
    }
    text + "</div></div></div>\n"
}

/// The lines of a kernel with their numbers.
fn print_source(kernel: &Kernel, sources: &mut Sources) -> String {
    let lines = kernel.item().and_then(|item| {
        let text = sources.text(&kernel.directory, &item.file)?;
        let skipped = item.line.saturating_sub(1) as usize;
        let lines = text.lines().enumerate().skip(skipped).take(item.end_line as usize - skipped);
        Some(lines.map(|(k, line)| format!("{:4} {line}\n", k + 1)).collect::<String>())
    });
    lines.unwrap_or_else(|| "the source cannot be read".to_owned())
}

#[cfg(test)]
mod tests;
