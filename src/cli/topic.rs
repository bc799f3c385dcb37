//! The topics of `xdrive help`: a Markdown file each, as text for a pager and as a manual page.

use std::fmt::Write as _;

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

/// A topic.
#[derive(Debug)]
pub(super) struct Topic {
    /// The word that the user types.
    pub(super) name: &'static str,
    /// The topic's subject, in some words.
    pub(super) about: &'static str,
    markdown: &'static str,
}

/// All topics, in the order in which they are listed.
pub(super) const TOPICS: [Topic; 16] = [
    Topic {
        name: "aws",
        about: "credentials, rights, what is launched, GPUs, trust",
        markdown: include_str!("topics/aws.md"),
    },
    Topic {
        name: "money",
        about: "what instances, volumes and snapshots cost",
        markdown: include_str!("topics/money.md"),
    },
    Topic {
        name: "first-touch",
        about: "what is slow at first, and what hosts fetch before that",
        markdown: include_str!("topics/first-touch.md"),
    },
    Topic {
        name: "endings",
        about: "how a session ends, and what is saved",
        markdown: include_str!("topics/endings.md"),
    },
    Topic {
        name: "unattended",
        about: "runs that go on for weeks with no laptop there",
        markdown: include_str!("topics/unattended.md"),
    },
    Topic {
        name: "freeze",
        about: "commands that go on, where they were, on another instance",
        markdown: include_str!("topics/freeze.md"),
    },
    Topic {
        name: "shares",
        about: "a folder that many machines and a cluster have at once",
        markdown: include_str!("topics/shares.md"),
    },
    Topic {
        name: "workers",
        about: "a computation on several machines, and their network",
        markdown: include_str!("topics/workers.md"),
    },
    Topic {
        name: "network",
        about: "who may log in, private subnets, ports, proxies",
        markdown: include_str!("topics/network.md"),
    },
    Topic {
        name: "container",
        about: "its image or the folder for it, mounts, Docker, several",
        markdown: include_str!("topics/container.md"),
    },
    Topic {
        name: "tools",
        about: "cp, sync, ssh, scp, rsync, git, VS Code; variables",
        markdown: include_str!("topics/tools.md"),
    },
    Topic {
        name: "generations",
        about: "what a drive was: files without a machine, forks, its end",
        markdown: include_str!("topics/generations.md"),
    },
    Topic {
        name: "local",
        about: "the EC2 in a folder, without an account",
        markdown: include_str!("topics/local.md"),
    },
    Topic {
        name: "config",
        about: "the configuration file, sizes and times",
        markdown: include_str!("topics/config.md"),
    },
    Topic {
        name: "exit-codes",
        about: "what each exit code means",
        markdown: include_str!("topics/exit-codes.md"),
    },
    Topic {
        name: "troubleshooting",
        about: "when it does not go well",
        markdown: include_str!("topics/troubleshooting.md"),
    },
];

impl Topic {
    /// The topic of this name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        TOPICS.iter().find(|topic| topic.name == name)
    }

    /// The topic as text for a terminal of 80 columns: its lines, without the marks of headings and
    /// of code.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut is_code = false;
        for line in self.markdown.lines() {
            if line.starts_with("```") {
                is_code = !is_code;
                continue;
            }
            let _ = match line.strip_prefix("# ").filter(|_| !is_code) {
                Some(title) => writeln!(text, "{}", title.to_uppercase()),
                None if is_code => writeln!(text, "    {line}"),
                None => writeln!(text, "{}", line.strip_prefix("## ").unwrap_or(line)),
            };
        }
        text
    }

    /// The topic as a manual page, `xdrive-NAME(7)`.
    pub(super) fn page(&self) -> String {
        let mut page = Page::default();
        for event in Parser::new(self.markdown) {
            page.add(self.name, event);
        }
        page.text
    }
}

/// A list of all topics, a line each.
pub(super) fn list() -> String {
    let lines = TOPICS.iter().map(|topic| {
        let Topic { name, about, .. } = topic;
        format!("  {name:15}  {about}\n")
    });
    lines.collect()
}

