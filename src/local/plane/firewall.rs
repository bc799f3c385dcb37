//! The firewall: what may reach each instance, as rules of the [router](super::router) before it.
//!
//! Each instance has one table, with the rules of all its security groups. It is about what the
//! router forwards to that instance's link and nothing else, so that state directories neither open
//! nor close each other's instances. As on AWS it keeps connections that were allowed when they
//! began, and drops what no rule allows without an answer (EC2 user guide, *Connection tracking*).
//! Members of a group are known by their links: no address that a packet claims makes it theirs.
//!
//! The tables of a state directory are replaced together and at once ([`set`]); a table is removed
//! with its instance's link ([`forget`]).

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::PlaneError;
use super::folder::name_of;
use super::host_lock::HostLock;
use super::router::{Router, TO_HOST};

/// What may reach the instances of a state directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Firewall {
    /// The instances, each with what may reach it; another one is open to all.
    pub guarded: Vec<Guarded>,
    /// Whether this computer may reach all of them.
    pub is_open_to_host: bool,
}

/// An instance, and what may reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// The instance's id.
    pub instance: String,
    /// The traffic that may reach it.
    pub allowed: Vec<Allowed>,
    /// The Elastic IP address that leads to it, and its own.
    pub elastic: Option<(Ipv4Addr, Ipv4Addr)>,
}

/// Traffic that may reach an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// `tcp`, `udp`, `icmp`, `icmpv6`, another protocol's number, or `-1` for all.
    pub protocol: String,
    /// The first and last port, or type and code of ICMP, of which -1 is all.
    pub ports: Option<(i32, i32)>,
    /// Where it comes from.
    pub from: Origin,
}

/// Where traffic comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A range of IPv4 addresses.
    Range(String),
    /// Instances of this state directory, by their ids.
    Instances(Vec<String>),
}

/// Makes the tables of those instances in `firewall` that are up, all at once.
pub(super) fn set(firewall: &Firewall) -> Result<(), PlaneError> {
    let _lock = HostLock::Network.lock()?;
    for router in Router::all()? {
        let mut tables = String::new();
        for guarded in &firewall.guarded {
            let link = name_of(&guarded.instance);
            if router.has(&link) {
                tables += &table(&link, guarded, firewall.is_open_to_host);
            }
        }
        if !tables.is_empty() {
            load(&router, &tables)?;
        }
    }
    Ok(())
}

/// Removes the table of the instance behind `link`, under [`HostLock::Network`]; no table is
/// success.
pub(super) fn forget(router: &Router, link: &str) -> Result<(), PlaneError> {
    load(router, &removal(link))
}

fn load(router: &Router, rules: &str) -> Result<(), PlaneError> {
    router.feed("nft", &["-f", "-"], rules)
}

/// The lines that remove a table, whether there is one or not.
fn removal(link: &str) -> String {
    format!("add table inet {link}\ndelete table inet {link}\n")
}

/// The lines that replace the table of the instance behind `link` (nft(8)).
fn table(link: &str, guarded: &Guarded, is_open_to_host: bool) -> String {
    let mut lines = removal(link);
    let _infallible = write!(
        lines,
        "table inet {link} {{ chain forward {{\n\
         type filter hook forward priority filter; policy accept;\n\
         oifname != \"{link}\" accept\n"
    );
    if let Some((_, own)) = guarded.elastic {
        // Its public address, which is its private one too, is no longer its own outside.
        let _infallible = writeln!(
            lines,
            "iifname \"{TO_HOST}\" ct original ip daddr {own} drop"
        );
    }
    lines += "ct state established,related accept\n";
    if is_open_to_host {
        let _infallible = writeln!(lines, "iifname \"{TO_HOST}\" accept");
    }
    for rule in guarded.allowed.iter().filter_map(rule) {
        lines += &rule;
        lines += " accept\n";
    }
    lines += "drop\n}\n";
    if let Some((elastic, own)) = guarded.elastic {
        // Of the instance itself as well, which AWS's network turns around.
        let _infallible = write!(
            lines,
            "chain elastic {{\n\
             type nat hook prerouting priority dstnat; policy accept;\n\
             ip daddr {elastic} dnat ip to {own}\n}}\n"
        );
    }
    lines += "}\n";
    lines
}

