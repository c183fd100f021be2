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
        // A roofline for each target, and what the simulator counts.
        "<div class=\"roofline\" data-target=\"sm_90\">",
        "Sectors are 32 bytes of global memory",
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
    // What the page is after its scripts have run.
    let open = |name: &str, fragment: &str| {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
            .args(["--disable-sync", "--dump-dom"])
            .arg(format!("--user-data-dir={}", demo.root().join("browser").display()))
            .arg(format!("file://{}{fragment}", demo.root().join(name).display()))
            .output()
            .expect("the browser runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let start = page.find("class=\"edge refused\"").expect("an edge that is refused");
    let decision = page[start..].split("data-decision=\"").nth(1).and_then(|rest| rest.split('"').next());
    let decision = decision.expect("its decision");
    let opened = format!("id=\"{decision}\" open=\"\"");
    let edges = |text: &str| text.matches("class=\"edge").count();

    let untouched = open("page.html", "");
    assert_eq!(edges(&untouched), edges(&page));
    assert!(!untouched.contains(" open=\"\"") && !untouched.contains(" chosen\""), "{untouched}");

    // A link opens the decision and marks its edge.
    let linked = open("page.html", &format!("#{decision}"));
    assert!(linked.contains(&opened) && linked.contains("class=\"edge refused chosen\""), "{linked}");

    // So do the key that one presses on the edge, and a click; another target shows its roofline.
    for event in [
        "new KeyboardEvent('keydown', { key: 'Enter', bubbles: true })",
        "new MouseEvent('click', { bubbles: true })",
    ] {
        let script = format!(
            "<script>const edge = document.querySelector('.edge.refused'); edge.focus(); \
             document.title = String(document.activeElement === edge); edge.dispatchEvent({event}); \
             const select = document.querySelector('select'); select.value = 'sm_80'; \
             select.dispatchEvent(new Event('change'));</script></body>"
        );
        demo.write("used.html", &page.replace("</body>", &script));
        let used = open("used.html", "");
        assert!(used.contains("<title>true</title>"), "the edge takes no focus: {used}");
        assert!(used.contains(&opened) && used.contains("class=\"edge refused chosen\""), "{event}: {used}");
        assert!(used.contains("data-target=\"sm_90\" hidden=\"\""), "{used}");
        assert!(used.contains("data-target=\"sm_80\">"), "{used}");
    }
}
