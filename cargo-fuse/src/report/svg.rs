//! What the drawings share.

/// A text as the contents of an element or of a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // No document may have them.
            c if c.is_control() && !matches!(c, '\n' | '\t' | '\r') => {
                escaped.push(char::REPLACEMENT_CHARACTER)
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// A text cut to a number of characters.
pub(super) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let cut: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::{escape, shorten};

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("a < b && \"c\"\u{1b}"), "a &lt; b &amp;&amp; &quot;c&quot;\u{fffd}");
        assert_eq!([shorten("x.sum(N)", 8), shorten("x.sum(N) + 1", 8)], ["x.sum(N)", "x.sum(N…"]);
    }
}