/// The conditions of a rule; none if no packet can meet them.
fn rule(allowed: &Allowed) -> Option<String> {
    let origin = match &allowed.from {
        Origin::Range(range) => format!("ip saddr {range}"),
        Origin::Instances(members) if members.is_empty() => return None,
        Origin::Instances(members) => {
            let links: Vec<String> = members
                .iter()
                .map(|member| format!("{:?}", name_of(member)))
                .collect();
            format!("iifname {{ {} }}", links.join(", "))
        }
    };
    let traffic = match (allowed.protocol.as_str(), allowed.ports) {
        ("-1", _) => return Some(origin),
        (name @ ("tcp" | "udp"), Some((port, last))) if port == last => {
            format!("{name} dport {port}")
        }
        (name @ ("tcp" | "udp"), Some((first, last))) => format!("{name} dport {first}-{last}"),
        ("icmp", Some((kind, code))) if kind != -1 => {
            let code = if code == -1 {
                String::new()
            } else {
                format!(" icmp code {code}")
            };
            format!("icmp type {kind}{code}")
        }
        // No instance has an IPv6 address.
        ("icmpv6", _) => return None,
        (protocol, _) => format!("meta l4proto {protocol}"),
    };
    Some(format!("{origin} {traffic}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(protocol: &str, ports: Option<(i32, i32)>, from: Origin) -> Allowed {
        Allowed {
            protocol: protocol.to_owned(),
            ports,
            from,
        }
    }

    #[test]
    fn a_rule_is_written_as_nft_reads_it() {
        let range = || Origin::Range("192.0.2.0/24".to_owned());
        let members =
            |ids: &[&str]| Origin::Instances(ids.iter().map(|id| (*id).to_owned()).collect());
        let written = |protocol, ports, from| rule(&allowed(protocol, ports, from));
        let group = members(&["i-00000000000000001", "i-00000000000000002"]);
        for (given, expected) in [
            (written("-1", None, range()), "ip saddr 192.0.2.0/24"),
            (
                written("tcp", Some((22, 22)), range()),
                "ip saddr 192.0.2.0/24 tcp dport 22",
            ),
            (
                written("udp", Some((0, 65535)), group),
                "iifname { \"xd-00000001\", \"xd-00000002\" } udp dport 0-65535",
            ),
            (
                written("icmp", Some((8, -1)), range()),
                "ip saddr 192.0.2.0/24 icmp type 8",
            ),
            (
                written("icmp", Some((3, 4)), range()),
                "ip saddr 192.0.2.0/24 icmp type 3 icmp code 4",
            ),
            (
                written("icmp", Some((-1, -1)), range()),
                "ip saddr 192.0.2.0/24 meta l4proto icmp",
            ),
            (
                written("50", None, range()),
                "ip saddr 192.0.2.0/24 meta l4proto 50",
            ),
        ] {
            assert_eq!(given.as_deref(), Some(expected));
        }
        assert_eq!(written("icmpv6", Some((-1, -1)), range()), None);
        // A group without instances lets nobody in.
        assert_eq!(written("-1", None, members(&[])), None);
    }

    #[test]
    fn a_table_is_about_one_link_and_drops_what_no_rule_allows() {
        let guarded = Guarded {
            instance: "i-00000000000000001".to_owned(),
            allowed: Vec::new(),
            elastic: None,
        };
        let written = table("xd-00000001", &guarded, false);
        assert!(written.starts_with("add table inet xd-00000001\ndelete table"));
        assert!(written.contains("oifname != \"xd-00000001\" accept\n"));
        assert!(written.ends_with("ct state established,related accept\ndrop\n}\n}\n"));
        assert!(table("xd-00000001", &guarded, true).contains("iifname \"host\" accept\ndrop"));
        let ip = |last| Ipv4Addr::new(10, 99, 0, last);
        let elastic = Guarded {
            elastic: Some((ip(16), ip(77))),
            ..guarded
        };
        let written = table("xd-00000001", &elastic, false);
        assert!(written.contains("ip daddr 10.99.0.16 dnat ip to 10.99.0.77\n"));
    }
}
