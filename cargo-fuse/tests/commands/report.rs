//! The page, made of a crate, and opened in a browser where there is one.

use super::crates::Crate;
use std::process::Command;

const LIBRARY: &str = "\
fuse::fuse! {
    /// Rows of unit length.
    #[kernel]
    pub fn normalise<M, N>(x: Tensor<f32, M, N>, eps: f32) -> Tensor<f32, M, N> {
        let y = x.square().materialize();
        x * (y.sum(N) + eps).rsqrt()
    }
}
";

#[test]
fn the_page_shows_what_is_written_and_what_is_generated() {
    let demo = Crate::new("report", LIBRARY);
    let path = demo.root().join("page.html");
    let said = demo.fuse("report --out page.html --target sm_90").ok();
    assert_eq!(said, format!("1 kernel in {}\n", path.display()));
    let page = demo.read("page.html");
    for text in [
        "   4     pub fn normalise&lt;M, N&gt;(x: Tensor&lt;f32, M, N&gt;, eps: f32)",
        "fn g0_sweep0_body",
        "extern &quot;C&quot; __global__",
        "<option selected=\"selected\">sm_90</option>",
        "--&gt; src/lib.rs:6:14",
        "class=\"edge refused\"",
    ] {
        assert!(page.contains(text), "no {text} in the page");
    }

    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let Some(browser) =
        browsers.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
    else {
        println!("skipped: no Chromium to open the page in");
        return;
    };
    let decision =
        page.split("data-decision=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an edge");
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-sync",
        ])
        .arg(format!("--user-data-dir={}", demo.root().join("browser").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}#{decision}", path.display()))
        .output()
        .expect("the browser runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    // The link opens the decision and marks its edge.
    assert!(dom.contains(&format!("id=\"{decision}\" open=\"\"")), "{dom}");
    assert!(dom.contains("chosen\""), "{dom}");
    assert_eq!(dom.matches("class=\"edge").count(), page.matches("class=\"edge").count());
}
