//! XML answers.

use quick_xml::escape::escape;

/// An XML element of an answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Xml {
    /// The element's name.
    pub name: &'static str,
    /// The element's text; elements have text or children, not both.
    pub text: Option<String>,
    /// The element's children.
    pub children: Vec<Self>,
    /// Raw data in place of a document: a snapshot's block.
    pub data: Vec<u8>,
}

/// Without raw data.
impl std::fmt::Debug for Xml {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Xml")
            .field("name", &self.name)
            .field("text", &self.text)
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}

impl Xml {
    /// `<name>text</name>`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "some hundred callers read better without a reference"
    )]
    pub fn text(name: &'static str, text: impl ToString) -> Self {
        Self {
            name,
            text: Some(text.to_string()),
            children: Vec::new(),
            data: Vec::new(),
        }
    }

    /// An element of raw data.
    #[must_use]
    pub fn data(name: &'static str, data: Vec<u8>) -> Self {
        Self {
            data,
            ..Self::node(name, [])
        }
    }

    /// `<name>children…</name>`.
    pub fn node(name: &'static str, children: impl IntoIterator<Item = Self>) -> Self {
        Self {
            name,
            text: None,
            children: children.into_iter().collect(),
            data: Vec::new(),
        }
    }

    /// `<name><item>…</item><item>…</item></name>`, EC2's way of writing a list.
    pub fn list(name: &'static str, items: impl IntoIterator<Item = Vec<Self>>) -> Self {
        Self::node(name, items.into_iter().map(|item| Self::node("item", item)))
    }

    /// The document with this element at its root, in the namespace `xmlns` if there is one.
    pub(super) fn document(&self, xmlns: Option<&str>) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        self.write(xmlns, &mut out);
        out
    }

    fn write(&self, xmlns: Option<&str>, out: &mut String) {
        out.push('<');
        out.push_str(self.name);
        if let Some(xmlns) = xmlns {
            out.push_str(" xmlns=\"");
            out.push_str(&escape(xmlns));
            out.push('"');
        }
        out.push('>');
        if let Some(text) = &self.text {
            write_text(text, out);
        }
        for child in &self.children {
            child.write(None, out);
        }
        out.push_str("</");
        out.push_str(self.name);
        out.push('>');
    }
}

/// A reader takes a bare carriage return for a line end (XML 1.0, section 2.11), so it is written
/// as a reference. What XML cannot carry becomes U+FFFD; requests with it are refused
/// ([`is_carried`]), so this changes only messages of this computer, such as a failed mount's.
fn write_text(text: &str, out: &mut String) {
    if text.chars().all(|c| is_carried(c) && c != '\r') {
        out.push_str(&escape(text));
        return;
    }
    for character in text.chars() {
        match character {
            '\r' => out.push_str("&#13;"),
            c if is_carried(c) => out.push_str(&escape(c.encode_utf8(&mut [0; 4]) as &str)),
            _ => out.push(char::REPLACEMENT_CHARACTER),
        }
    }
}

/// Whether XML can carry the character (XML 1.0, section 2.2).
pub(super) fn is_carried(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::Xml;

    #[test]
    fn markup_in_text_stays_text() {
        let xml = Xml::node("tag", [Xml::text("value", "<a b='c'>&amp;</a>\r\n\u{1}")]);
        assert_eq!(
            xml.document(Some("urn:x")),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<tag xmlns=\"urn:x\"><value>\
             &lt;a b=&apos;c&apos;&gt;&amp;amp;&lt;/a&gt;&#13;\n\u{fffd}</value></tag>"
        );
    }

    #[test]
    fn a_list_is_made_of_items() {
        let xml = Xml::list("set", [vec![Xml::text("id", 1)], vec![]]);
        assert!(
            xml.document(None)
                .ends_with("<set><item><id>1</id></item><item></item></set>")
        );
    }
}
