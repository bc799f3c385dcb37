//! Offers to forward the ports on which programs in the container begin to listen.
//!
//! A pure function from listeners to offers. A port is offered once a session, and never forwarded
//! unasked: Enter alone forwards the ports that the prompt of `~C` named.

use std::collections::BTreeSet;

use crate::host::ports::Listener;

/// The ports that listen in the container and are not forwarded.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// The ports that are offered no more; none before the first look.
    known: Option<BTreeSet<u16>>,
    /// The ports that were offered, and not taken.
    open: Vec<Offer>,
    /// The ports that the last prompt showed.
    prompted: Vec<u16>,
}

/// A port that was offered.
#[derive(Debug)]
struct Offer {
    listener: Listener,
    /// Whether something listens there still, or again.
    stands: bool,
    /// Whether it is of the last look that had any.
    is_latest: bool,
}

impl Offers {
    /// Updates the offers from the listeners of now. Returns the line that offers new ports, if
    /// any. Ports of the first look, and those that are forwarded (`is_forwarded`), are not offered.
    pub(super) fn look(
        &mut self,
        listeners: Vec<Listener>,
        is_forwarded: impl Fn(u16) -> bool,
    ) -> Option<String> {
        let Some(known) = &mut self.known else {
            self.known = Some(listeners.iter().map(|it| it.port).collect());
            return None;
        };
        // A server that was restarted has its offer again.
        for offer in &mut self.open {
            let port = offer.listener.port;
            let now = listeners.iter().find(|it| it.port == port);
            let now = now.filter(|it| it.is_for_people());
            offer.stands = now.is_some();
            if let Some(now) = now {
                offer.listener = now.clone();
            }
        }
        let began = listeners.into_iter().filter(|it| known.insert(it.port));
        let mut began: Vec<_> = began.filter(Listener::is_for_people).collect();
        began.retain(|it| !is_forwarded(it.port));
        let line = line(&began)?;
        for offer in &mut self.open {
            offer.is_latest = false;
        }
        self.open.extend(began.into_iter().map(|listener| Offer {
            listener,
            stands: true,
            is_latest: true,
        }));
        Some(line)
    }

    /// The prompt of `~C`: the ports of the latest offer that Enter alone forwards. `None` if no
    /// offer stands.
    pub(super) fn prompt(&mut self) -> Option<String> {
        let latest = self.open.iter().filter(|it| it.is_latest && it.stands);
        let latest: Vec<_> = latest.map(|it| &it.listener).take(SHOWN).collect();
        self.prompted = latest.iter().map(|it| it.port).collect();
        match &latest[..] {
            [] => None,
            [one] => Some(format!("Enter leads to port {}: {}", one.port, one.name())),
            several => Some(format!("Enter leads to ports {}", ports(several))),
        }
    }

    /// The ports that the last prompt showed and that are offered still. Their offers stand until
    /// they are removed.
    pub(super) fn take(&mut self) -> Vec<u16> {
        let mut taken = std::mem::take(&mut self.prompted);
        let stands = |port| {
            let mut open = self.open.iter();
            open.any(|it| it.stands && it.listener.port == port)
        };
        taken.retain(|port| stands(*port));
        taken
    }

    /// Removes the offer of a port that is forwarded now.
    pub(super) fn remove(&mut self, port: u16) {
        self.open.retain(|it| it.listener.port != port);
    }

    /// The offers that stand, a line each.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.open.iter().filter(|it| it.stands).map(|it| {
            let (program, port) = (it.listener.name(), it.listener.port);
            format!("{program} listens on port {port}: ~C -L {port} leads there")
        })
    }
}

/// A list of their ports.
fn ports(listeners: &[&Listener]) -> String {
    let ports: Vec<String> = listeners.iter().map(|it| it.port.to_string()).collect();
    ports.join(", ")
}

/// The line that offers these.
fn line(began: &[Listener]) -> Option<String> {
    match began {
        [] => None,
        [one] => Some(format!(
            "{} listens on port {}: ~C and Enter lead there",
            one.name(),
            one.port
        )),
        several => {
            let shown: Vec<&Listener> = several.iter().take(SHOWN).collect();
            let mut ports = ports(&shown);
            if several.len() > SHOWN {
                ports.push_str(", …");
            }
            Some(format!("ports {ports} listen now: ~C and Enter lead there"))
        }
    }
}

