//! The allocator.
