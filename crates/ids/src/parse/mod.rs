//! Readers of foreign text: what others wrote about host IDs, taken strictly and without I/O.

pub mod kubelet;
pub mod proc_map;
pub mod subid;

/// A decimal number as the kernel and shadow's tools print it: digits and nothing else.
///
/// A leading zero is refused because shadow's own tools read it as octal: one text, two meanings.
fn decimal(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}
