use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The addresses that pods of this node get: IPv4 always, IPv6 besides if given.
///
/// Written as `10.1.2.0/24` or `10.1.2.0/24,fd00:1:2::/64`. The first address is the gateway's. A pod has
/// the same number in both subnets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnets {
    v4: Subnet4,
    v6: Option<Subnet6>,
}

impl Subnets {
    /// The default.
    pub const DEFAULT: Self =
        Self { v4: Subnet4 { base: Ipv4Addr::new(10, 244, 77, 0), prefix: 24 }, v6: None };

    /// The IPv4 subnet.
    #[must_use]
    pub fn v4(&self) -> Subnet4 {
        self.v4
    }

    /// The IPv6 subnet.
    #[must_use]
    pub fn v6(&self) -> Option<Subnet6> {
        self.v6
    }

    /// All addresses of the pod that has this number.
    pub(crate) fn of_pod(&self, number: u32) -> Vec<IpAddr> {
        let v6 = self.v6.map(|subnet| IpAddr::V6(subnet.address(number)));
        std::iter::once(IpAddr::V4(self.v4.address(number))).chain(v6).collect()
    }
}

impl FromStr for Subnets {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &'static str| Error::Subnet { text: text.to_owned(), why };
        let (mut v4, mut v6) = (None, None);
        for part in text.split(',').map(str::trim) {
            let (address, prefix) = part.split_once('/').ok_or_else(|| wrong("there is no /LENGTH"))?;
            let prefix = prefix.parse().map_err(|_| wrong("the prefix length is not a number"))?;
            let known = match address.parse() {
                Ok(IpAddr::V4(base)) => v4.replace(Subnet4::new(base, prefix).map_err(wrong)?).is_some(),
                Ok(IpAddr::V6(base)) => v6.replace(Subnet6::new(base, prefix).map_err(wrong)?).is_some(),
                Err(_) => return Err(wrong("that is not an address")),
            };
            if known {
                return Err(wrong("there are two of one kind"));
            }
        }
        let v4 = v4.ok_or_else(|| wrong("there is no IPv4 subnet, and pods have always an IPv4 address"))?;
        if v6.is_some_and(|v6| v6.host_bits() < v4.host_bits()) {
            return Err(wrong("the IPv6 subnet has fewer addresses than the IPv4 subnet"));
        }
        Ok(Self { v4, v6 })
    }
}

impl TryFrom<String> for Subnets {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Subnets> for String {
    fn from(subnets: Subnets) -> Self {
        subnets.to_string()
    }
}

impl fmt::Display for Subnets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.v4)?;
        self.v6.map_or(Ok(()), |v6| write!(f, ",{v6}"))
    }
}

/// An IPv4 subnet with room for a gateway and at least one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet4 {
    base: Ipv4Addr,
    prefix: u8,
}

impl Subnet4 {
    fn new(base: Ipv4Addr, prefix: u8) -> std::result::Result<Self, &'static str> {
        if !(8..=30).contains(&prefix) {
            return Err("an IPv4 length is from 8 to 30");
        }
        let found = Self { base, prefix };
        if found.mask() & base.to_bits() != base.to_bits() {
            return Err("the address has bits beyond the length");
        }
        if base.is_loopback() || base.is_multicast() || base.is_unspecified() || base.is_link_local() {
            return Err("pods cannot have such addresses");
        }
        Ok(found)
    }

    /// The prefix length.
    #[must_use]
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    pub(crate) fn mask(self) -> u32 {
        u32::MAX << self.host_bits()
    }

    fn host_bits(self) -> u32 {
        32 - u32::from(self.prefix)
    }

    /// The network address.
    #[must_use]
    pub fn base(self) -> Ipv4Addr {
        self.base
    }

    /// The bridge's address.
    #[must_use]
    pub fn gateway(self) -> Ipv4Addr {
        self.address(1)
    }

    pub(crate) fn broadcast(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base.to_bits() | !self.mask())
    }

    /// The host numbers that pods can have.
    pub(crate) fn numbers(self) -> std::ops::Range<u32> {
        2..!self.mask()
    }

    pub(crate) fn address(self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base.to_bits() | (number & !self.mask()))
    }

    /// The number of one of its addresses.
    pub(crate) fn number(self, address: Ipv4Addr) -> Option<u32> {
        let number = address.to_bits() & !self.mask();
        (self.address(number) == address && self.numbers().contains(&number)).then_some(number)
    }
}

