//! The CRI contract as far as we use it.