/// A manual page, as far as it is written (groff manual, *man macros*).
#[derive(Debug, Default)]
struct Page {
    text: String,
    /// The text so far of the block that is read.
    block: String,
    is_code: bool,
    /// Whether the block is the first one of an item of a list.
    is_item: bool,
}

impl Page {
    fn add(&mut self, name: &str, event: Event<'_>) {
        match event {
            Event::Text(text) if self.is_code => self.block.push_str(&text),
            Event::Text(text) => self.block.push_str(&verbatim(&text)),
            Event::Code(text) => {
                let _ = write!(self.block, "\\fB{}\\fR", verbatim(&text));
            }
            Event::SoftBreak | Event::HardBreak => self.block.push(' '),
            Event::Start(Tag::CodeBlock(_)) => self.is_code = true,
            Event::Start(Tag::Item) => self.is_item = true,
            Event::End(TagEnd::Heading(HeadingLevel::H1)) => {
                let title = std::mem::take(&mut self.block);
                let _ = write!(
                    self.text,
                    ".TH \"xdrive\\-{name}\" 7 \"\" \"xdrive {}\"\n.SH NAME\nxdrive\\-{name} \\- \
                     {title}\n",
                    env!("CARGO_PKG_VERSION")
                );
            }
            Event::End(TagEnd::Heading(_)) => {
                let title = std::mem::take(&mut self.block).to_uppercase();
                let _ = writeln!(self.text, ".SH \"{title}\"");
            }
            Event::End(TagEnd::CodeBlock) => {
                self.is_code = false;
                let code = std::mem::take(&mut self.block);
                let _ = write!(self.text, ".PP\n.RS 4\n.nf\n");
                for line in code.lines() {
                    self.line(&verbatim(line));
                }
                self.text.push_str(".fi\n.RE\n");
            }
            Event::End(TagEnd::Paragraph | TagEnd::Item) if !self.block.is_empty() => {
                let block = std::mem::take(&mut self.block);
                self.text.push_str(if self.is_item {
                    ".IP \\(bu 2\n"
                } else {
                    ".PP\n"
                });
                self.is_item = false;
                self.line(&block);
            }
            _ => {}
        }
    }

    /// Adds a line of text, which is no request even if it begins like one.
    fn line(&mut self, line: &str) {
        let guard = if line.starts_with(['.', '\'']) {
            "\\&"
        } else {
            ""
        };
        let _ = writeln!(self.text, "{guard}{line}");
    }
}

/// Escapes `text` for roff (groff manual, *Escape sequences*), which would turn these into a
/// hyphen, accents and an escape.
pub(super) fn verbatim(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        match letter {
            '-' => shown.push_str("\\-"),
            '~' => shown.push_str("\\(ti"),
            '^' => shown.push_str("\\(ha"),
            '\\' => shown.push_str("\\e"),
            other => shown.push(other),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_fit_a_terminal_of_80_columns() {
        for topic in &TOPICS {
            let text = topic.text();
            let long: Vec<&str> = text.lines().filter(|line| line.len() > 80).collect();
            assert!(long.is_empty(), "{}: {long:#?}", topic.name);
            assert!(!text.contains("```") && !text.contains("\n#"), "{text}");
        }
        assert!(list().lines().all(|line| line.len() < 80));
    }

    #[test]
    fn a_topic_is_a_manual_page_with_its_code_verbatim() {
        let page = Topic::find("network").unwrap().page();
        for part in [
            ".TH \"xdrive\\-network\" 7",
            "\n.SH \"WHO MAY LOG IN\"\n",
            "\n.nf\nproxy_command = \"aws ssm start\\-session \\-\\-target %i \\e\n",
            "\\fB\\-\\-proxy\\-command\\fR",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        let page = Topic::find("endings").unwrap().page();
        assert!(
            page.contains("\n.IP \\(bu 2\n\\fB\\(ti.\\fR: saved; 255.\n"),
            "{page}"
        );
    }
}
