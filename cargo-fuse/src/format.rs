//! `cargo fuse fmt`: the insides of `fuse! { .. }` blocks, which rustfmt leaves alone.
//!
//! What stands in a block is the syntax of Rust's items. So it is given to rustfmt as the contents of modules, as many as the
//! block is indented, and what comes back takes its place. It is taken only if it has the same tokens, but for commas at the
//! end of lists, and the same comments.

use crate::arguments::FormatArguments;
use crate::build::{Package, list_packages};
use crate::failure::{Failure, Outcome};
use crate::units::count;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs the command.
///
/// # Errors
/// If a block is not formatted and may not be changed, or cannot be formatted.
pub(crate) fn run(arguments: &FormatArguments) -> Outcome {
    let files = match arguments.files.is_empty() {
        true => list_files(&list_packages(&arguments.cargo)?)?,
        false => arguments.files.iter().map(|file| (file.clone(), arguments.edition.clone())).collect(),
    };
    let (mut text, mut changed, mut left) = (String::new(), 0, 0);
    for (path, edition) in files {
        let unreadable =
            |error| Failure::broken(format!("`{}` cannot be read or written: {error}", path.display()));
        let source = std::fs::read_to_string(&path).map_err(unreadable)?;
        // Most files have none, and need not be taken apart.
        if !source.contains("fuse!") {
            continue;
        }
        let Formatted { source: new, blocks, problems } = format_file(&source, &path, &edition);
        for (line, problem) in &problems {
            let _ = writeln!(text, "{}:{line}: left as it is: {problem}", path.display());
        }
        for line in &blocks {
            let word = if arguments.check { "not formatted" } else { "formatted" };
            let _ = writeln!(text, "{}:{line}: {word}", path.display());
        }
        (changed, left) = (changed + blocks.len(), left + problems.len());
        if !arguments.check && new != source {
            std::fs::write(&path, new).map_err(unreadable)?;
        }
    }
    if left > 0 {
        let what = count(left, "block is left as it is", "blocks are left as they are");
        return Err(Failure::broken(what).with_text(text));
    }
    if arguments.check && changed > 0 {
        let what = count(changed, "block is not formatted", "blocks are not formatted");
        return Err(Failure::found(format!("{what}; `cargo fuse fmt` formats them")).with_text(text));
    }
    Ok(text)
}

