//! Images: pulled or imported, verified, unpacked once for all mappings.
