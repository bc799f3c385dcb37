//! Where a host's sshd is, and the key that it is known by.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::ingress::source;
use crate::config::Reach;
use crate::drive::tags;
use crate::ec2::Instance;
use crate::ids::InstanceId;
use crate::ssh::{Proxy, PublicHostKey, Received, Target};

/// The port and user of a login: the boot script authorizes the key for root on every distribution.
const PORT: u16 = 22;
pub(super) const USER: &str = "root";

/// The address of a host's login: with a proxy command the private one; else the public one, the
/// IPv6 one if this computer has a route there, or the private one. Its key is that of the tag, unless
/// it is among the `renewed`. An error says what is missing.
pub(super) fn target(
    host: &Instance,
    reach: &Reach,
    renewed: &BTreeMap<InstanceId, PublicHostKey>,
) -> Result<Target, &'static str> {
    let six = host.ipv6.map(IpAddr::from);
    let proxy = reach.proxy.as_ref().map(|command| Proxy {
        command: command.clone(),
        instance: host.id.to_string(),
    });
    let address = if proxy.is_some() {
        host.private.or(host.address).or(six)
    } else {
        let public = host.address.filter(|it| Some(*it) != host.private);
        let six = six.filter(|six| host.address.is_none() || source(*six).is_some());
        public.or(six).or(host.address)
    };
    let address = address.ok_or("it has no address")?;
    let recorded = tags::host_key(&host.tags).ok_or("it has no recorded host key")?;
    let own = renewed.get(&host.id).map(PublicHostKey::to_string);
    Ok(Target {
        address: SocketAddr::new(address, PORT),
        user: USER.to_owned(),
        host_key: own.unwrap_or_else(|| recorded.to_owned()),
        proxy,
        received: Received::default(),
    })
}

/// The host's own key, if that is `recorded` now and `refused` was its launch key. Never the other way
/// around: whoever has read a launch key is not the host again.
pub(super) fn own_key_since(refused: &str, recorded: Option<&str>) -> Option<PublicHostKey> {
    let refused: PublicHostKey = refused.parse().ok()?;
    let recorded: PublicHostKey = recorded?.parse().ok()?;
    (refused.is_of_launch() && recorded.is_own()).then_some(recorded)
}

#[cfg(test)]
pub(in crate::access) mod tests {
    use super::*;
    use crate::ec2::{InstanceState, Market, Zone};
    use crate::ssh::HostKey;

    pub(in crate::access) fn host(
        public: Option<&str>,
        private: Option<&str>,
        six: Option<&str>,
    ) -> Instance {
        let address = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        Instance {
            id: "i-0abc".parse().unwrap(),
            state: InstanceState::Running,
            zone: Zone("us-east-1a".to_owned()),
            subnet: None,
            instance_type: "t3.medium".to_owned(),
            market: Market::Spot,
            address: address(public).or(address(private)),
            private: address(private),
            ipv6: six.map(|six| six.parse().unwrap()),
            launched: jiff::Timestamp::UNIX_EPOCH,
            image: "ami-1".to_owned(),
            arch: None,
            mappings: Vec::new(),
            groups: Vec::new(),
            ended: None,
            has_role: false,
            has_public: false,
            tags: [(tags::HOST_KEY.to_owned(), "a key".to_owned())].into(),
        }
    }

    fn at(host: &Instance, reach: &Reach) -> Option<String> {
        let target = target(host, reach, &BTreeMap::new()).ok()?;
        Some(target.address.to_string())
    }

    #[test]
    fn a_host_is_reached_at_its_public_address_and_through_a_command_at_its_private_one() {
        let (public, private) = (Some("203.0.113.7"), Some("10.0.0.7"));
        let straight = Reach::default();
        let proxied = Reach {
            proxy: Some("nc %h %p".parse().unwrap()),
            ..Reach::default()
        };
        let both = host(public, private, None);
        assert_eq!(at(&both, &straight).as_deref(), Some("203.0.113.7:22"));
        assert_eq!(at(&both, &proxied).as_deref(), Some("10.0.0.7:22"));
        let only_private = host(None, private, None);
        assert_eq!(at(&only_private, &straight).as_deref(), Some("10.0.0.7:22"));
        // Every computer with IPv6 has a route to ::1.
        let six = host(None, None, Some("::1"));
        assert_eq!(at(&six, &straight).as_deref(), Some("[::1]:22"));
        assert_eq!(at(&six, &proxied).as_deref(), Some("[::1]:22"));
        let all = host(public, private, Some("::1"));
        assert_eq!(at(&all, &straight).as_deref(), Some("203.0.113.7:22"));
        assert_eq!(at(&host(None, None, None), &straight), None);
        let named = target(&both, &proxied, &BTreeMap::new())
            .ok()
            .and_then(|target| target.proxy);
        assert_eq!(named.map(|proxy| proxy.instance).as_deref(), Some("i-0abc"));
    }

    #[test]
    fn ipv6_is_preferred_to_a_private_address_where_there_is_a_way() {
        let host = host(None, Some("10.0.0.7"), Some("::1"));
        let expected = match source("::1".parse().unwrap()) {
            Some(_) => "[::1]:22",
            None => "10.0.0.7:22",
        };
        assert_eq!(at(&host, &Reach::default()).as_deref(), Some(expected));
    }

    #[test]
    fn a_launch_key_gives_way_to_the_hosts_own_and_never_the_other_way_around() {
        let own =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
        let launch = HostKey::generate().unwrap().public;
        let since = |refused, recorded| own_key_since(refused, recorded).map(|key| key.to_string());
        assert_eq!(since(&launch, Some(own)).as_deref(), Some(own));
        assert_eq!(since(&launch, Some(&launch)), None);
        assert_eq!(since(own, Some(&launch)), None);
        assert_eq!(since(own, Some(own)), None);
        assert_eq!(since(&launch, Some("nonsense")), None);
        assert_eq!(since(&launch, None), None);

        // However old the tags are that are read later.
        let mut host = host(Some("203.0.113.7"), None, None);
        host.tags.insert(tags::HOST_KEY.to_owned(), launch);
        let renewed = [(host.id.clone(), own.parse().unwrap())].into();
        let known = target(&host, &Reach::default(), &renewed).unwrap().host_key;
        assert_eq!(known, own);
    }
}
