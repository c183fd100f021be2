//! Errors in the user's program: what is wrong, where, why, and how to mend it.
//!
//! A pass reports and goes on, so that one build shows every independent mistake; a stage ends by asking
//! [`Diagnostics::is_empty`]. What could not be given a meaning is an `Err(`[`Reported`]`)`: only reporting makes one, and
//! whoever meets it stays silent, so that one mistake gives one error.
//!
//! Stable Rust lets a macro show one message at one place. The text is therefore the message, an empty line, and then
//! `note:` and `help:` lines; other places stand in notes as `file:line:column`.

pub mod messages;

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;
use std::fmt;

/// A stretch of source, from its first token to its last.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The first token.
    pub start: Span,
    /// The last token.
    pub end: Span,
    /// For a call of an item from another block or crate: the place within that item that is meant.
    pub within: Option<Span>,
}

impl Place {
    /// Where a piece of syntax stands.
    pub fn of(tokens: &impl ToTokens) -> Place {
        let mut tokens = tokens.to_token_stream().into_iter();
        let start = tokens.next().map_or_else(Span::call_site, |token| token.span());
        Place { start, end: tokens.last().map_or(start, |token| token.span()), within: None }
    }

    /// From the start of one place to the end of another.
    pub fn to(self, end: Place) -> Place {
        Place { start: self.start, end: end.end, within: self.within }
    }
}

impl From<Span> for Place {
    fn from(span: Span) -> Place {
        Place { start: span, end: span, within: None }
    }
}

/// A position that can be written down.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location {
    /// The file, as rustc names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl Location {
    /// Where a span starts. `None` outside a macro, where spans carry no position.
    pub fn of(span: Span) -> Option<Location> {
        if proc_macro::is_available() {
            return Some(Location::at(span.unwrap().start()));
        }
        locate_outside_macro(span).map(|(start, _)| start)
    }

    /// Where a span ends: after its last character. `None` outside a macro.
    pub fn end_of(span: Span) -> Option<Location> {
        if proc_macro::is_available() {
            return Some(Location::at(span.unwrap().end()));
        }
        locate_outside_macro(span).map(|(_, end)| end)
    }

    fn at(span: proc_macro::Span) -> Location {
        Location { file: span.file(), line: span.line() as u32, column: span.column() as u32 }
    }
}

/// Unit tests build proc-macro2 with positions; nothing else does, since tracking them costs time.
#[cfg(test)]
fn locate_outside_macro(span: Span) -> Option<(Location, Location)> {
    let at = |place: proc_macro2::LineColumn| Location {
        file: span.file(),
        line: place.line as u32,
        column: place.column as u32 + 1,
    };
    Some((at(span.start()), at(span.end())))
}

#[cfg(not(test))]
fn locate_outside_macro(_: Span) -> Option<(Location, Location)> {
    None
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One error. Made by the constructors in [`messages`] only.
#[derive(Clone, Debug)]
#[must_use = "an error that nobody reports is lost"]
pub struct Diagnostic {
    /// The name of the constructor, by which tests find the error.
    pub code: &'static str,
    /// What is wrong: lower case, no full stop.
    pub message: Box<str>,
    /// Where it is wrong. What stands there is for the message to say: no label can be shown beside it.
    pub primary: Place,
    /// Other places that matter, with what stands there.
    pub related: Vec<(Span, String)>,
    /// Facts that explain the message.
    pub notes: Vec<String>,
    /// How to mend it.
    pub help: Option<Box<str>>,
}

impl Diagnostic {
    /// An error with a message alone.
    fn new(code: &'static str, at: impl Into<Place>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            message: message.into().into(),
            primary: at.into(),
            related: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// Adds another place.
    fn related(mut self, span: Span, label: impl Into<String>) -> Diagnostic {
        self.related.push((span, label.into()));
        self
    }

    /// Adds a fact.
    fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// Says how to mend it.
    fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into().into());
        self
    }

    /// The same error at another place, with a note that says why: what it is about lies where nobody can point.
    pub(crate) fn moved_to(mut self, place: Place, note: impl Into<String>) -> Diagnostic {
        self.primary = place;
        self.related.clear();
        self.note(note)
    }

    /// The same error at the call of an imported item, with a note that names the place within it: rustc shows places in
    /// other crates at the call.
    pub(crate) fn inside_import(self, call: Place, name: &str) -> Diagnostic {
        let inner = self.primary.within.unwrap_or(self.primary.start);
        let inner = Location::of(inner).map_or_else(String::new, |inner| format!(": {inner}"));
        self.moved_to(Place { within: None, ..call }, format!("this arises in the body of `{name}`{inner}"))
    }

    /// The text that rustc shows.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        if let Some(location) = self.primary.within.and_then(Location::of) {
            lines.push(format!("note: the operation stands in an item that is called here: {location}"));
        }
        for (span, label) in &self.related {
            lines.push(match Location::of(*span) {
                Some(location) => format!("note: {label}: {location}"),
                None => format!("note: {label}"),
            });
        }
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines.extend(self.help.iter().map(|help| format!("help: {help}")));
        if lines.is_empty() {
            self.message.to_string()
        } else {
            format!("{}\n\n{}", self.message, lines.join("\n"))
        }
    }

    /// A `compile_error!` item at the primary place.
    pub fn to_compile_error(&self) -> TokenStream {
        let Place { start, end, .. } = self.primary;
        let at = |mut token: TokenTree, span: Span| {
            token.set_span(span);
            token
        };
        let punct = |c, spacing| at(Punct::new(c, spacing).into(), start);
        let ident = |name| TokenTree::from(Ident::new(name, start));
        let text = at(Literal::string(&self.text()).into(), end);
        // rustc underlines from the first token of the macro call to the last.
        TokenStream::from_iter([
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            ident("core"),
            punct(':', Spacing::Joint),
            punct(':', Spacing::Alone),
            ident("compile_error"),
            punct('!', Spacing::Alone),
            at(Group::new(Delimiter::Brace, text.into()).into(), end),
        ])
    }
}

