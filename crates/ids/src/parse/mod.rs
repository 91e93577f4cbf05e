//! Readers of foreign text.