/// How many ports fit into one line.
const SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(port: u16) -> Listener {
        Listener {
            port,
            addresses: vec!["127.0.0.1".to_owned()],
            program: "python3".to_owned(),
            is_chosen: false,
            is_forward: false,
        }
    }

    fn listeners(ports: &[u16]) -> Vec<Listener> {
        ports.iter().copied().map(listener).collect()
    }

    #[test]
    fn a_port_that_begins_to_listen_is_offered_once() {
        let mut offers = Offers::default();
        let none = |_| false;
        assert_eq!(offers.look(listeners(&[22]), none), None, "from before");
        let line = offers.look(listeners(&[22, 6006]), none).unwrap();
        assert_eq!(
            line,
            "python3 listens on port 6006: ~C and Enter lead there"
        );
        assert_eq!(
            offers.look(listeners(&[22, 6006]), none),
            None,
            "offered before"
        );
        assert_eq!(offers.lines().count(), 1);
        assert_eq!(offers.look(listeners(&[22]), none), None);
        assert_eq!((offers.lines().count(), offers.prompt()), (0, None));
        // A server that was restarted has it again, without another word.
        assert_eq!(offers.look(listeners(&[6006]), none), None, "once");
        let prompt = offers.prompt().unwrap();
        assert_eq!(prompt, "Enter leads to port 6006: python3");
        assert_eq!((offers.lines().count(), offers.take()), (1, vec![6006]));
    }

    #[test]
    fn enter_takes_the_last_offer_alone_once_it_was_shown() {
        let mut offers = Offers::default();
        let none = |_| false;
        assert_eq!(offers.look(vec![], none), None);
        assert!(offers.look(listeners(&[1]), none).is_some());
        let line = offers.look(listeners(&[1, 2, 3]), none).unwrap();
        assert_eq!(line, "ports 2, 3 listen now: ~C and Enter lead there");
        // One of them is gone again.
        assert_eq!(offers.look(listeners(&[1, 3]), none), None);
        assert_eq!(offers.take(), [0; 0], "no prompt");
        assert_eq!(offers.prompt().unwrap(), "Enter leads to port 3: python3");
        // What begins to listen while the line is typed is not what it takes.
        assert!(offers.look(listeners(&[1, 3, 4, 5]), none).is_some());
        assert_eq!(offers.take(), [3]);
        assert_eq!(offers.take(), [0; 0]);
        // It stands until it has a way: that may have failed.
        assert_eq!(offers.lines().count(), 4);
        offers.remove(3);
        assert_eq!(offers.prompt().unwrap(), "Enter leads to ports 4, 5");
        assert_eq!(offers.look(listeners(&[1, 5]), none), None);
        assert_eq!(offers.take(), [5]);
        offers.remove(5);
        assert_eq!((offers.lines().count(), offers.prompt()), (1, None));
    }

    #[test]
    fn enter_takes_no_more_ports_than_the_prompt_shows() {
        let mut offers = Offers::default();
        assert_eq!(offers.look(vec![], |_| false), None);
        let line = offers.look(listeners(&[1, 2, 3, 4, 5]), |_| false);
        assert!(line.unwrap().starts_with("ports 1, 2, 3, 4, … listen"));
        assert_eq!(offers.prompt().unwrap(), "Enter leads to ports 1, 2, 3, 4");
        assert_eq!(offers.take(), [1, 2, 3, 4]);
        (1..5).for_each(|port| offers.remove(port));
        assert_eq!(offers.prompt().unwrap(), "Enter leads to port 5: python3");
    }

    #[test]
    fn ports_that_are_forwarded_or_for_no_person_are_not_offered() {
        let mut offers = Offers::default();
        assert_eq!(offers.look(vec![], |_| false), None);
        assert_eq!(offers.look(listeners(&[80]), |port| port == 80), None);
        let chosen = Listener {
            is_chosen: true,
            ..listener(40000)
        };
        let forward = Listener {
            is_forward: true,
            ..listener(7001)
        };
        assert_eq!(offers.look(vec![chosen, forward], |_| false), None);
        assert_eq!(offers.lines().count(), 0);
    }

    #[test]
    fn the_longest_lines_fit_a_terminal() {
        let long = |port| Listener {
            program: "a-long-name-of-".to_owned(),
            ..listener(port)
        };
        let mut offers = Offers::default();
        assert_eq!(offers.look(vec![], |_| false), None);
        let one = offers.look(vec![long(65535)], |_| false).unwrap();
        let many = (60000..60009).map(long).collect();
        let several = offers.look(many, |_| false).unwrap();
        for line in [one, several].into_iter().chain(offers.lines()) {
            assert!("xdrive: ".len() + line.chars().count() <= 80, "{line}");
        }
    }
}