/// Proof that an error was reported, in place of the value that could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reported(());

impl Reported {
    /// For whoever meets the mark that a pass left when it reported, such as the name of an item with errors.
    pub(crate) fn before() -> Reported {
        Reported(())
    }
}

/// The errors found so far.
#[derive(Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    seen: BTreeSet<String>,
}

impl Diagnostics {
    /// An empty list.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Takes an error. The same text at the same place is kept once: generic kernels are checked once for each dtype.
    pub fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        let place = diagnostic.primary;
        if self.seen.insert(format!("{:?} {:?} {}", place.start, place.end, diagnostic.text())) {
            self.list.push(diagnostic);
        }
        Reported(())
    }

    /// Takes the errors of a part. Those of an imported item, of which the call and the name are given, are moved to the call.
    pub(crate) fn report_inside<T>(
        &mut self,
        import: Option<(Place, &str)>,
        part: impl FnOnce(&mut Diagnostics) -> T,
    ) -> T {
        let Some((call, name)) = import else { return part(self) };
        let mut inner = Diagnostics::new();
        let value = part(&mut inner);
        for diagnostic in inner.list {
            self.report(diagnostic.inside_import(call, name));
        }
        value
    }

    /// Takes what syn has to say; it may be several errors.
    pub fn report_syntax(&mut self, error: syn::Error) -> Reported {
        for error in error {
            self.report(messages::syntax(&error));
        }
        Reported(())
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The errors in the order of their report.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// One `compile_error!` item for each error.
    pub fn to_compile_errors(&self) -> TokenStream {
        self.list.iter().map(Diagnostic::to_compile_error).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn example(tokens: &TokenStream) -> Diagnostic {
        Diagnostic::new("example", Place::of(tokens), "`a` cannot be added to `b`")
    }

    #[test]
    fn text_is_message_then_notes_then_help() {
        let tokens = quote!(a + b);
        assert_eq!(example(&tokens).text(), "`a` cannot be added to `b`");
        let full = example(&tokens).note("this is `f32`").note("integers never widen").help("cast one side");
        assert_eq!(
            full.text(),
            "`a` cannot be added to `b`\n\nnote: this is `f32`\nnote: integers never widen\nhelp: cast one side"
        );
    }

    #[test]
    fn other_places_are_written_down() {
        let tokens: TokenStream = "one\n  two".parse().expect("tokens");
        let two = tokens.into_iter().nth(1).expect("a token").span();
        let text = example(&quote!(a)).related(two, "first defined here").text();
        let (_, note) = text.split_once("\n\n").expect("a note");
        assert!(note.starts_with("note: first defined here: "), "{note}");
        assert!(note.ends_with(":2:3"), "{note}");
    }

    #[test]
    fn an_error_becomes_a_macro_call_over_its_place() {
        let tokens: TokenStream = "a + b".parse().expect("tokens");
        let error = example(&tokens).to_compile_error();
        assert!(syn::parse2::<syn::ItemMacro>(error.clone()).is_ok(), "{error}");
        let spans: Vec<_> = error.into_iter().map(|token| token.span().start().column).collect();
        assert_eq!((spans.first(), spans.last()), (Some(&0), Some(&4)));
    }

    #[test]
    fn a_repeated_error_is_kept_once() {
        let tokens: TokenStream = "a + b".parse().expect("tokens");
        let mut diagnostics = Diagnostics::new();
        assert!(diagnostics.is_empty());
        diagnostics.report(example(&tokens));
        diagnostics.report(example(&tokens));
        diagnostics.report(example(&tokens).help("cast one side"));
        assert_eq!(diagnostics.iter().count(), 2);
        assert!(!diagnostics.is_empty());
    }

    #[test]
    fn syntax_errors_keep_their_text() {
        let mut error = syn::Error::new(Span::call_site(), "expected `,`");
        error.combine(syn::Error::new(Span::call_site(), "expected an identifier"));
        let mut diagnostics = Diagnostics::new();
        diagnostics.report_syntax(error);
        let texts: Vec<_> = diagnostics.iter().map(Diagnostic::text).collect();
        assert_eq!(texts, ["expected `,`", "expected an identifier"]);
    }
}