/// The Rust files of packages with their editions: all in their folders, but for other packages, target and hidden folders.
fn list_files(packages: &[Package]) -> Result<Vec<(PathBuf, String)>, Failure> {
    let mut files = Vec::new();
    for Package { folder, edition } in packages {
        let mut found = Vec::new();
        walk(folder, &mut found)
            .map_err(|error| Failure::broken(format!("`{}` cannot be read: {error}", folder.display())))?;
        files.extend(found.into_iter().map(|path| (path, edition.clone())));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        if kind.is_dir() {
            let is_other = path.join("Cargo.toml").exists() || path.join("CACHEDIR.TAG").exists();
            if !is_other && name != "target" && !name.to_string_lossy().starts_with('.') {
                walk(&path, found)?;
            }
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// A file with its blocks formatted.
struct Formatted {
    source: String,
    /// The lines of the blocks that changed.
    blocks: Vec<usize>,
    /// The lines of those that are left, with what is wrong.
    problems: Vec<(usize, String)>,
}

fn format_file(source: &str, path: &Path, edition: &str) -> Formatted {
    let mut formatted = Formatted { source: source.to_owned(), blocks: Vec::new(), problems: Vec::new() };
    // Positions are counted without a mark of the byte order.
    let skipped = source.len() - source.trim_start_matches('\u{feff}').len();
    let tokens: TokenStream = match source[skipped..].parse() {
        Ok(tokens) => tokens,
        Err(error) => {
            formatted.problems.push((1, format!("the file is not Rust: {error}")));
            return formatted;
        }
    };
    let mut blocks = Vec::new();
    find_blocks(tokens, &mut blocks);
    // From the last to the first, so that places stay what they are.
    for inside in blocks.into_iter().rev() {
        let inside = inside.start + skipped..inside.end + skipped;
        let line = source[..inside.start].matches('\n').count() + 1;
        let Some(old) = source.get(inside.clone()) else { continue };
        match format_block(old, indentation(source, inside.start), path, edition) {
            Ok(new) if new == old => {}
            Ok(new) => {
                formatted.source.replace_range(inside, &new);
                formatted.blocks.push(line);
            }
            Err(problem) => formatted.problems.push((line, problem)),
        }
    }
    formatted.blocks.reverse();
    formatted.problems.reverse();
    formatted
}

/// The bytes between the braces of each block. Blocks of a `macro_rules!` with its variables are no Rust before it is called.
fn find_blocks(tokens: TokenStream, blocks: &mut Vec<Range<usize>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (k, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let is_block = matches!(tokens[..k].last_chunk(), Some([TokenTree::Ident(name), TokenTree::Punct(bang)])
            if name == "fuse" && bang.as_char() == '!');
        if !is_block || group.delimiter() != Delimiter::Brace {
            find_blocks(group.stream(), blocks);
        } else if !has_variables(group) {
            blocks.push(group.span_open().byte_range().end..group.span_close().byte_range().start);
        }
    }
}

fn has_variables(group: &Group) -> bool {
    group.stream().into_iter().any(|token| match token {
        TokenTree::Group(group) => has_variables(&group),
        TokenTree::Punct(punct) => punct.as_char() == '$',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    })
}

/// The blanks at the start of the line of a place.
fn indentation(source: &str, place: usize) -> &str {
    let start = source[..place].rfind('\n').map_or(0, |at| at + 1);
    let line = &source[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// The inside of a block, formatted. `indent` stands before the line that opens it.
///
/// # Errors
/// Why it is better left as it is.
fn format_block(old: &str, indent: &str, path: &Path, edition: &str) -> Result<String, String> {
    let depth = 1 + indent.chars().map(|c| if c == '\t' { 4 } else { 1 }).sum::<usize>() / 4;
    let mut input = "mod fuse_block {\n".repeat(depth);
    input += old.trim();
    input += &"\n}".repeat(depth);
    let output = run_rustfmt(&input, path, edition)?;
    let lines: Vec<&str> = output.lines().collect();
    let inside = lines.len().checked_sub(2 * depth).map(|_| &lines[depth..lines.len() - depth]);
    // A block of nothing is `mod fuse_block {}` on one line.
    let inside = inside.unwrap_or_default();
    let mut new = String::from("\n");
    for line in inside {
        new.push_str(line);
        new.push('\n');
    }
    new.push_str(indent);
    if inside.is_empty() {
        new = String::new();
    }
    if old.contains("\r\n") {
        new = new.replace('\n', "\r\n");
    }
    if !has_same_tokens(old, &new) || !has_same_characters(old, &new) {
        return Err("rustfmt would change more than the layout".to_owned());
    }
    Ok(new)
}

fn run_rustfmt(input: &str, path: &Path, edition: &str) -> Result<String, String> {
    // The settings are those of the folder.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let settings =
        "reorder_imports=false,reorder_modules=false,merge_derives=false,remove_nested_parens=false";
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", edition, "--quiet", "--emit", "stdout", "--config", settings])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            format!("rustfmt does not start: {error}; `rustup component add rustfmt` adds it")
        })?;
    let pipe = rustfmt.stdin.take();
    let text = input.to_owned();
    // It may write before it has read everything.
    let writer = std::thread::spawn(move || pipe.map(|mut pipe| pipe.write_all(text.as_bytes())));
    let output = rustfmt.wait_with_output().map_err(|error| format!("rustfmt does not end: {error}"))?;
    let _ = writer.join();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason is given");
        return Err(format!("rustfmt does not read it: {first}"));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("rustfmt writes no text: {error}"))
}

/// Whether two texts are the same to the compiler. The formatter adds and takes commas at the end of lists.
fn has_same_tokens(old: &str, new: &str) -> bool {
    let (Ok(old), Ok(new)) = (old.parse::<TokenStream>(), new.parse::<TokenStream>()) else { return false };
    let list = |tokens| {
        let mut list = Vec::new();
        list_tokens(tokens, &mut list);
        list
    };
    list(old) == list(new)
}

fn list_tokens(tokens: TokenStream, list: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (k, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                list.push(format!("{:?}", group.delimiter()));
                list_tokens(group.stream(), list);
                list.push("end".to_owned());
            }
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                let ends = match tokens.get(k + 1) {
                    None => true,
                    Some(TokenTree::Punct(next)) => next.as_char() == '>',
                    Some(TokenTree::Group(_) | TokenTree::Ident(_) | TokenTree::Literal(_)) => false,
                };
                // An arm of a match that is a block needs none.
                let after_block = matches!(&tokens[..k].last(), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace);
                if !ends && !after_block {
                    list.push(",".to_owned());
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => list.push(token.to_string()),
        }
    }
}

/// Whether two texts, comments included, differ in blanks and commas alone.
fn has_same_characters(old: &str, new: &str) -> bool {
    let characters =
        |text: &str| -> String { text.chars().filter(|c| !c.is_whitespace() && *c != ',').collect() };
    characters(old) == characters(new)
}

#[cfg(test)]
mod tests {
    use super::{Formatted, format_file};
    use std::path::Path;

    fn format(source: &str) -> Formatted {
        format_file(source, &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/x.rs"), "2024")
    }

    /// The source becomes the expected one, which stays as it is.
    #[track_caller]
    fn check(source: &str, expected: &str) {
        let formatted = format(source);
        assert_eq!((formatted.source.as_str(), formatted.problems), (expected, vec![]));
        assert_eq!(formatted.blocks.is_empty(), source == expected);
        assert_eq!(format(expected).source, expected);
    }

    #[test]
    fn blocks_are_formatted_and_nothing_else() {
        check(
            "fn  f( ) {}\nfuse::fuse! {\n  // A comment.\n#[kernel( launches=1 )]\n /// Docs.\n\
             pub fn k<M,N>(x:Tensor<f32,M,N>)->Tensor<f32,M,N>{ x+1.0 /* inside */ }\n\n\n const A:f32=2.0;}\n",
            "fn  f( ) {}\nfuse::fuse! {\n    // A comment.\n    #[kernel(launches = 1)]\n    /// Docs.\n    \
             pub fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {\n        x + 1.0 /* inside */\n    }\n\n    \
             const A: f32 = 2.0;\n}\n",
        );
    }

    #[test]
    fn a_block_keeps_to_the_place_where_it_stands() {
        let inner = "fuse! {\n            fn c<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {\n                x\n            }\n        }";
        check(
            "mod m {\n    fn f() {\n        fuse! { fn c<N>(x: Tensor<f32,N>) -> Tensor<f32,N> { x } }\n    }\n}\n",
            &format!("mod m {{\n    fn f() {{\n        {inner}\n    }}\n}}\n"),
        );
        check("fuse! {}\n", "fuse! {}\n");
        check("fuse! {\n}\n", "fuse! {}\n");
        check(
            "// fuse! { not code }\nconst S: &str = \"fuse! { nor this }\";\n",
            "// fuse! { not code }\nconst S: &str = \"fuse! { nor this }\";\n",
        );
    }

    #[test]
    fn ends_of_lines_and_marks_of_order_stay() {
        check(
            "\u{feff}fuse! {\r\nconst A:f32=1.0;\r\n}\r\n",
            "\u{feff}fuse! {\r\n    const A: f32 = 1.0;\r\n}\r\n",
        );
        check(
            "const Ä: &str = \"ä\"; fuse! {const A:f32=1.0;}\n",
            "const Ä: &str = \"ä\"; fuse! {\n    const A: f32 = 1.0;\n}\n",
        );
    }

    #[test]
    fn blocks_of_a_macro_with_variables_are_left() {
        let source = "macro_rules! m { ($n:ident) => { fuse! { #[op]   fn $n(x: f32) -> f32 { x } } } }\n";
        check(source, source);
    }

    #[test]
    fn what_rustfmt_does_not_read_is_left_and_said() {
        let source = "\nfuse! { fn k( { }\n\nfuse! {const A:f32=1.0;}\n";
        assert!(format(source).problems[0].1.starts_with("the file is not Rust"));
        let source = "\nfuse! { fn k(x) -> }\nfuse! {const A:f32=1.0;}\n";
        let formatted = format(source);
        assert_eq!(formatted.source, "\nfuse! { fn k(x) -> }\nfuse! {\n    const A: f32 = 1.0;\n}\n");
        assert_eq!((formatted.blocks, formatted.problems.len()), (vec![3], 1));
        assert_eq!(formatted.problems[0].0, 2);
        assert!(
            formatted.problems[0].1.starts_with("rustfmt does not read it: error"),
            "{:?}",
            formatted.problems
        );
    }

    #[test]
    fn tokens_are_never_changed() {
        use super::{has_same_characters, has_same_tokens};
        assert!(has_same_tokens("f(a, b,)", "f(\n a,\n b\n)"));
        assert!(has_same_tokens("match x { 1 => {}, _ => {} }", "match x { 1 => {} _ => {} }"));
        assert!(!has_same_tokens("f(a, b)", "f(a b)"));
        assert!(!has_same_tokens("(x)", "x"));
        assert!(!has_same_characters("a // b", "a"));
    }
}
