//! nftables' messages.

use super::expression::Expression;
use crate::netlink::{Attributes, Request, flags};

const SUBSYSTEM: u16 = 10 << 8;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;

const NEW_TABLE: u16 = SUBSYSTEM;
const GET_TABLE: u16 = SUBSYSTEM | 1;
const DELETE_TABLE: u16 = SUBSYSTEM | 2;
const NEW_CHAIN: u16 = SUBSYSTEM | 3;
const NEW_RULE: u16 = SUBSYSTEM | 6;
const NEW_MAP: u16 = SUBSYSTEM | 9;
const NEW_ELEMENTS: u16 = SUBSYSTEM | 12;
const DELETE_ELEMENTS: u16 = SUBSYSTEM | 14;

/// `NFT_SET_MAP`: each key has a value.
const IS_MAP: u32 = 0x8;
/// Elements that go into one message: an attribute holds at most 64 KiB.
const ELEMENTS: usize = 1000;

/// The family of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
    /// Packets through any bridge.
    Bridge,
}

impl Family {
    fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
            Self::Bridge => 7,
        }
    }
}

/// A table, by family and name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) family: Family,
    pub(super) name: &'a str,
}

/// A base chain's hook.
pub(super) struct Hook {
    pub(super) kind: &'static str,
    pub(super) at: u32,
    pub(super) priority: i32,
}

/// A map from keys to values, all of fixed length; a set of keys, if values have none. The data types are for display
/// by `nft list`.
pub(super) struct Map {
    pub(super) name: &'static str,
    pub(super) id: u32,
    pub(super) key_type: u32,
    pub(super) key_length: u32,
    pub(super) value_type: u32,
    pub(super) value_length: u32,
}

impl Table<'_> {
    /// Creates it if it does not exist.
    pub(super) fn add(self) -> Request {
        self.request(NEW_TABLE, flags::CREATE, &Attributes::new().text(1, self.name).number_be(2, 0))
    }

    /// Deletes it with its content.
    pub(super) fn delete(self) -> Request {
        self.request(DELETE_TABLE, 0, &Attributes::new().text(1, self.name))
    }

    pub(super) fn add_chain(self, name: &str, hook: Option<&Hook>) -> Request {
        let mut attributes = Attributes::new().text(1, self.name).text(3, name);
        if let Some(hook) = hook {
            let place = Attributes::new().number_be(1, hook.at).bytes(2, &hook.priority.to_be_bytes());
            attributes = attributes.nest(4, &place).text(7, hook.kind);
        }
        self.request(NEW_CHAIN, flags::CREATE, &attributes)
    }

    /// Appends a rule to the chain.
    pub(super) fn add_rule(self, chain: &str, expressions: &[Expression]) -> Request {
        let steps = expressions.iter().flat_map(Expression::steps);
        let list = steps.fold(Attributes::new(), |list, step| list.nest(1, &step));
        let attributes = Attributes::new().text(1, self.name).text(2, chain).nest(4, &list);
        self.request(NEW_RULE, flags::CREATE | flags::APPEND, &attributes)
    }

    pub(super) fn add_map(self, map: &Map) -> Request {
        let is_map = map.value_length > 0;
        let mut attributes = Attributes::new()
            .text(1, self.name)
            .text(2, map.name)
            .number_be(3, if is_map { IS_MAP } else { 0 })
            .number_be(4, map.key_type)
            .number_be(5, map.key_length);
        if is_map {
            attributes = attributes.number_be(6, map.value_type).number_be(7, map.value_length);
        }
        attributes = attributes.number_be(10, map.id);
        self.request(NEW_MAP, flags::CREATE, &attributes)
    }

    /// In as many messages as needed.
    pub(super) fn add_elements(self, map: &Map, elements: &[(Vec<u8>, Vec<u8>)]) -> Vec<Request> {
        let message = |some: &[(Vec<u8>, Vec<u8>)]| {
            let list = some.iter().fold(Attributes::new(), |list, (key, value)| {
                let element = Attributes::new().nest(1, &data(key));
                list.nest(1, &if value.is_empty() { element } else { element.nest(2, &data(value)) })
            });
            self.request(NEW_ELEMENTS, flags::CREATE, &self.of(map).nest(3, &list))
        };
        elements.chunks(ELEMENTS).map(message).collect()
    }

    pub(super) fn clear(self, map: &Map) -> Request {
        self.request(DELETE_ELEMENTS, 0, &self.of(map))
    }

    fn of(self, map: &Map) -> Attributes {
        Attributes::new().text(1, self.name).text(2, map.name)
    }

    fn request(self, kind: u16, flags: u16, attributes: &Attributes) -> Request {
        Request::new(kind, flags, &[self.family.number(), 0, 0, 0], attributes)
    }
}

/// Queries a table, outside of any batch.
pub(super) fn get_table(family: Family, name: &str) -> Request {
    Table { family, name }.request(GET_TABLE, 0, &Attributes::new().text(1, name))
}

/// One transaction.
pub(super) fn batch(requests: Vec<Request>) -> Vec<Request> {
    let subsystem = [0, 0, 0, 10];
    let edge = |kind| Request::new(kind, 0, &subsystem, &Attributes::new());
    let mut all = vec![edge(BATCH_BEGIN)];
    all.extend(requests);
    all.push(edge(BATCH_END));
    all
}

/// `NFTA_DATA_VALUE`, as keys and constants are encoded.
pub(super) fn data(value: &[u8]) -> Attributes {
    Attributes::new().bytes(1, value)
}
