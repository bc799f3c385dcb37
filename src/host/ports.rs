//! The ports on which something in a container of the drive listens. The other side is
//! `shell/host/ports.py`.

use serde::Deserialize;

use super::facts::{Facts, ScriptError};
use super::scripts::Host;
use crate::ids::ContainerName;
use crate::ssh::channel::{Output, Session};

/// Jupyter's port in the container, that of `shell/host/jupyter_config.py`.
pub const JUPYTER_PORT: u16 = 8888;

/// A port on which something in the container listens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listener {
    /// The port.
    pub port: u16,
    /// The addresses there.
    pub addresses: Vec<String>,
    /// The name of the program, printable ASCII; empty if it is not known.
    pub program: String,
    /// Whether the port is in the range that the system chooses from.
    pub is_chosen: bool,
    /// Whether it is no program of the container's, but the end of somebody's forward.
    pub is_forward: bool,
}

impl Listener {
    /// Parses the value of the fact `listening`.
    pub(super) fn parse(fact: &str) -> Option<Vec<Self>> {
        let mut listeners: Vec<Self> = serde_json::from_str(fact).ok()?;
        for it in &mut listeners {
            // It is shown on terminals; a program may call itself anything.
            let texts = it.addresses.iter_mut().chain([&mut it.program]);
            texts.for_each(|text| *text = printable(text));
        }
        Some(listeners)
    }

    /// The program's name for people.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.program.is_empty() {
            "a program"
        } else {
            &self.program
        }
    }

    /// Whether a person may want to forward it. Not a port of the system's range: those mostly
    /// serve another program, as Jupyter's kernels do.
    #[must_use]
    pub fn is_for_people(&self) -> bool {
        !self.is_chosen && !self.is_forward
    }
}

/// The text with `?` in place of whatever a terminal might obey.
fn printable(text: &str) -> String {
    let shown = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    text.chars().map(shown).collect()
}

/// The listening ports of the host, reported each time that they have changed.
pub struct Listening {
    session: Session,
    /// The beginning of the next line.
    begun: Vec<u8>,
}

impl Listening {
    /// Waits for the next report of the listening ports: at once the first time, and then when they
    /// have changed. None when the connection has ended, or the host sends a line without an end.
    /// Loses nothing if it is dropped before it is ready.
    pub async fn next(&mut self) -> Option<Vec<Listener>> {
        loop {
            while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let fact = line.trim_end().strip_prefix("xdrive: listening=");
                if let Some(listeners) = fact.and_then(Listener::parse) {
                    return Some(listeners);
                }
            }
            let output = self.session.output_beside(self.begun.len()).await.ok()?;
            if let Output::Stdout(piece) = output? {
                self.begun.extend_from_slice(&piece);
            }
        }
    }
}

impl Host {
    /// The ports that listen in the container of this name, or in the main one; none where it does
    /// not run.
    pub async fn listeners(
        &self,
        name: Option<&ContainerName>,
    ) -> Result<Vec<Listener>, ScriptError> {
        const SCRIPT: &str = "ports.py list";
        let output = self.run_python(&in_container(SCRIPT, name)).await?;
        let facts = Facts::read(SCRIPT, &output, &[])?;
        let listeners = facts.get("listening").and_then(Listener::parse);
        listeners.ok_or_else(|| facts.garbled("listening"))
    }

    /// Watches what listens there.
    pub async fn listening(&self, name: Option<&ContainerName>) -> Result<Listening, ScriptError> {
        Ok(Listening {
            session: self
                .exec_python(&in_container("ports.py watch", name))
                .await?,
            begun: Vec::new(),
        })
    }
}

/// The script with the container's name, which needs no quotes.
fn in_container(script: &str, name: Option<&ContainerName>) -> String {
    name.map_or_else(|| script.to_owned(), |name| format!("{script} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_parsed() {
        let fact = r#"[{"port": 6006, "addresses": ["127.0.0.1", "::1"], "program": "python3",
            "is_chosen": false, "is_forward": false}]"#;
        let [listener] = &Listener::parse(fact).unwrap()[..] else {
            panic!("{fact}");
        };
        assert!(listener.is_for_people(), "{listener:?}");
        assert_eq!((listener.port, listener.addresses.len()), (6006, 2));
        assert_eq!(Listener::parse("[]"), Some(vec![]));
        assert_eq!(Listener::parse("{}"), None);
    }

    #[test]
    fn a_program_that_is_called_a_sequence_is_not_obeyed_by_a_terminal() {
        let fact = r#"[{"port": 1, "addresses": ["\u009b2J"], "program": "\u001b]2;t\u0007é",
            "is_chosen": false, "is_forward": false}]"#;
        let [listener] = &Listener::parse(fact).unwrap()[..] else {
            panic!("{fact}");
        };
        assert_eq!(
            (listener.name(), &*listener.addresses[0]),
            ("?]2;t??", "?2J")
        );
        let nameless = Listener {
            program: String::new(),
            ..listener.clone()
        };
        assert_eq!(nameless.name(), "a program");
    }
}
