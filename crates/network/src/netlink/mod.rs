//! Netlink: attributes, requests and replies.

mod attributes;
pub(crate) mod route;
mod socket;

pub(crate) use attributes::{Attributes, find, text};
pub(crate) use socket::{More, Request, Socket};

/// Flags of requests.
pub(crate) mod flags {
    pub(crate) const REQUEST: u16 = 0x1;
    pub(crate) const ACK: u16 = 0x4;
    pub(crate) const DUMP: u16 = 0x300;
    pub(crate) const REPLACE: u16 = 0x100;
    pub(crate) const EXCL: u16 = 0x200;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
}
