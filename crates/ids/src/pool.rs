//! The pool.
