//! Maps by name. Every event looks some names up; the hash is quick, and its start is drawn anew in each process, so
//! that an author of objects cannot choose names whose hashes collide.

use foldhash::fast::RandomState;

pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
pub(crate) type HashSet<K> = std::collections::HashSet<K, RandomState>;
