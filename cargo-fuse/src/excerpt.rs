//! Messages with excerpts of the source, as rustc shows its own.

use crate::source::{Sources, find_bytes};
use annotate_snippets::{Annotation, AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};
use fuse_compiler::record::SourceRange;
use std::io::IsTerminal;
use std::ops::Range;
use std::path::Path;

/// What a message says of its subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Something is as one wants it.
    Fused,
    /// Something is not, for a reason.
    Refused,
    /// What it costs to keep to a number of launches.
    Contract,
    /// Something that was so no longer is.
    Lost,
}

impl Verdict {
    fn level(self) -> Level<'static> {
        match self {
            Verdict::Fused => Level::INFO.with_name("fused"),
            Verdict::Refused => Level::WARNING.with_name("refused"),
            Verdict::Contract => Level::NOTE.with_name("contract"),
            Verdict::Lost => Level::ERROR.with_name("lost"),
        }
    }
}

/// A place with what stands there.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Mark {
    pub(crate) place: SourceRange,
    pub(crate) label: String,
}

/// A message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Message {
    pub(crate) verdict: Verdict,
    pub(crate) title: String,
    /// The place that it is about first.
    pub(crate) marks: Vec<Mark>,
    pub(crate) notes: Vec<String>,
    pub(crate) help: Option<String>,
}

impl Message {
    /// The message as text. Names of files start at `directory`; of a file that cannot be read the place is named.
    pub(crate) fn render(&self, sources: &mut Sources, directory: &Path, style: Style) -> String {
        let mut group = Group::with_title(self.verdict.level().primary_title(&self.title));
        let mut files: Vec<&str> = Vec::new();
        for mark in &self.marks {
            if !files.contains(&mark.place.file.as_str()) {
                files.push(&mark.place.file);
            }
        }
        let first = self.marks.first();
        for file in files {
            let marks = self.marks.iter().filter(|mark| mark.place.file == file);
            let text = sources.text(directory, file).unwrap_or_default().to_owned();
            let found = marks.clone().filter_map(|mark| Some((mark, find_bytes(&text, &mark.place)?)));
            let mut found: Vec<(&Mark, Range<usize>)> = found.collect();
            if let [(_, outer), (_, inner)] = found.as_mut_slice() {
                *outer = without_inner(&text, outer, inner);
            }
            let annotations = found.into_iter().map(|(mark, bytes)| {
                let is_first = first.is_some_and(|first| std::ptr::eq(first, mark));
                let kind = if is_first { AnnotationKind::Primary } else { AnnotationKind::Context };
                let annotation = kind.span(bytes);
                if mark.label.is_empty() { annotation } else { annotation.label(&mark.label) }
            });
            let annotations: Vec<Annotation<'_>> = annotations.collect();
            let element: Element<'_> = match annotations.is_empty() {
                false => Snippet::source(text).path(file).annotations(annotations).into(),
                true => {
                    let origin = Origin::path(file);
                    match marks.clone().next() {
                        Some(mark) => origin
                            .line(mark.place.line as usize)
                            .char_column(mark.place.column as usize)
                            .into(),
                        None => origin.into(),
                    }
                }
            };
            group = group.element(element);
        }
        for note in &self.notes {
            group = group.element(Level::NOTE.message(note));
        }
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Terminal => Renderer::styled(),
        };
        renderer.render(&[group]) + "\n"
    }
}

/// The part of an expression that does not belong to its operand: what follows it, as `.sum(N)`, else what stands before, as
/// `x *`. So the two can be told apart where they start together.
fn without_inner(text: &str, outer: &Range<usize>, inner: &Range<usize>) -> Range<usize> {
    let nested = outer.start <= inner.start && inner.end <= outer.end;
    let (Some(after), Some(before)) = (text.get(inner.end..outer.end), text.get(outer.start..inner.start))
    else {
        return outer.clone();
    };
    let bracket = |c: char| c.is_whitespace() || matches!(c, '(' | ')');
    let rest = after.trim_start_matches(bracket);
    if !nested {
        outer.clone()
    } else if !rest.is_empty() {
        outer.end - rest.len()..outer.end
    } else {
        let rest = before.trim_end_matches(bracket);
        if rest.is_empty() { outer.clone() } else { outer.start..outer.start + rest.len() }
    }
}

/// Whether there are colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// None.
    Plain,
    /// Those of a terminal.
    Terminal,
}

impl Style {
    /// What the standard output takes.
    pub(crate) fn of_output() -> Style {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if wanted && std::io::stdout().is_terminal() { Style::Terminal } else { Style::Plain }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, Message, Style, Verdict, without_inner};
    use crate::source::Sources;
    use fuse_compiler::record::SourceRange;
    use std::path::Path;

    #[test]
    fn an_operand_is_told_apart_from_what_reads_it() {
        for (text, inner, rest) in [
            ("x.square().sum(N)", "x.square()", ".sum(N)"),
            ("(y + 1.0).sqrt()", "y + 1.0", ".sqrt()"),
            ("x * (y + 1.0)", "y + 1.0", "x *"),
            ("x * w", "x", "* w"),
            ("(x)", "x", "(x)"),
        ] {
            let start = text.find(inner).expect("the operand");
            let outer = without_inner(text, &(0..text.len()), &(start..start + inner.len()));
            assert_eq!(&text[outer], rest, "{text}");
        }
        assert_eq!(without_inner("a b c", &(0..1), &(2..3)), 0..1);
    }

    fn place(file: &str, line: u32, columns: (u32, u32)) -> SourceRange {
        SourceRange { file: file.into(), line, column: columns.0, end_line: line, end_column: columns.1 }
    }

    #[test]
    fn a_message_shows_its_places() {
        let mark = |place, label: &str| Mark { place, label: label.into() };
        let message = Message {
            verdict: Verdict::Refused,
            title: "`a` into `b` (vertical: slower)".into(),
            marks: vec![
                mark(place("src/units.rs", 1, (5, 12)), "read here"),
                mark(place("no/such/file.rs", 3, (5, 9)), "computed here"),
            ],
            notes: vec!["a note".into()],
            help: Some("a remedy".into()),
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = message.render(&mut Sources::default(), root, Style::Plain);
        let expected = "\
refused: `a` into `b` (vertical: slower)
 --> src/units.rs:1:5
  |
1 | //! Numbers for people.
  |     ^^^^^^^ read here
 ::: no/such/file.rs:3:5
  = note: a note
  = help: a remedy
";
        assert_eq!(text, expected);
        assert!(message.render(&mut Sources::default(), root, Style::Terminal).contains('\u{1b}'));
    }
}
