use super::print_page;
use crate::edges::list_edges;
use crate::kernel::Kernel;
use crate::source::Sources;
use roxmltree::{Document, Node};
use std::collections::BTreeSet;

/// Rows with a cut between them, and a kernel of a comparison, whose text needs escapes.
const SOURCES: [&str; 2] = [
    "#[kernel] pub fn rows<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        let y = x.exp().materialize();
        y / y.sum(N)
    }",
    "#[kernel] pub fn choose<N>(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
        select(x < y && y > 0.0, x * 2.0, y)
    }",
];

fn kernels() -> Vec<Kernel> {
    SOURCES.iter().map(|source| Kernel::of_source(source)).collect()
}

fn with_class<'a>(document: &'a Document<'a>, class: &str) -> Vec<Node<'a, 'a>> {
    let has = |node: &Node<'_, '_>| {
        node.attribute("class").is_some_and(|classes| classes.split(' ').any(|one| one == class))
    };
    document.descendants().filter(has).collect()
}

/// The page as a document; it has a declaration of its type, which says nothing.
fn parse(page: &str) -> Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    Document::parse_with_options(page, options).expect("a well-formed page")
}

#[test]
fn the_page_is_well_formed_and_fetches_nothing() {
    let page = print_page(&kernels(), &mut Sources::default());
    let document = parse(&page);
    let mut ids = BTreeSet::new();
    for node in document.descendants() {
        if let Some(id) = node.attribute("id") {
            assert!(ids.insert(id), "`{id}` is there twice");
        }
        for attribute in node.attributes() {
            let link = matches!(attribute.name(), "src" | "href" | "action" | "data");
            assert!(!link || attribute.value().starts_with('#'), "{attribute:?}");
        }
    }
    assert!(!page.contains("@import") && !page.contains("url("), "the style fetches something");
    for node in document.descendants() {
        if let Some(link) = node.attribute("href") {
            assert!(ids.contains(&link[1..]), "{link} leads nowhere");
        }
        if let Some(decision) = node.attribute("data-decision") {
            assert!(ids.contains(decision), "{decision} is not there");
        }
    }
}

#[test]
fn every_edge_is_drawn_and_can_be_chosen() {
    let kernels = kernels();
    let page = print_page(&kernels, &mut Sources::default());
    let document = parse(&page);
    let edges = with_class(&document, "edge");
    let expected: usize = kernels.iter().map(|kernel| list_edges(&kernel.program).len()).sum();
    assert!(expected > 4);
    assert_eq!(edges.len(), expected);
    for edge in &edges {
        assert_eq!((edge.attribute("tabindex"), edge.attribute("role")), (Some("0"), Some("button")));
        assert!(
            edge.children().any(|child| child.attribute("class") == Some("line")),
            "{edge:?} has no line"
        );
        assert!(edge.attribute("data-decision").is_some() && edge.attribute("aria-label").is_some());
    }
    let decisions: usize = kernels.iter().map(|kernel| kernel.program.plan.decisions.len()).sum();
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("details")).count(), decisions);
    let refused = edges.iter().filter(|edge| edge.attribute("class") == Some("edge refused"));
    let labels: Vec<&str> = refused.filter_map(|edge| edge.attribute("aria-label")).collect();
    assert!(labels.contains(&"refused: `y` into `y.sum(N)` (reduction prologue)"), "{labels:?}");
    // A frame for each launch.
    let launches: usize = kernels.iter().map(|kernel| kernel.program.plan.launches.len()).sum();
    assert_eq!(with_class(&document, "frame").len(), launches);
}

#[test]
fn every_target_has_its_roofline_and_one_is_shown() {
    let kernels = kernels();
    let page = print_page(&kernels, &mut Sources::default());
    let document = parse(&page);
    let rooflines = with_class(&document, "roofline");
    let targets = fuse_ir::target::Target::all().len();
    assert_eq!(rooflines.len(), targets * kernels.len());
    let shown: Vec<_> = rooflines.iter().filter(|one| one.attribute("hidden").is_none()).collect();
    assert_eq!(shown.len(), kernels.len());
    assert!(shown.iter().all(|one| one.attribute("data-target") == Some("cpu")));
    let groups: usize = kernels.iter().map(|kernel| kernel.program.plan.groups().count()).sum();
    assert_eq!(with_class(&document, "point").len(), targets * groups);
    for circle in document.descendants().filter(|node| node.has_tag_name("circle")) {
        for (name, most) in [("cx", 560.0), ("cy", 260.0)] {
            let at: f64 = circle.attribute(name).expect("a place").parse().expect("a number");
            assert!((0.0..most).contains(&at), "{name} = {at}");
        }
    }
    // 8 MiB read and 8 MiB written: what `exp` moves.
    assert!(page.contains("<td>g0</td><td>8.0 MiB</td>"), "{page}");
}

#[test]
fn the_simulator_counts_what_a_call_moves() {
    let page = print_page(&kernels(), &mut Sources::default());
    // Two arrays of 1024 numbers are read and one is written, in sectors of 8 numbers, by 32 warps or fewer.
    let row =
        page.split("<p>A call of N = 1024 with contiguous tensors.").nth(1).expect("the kernel of one axis");
    let row =
        row.split("<tr><td>1</td>").nth(1).and_then(|rest| rest.split("</tr>").next()).expect("its launch");
    let cells: Vec<&str> = row.split("</td><td>").collect();
    assert_eq!(cells[3..7], ["384", "384", "0", "0"], "{row}");
    assert!(!page.contains("is not simulated") && !page.contains("finds a fault"));
    // Two axes of 128.
    assert!(page.contains("<p>A call of M = 128, N = 128 with contiguous tensors."));
}