impl fmt::Display for Subnet4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// An IPv6 subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet6 {
    base: Ipv6Addr,
    prefix: u8,
}

impl Subnet6 {
    fn new(base: Ipv6Addr, prefix: u8) -> std::result::Result<Self, &'static str> {
        if !(16..=126).contains(&prefix) {
            return Err("an IPv6 length is from 16 to 126");
        }
        let found = Self { base, prefix };
        if found.mask() & base.to_bits() != base.to_bits() {
            return Err("the address has bits beyond the length");
        }
        if base.is_multicast() || base.is_unicast_link_local() || base.is_unspecified() {
            return Err("pods cannot have such addresses");
        }
        Ok(found)
    }

    /// The prefix length.
    #[must_use]
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    pub(crate) fn mask(self) -> u128 {
        u128::MAX << self.host_bits()
    }

    fn host_bits(self) -> u32 {
        128 - u32::from(self.prefix)
    }

    /// The network address.
    #[must_use]
    pub fn base(self) -> Ipv6Addr {
        self.base
    }

    /// The bridge's address.
    #[must_use]
    pub fn gateway(self) -> Ipv6Addr {
        self.address(1)
    }

    pub(crate) fn address(self, number: u32) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.base.to_bits() | u128::from(number))
    }
}

impl fmt::Display for Subnet6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        text.parse::<Subnets>().unwrap_err().to_string()
    }

    #[test]
    fn subnets_read_as_they_are_written() {
        for text in ["10.244.77.0/24", "192.168.4.0/30", "10.0.0.0/8,fd00::/104", "10.1.0.0/16,fd00:1::/64"] {
            assert_eq!(text.parse::<Subnets>().unwrap().to_string(), text);
        }
        assert_eq!("10.244.77.0/24".parse::<Subnets>().unwrap(), Subnets::DEFAULT);
    }

    #[test]
    fn what_is_no_subnet_for_pods_is_refused_with_its_reason() {
        for (text, part) in [
            ("10.0.0.0", "no /LENGTH"),
            ("10.0.0.0/x", "not a number"),
            ("10.0.0.0/31", "from 8 to 30"),
            ("10.0.0.1/24", "bits beyond"),
            ("127.0.0.0/24", "cannot have"),
            ("fd00::/64", "no IPv4 subnet"),
            ("10.0.0.0/24,10.0.1.0/24", "two of one kind"),
            ("10.0.0.0/16,fd00::/120", "fewer addresses"),
            ("pods/24", "not an address"),
        ] {
            assert!(why(text).contains(part), "{text}: {}", why(text));
        }
    }

    #[test]
    fn numbers_leave_out_the_subnet_itself_the_gateway_and_broadcast() {
        let subnets: Subnets = "10.1.2.8/29,fd00::/64".parse().unwrap();
        let v4 = subnets.v4();
        let pods: Vec<_> = v4.numbers().map(|number| v4.address(number).to_string()).collect();
        assert_eq!(pods, ["10.1.2.10", "10.1.2.11", "10.1.2.12", "10.1.2.13", "10.1.2.14"]);
        assert_eq!(
            (v4.gateway().to_string(), v4.broadcast().to_string()),
            ("10.1.2.9".into(), "10.1.2.15".into())
        );
        assert_eq!(subnets.of_pod(3), ["10.1.2.11".parse::<IpAddr>().unwrap(), "fd00::3".parse().unwrap()]);
        assert_eq!(v4.number("10.1.2.11".parse().unwrap()), Some(3));
        for other in ["10.1.2.9", "10.1.2.15", "10.1.2.16", "10.1.3.11"] {
            assert_eq!(v4.number(other.parse().unwrap()), None, "{other}");
        }
    }
}
