//! What several clients of an API server need.
//!
//! | where | what |
//! |---|---|
//! | [`follow`] | a watch that survives outages: listed again after 410, logged when it fails and when it works again |
//! | [`backoff`] | the waits between attempts |
//! | [`raw`] | an object of any kind as JSON, the kinds that are read so, and errors of requests in one line |

pub mod backoff;
pub mod follow;
pub mod raw;
