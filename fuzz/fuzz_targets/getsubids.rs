#![no_main]
//! The output of `getsubids`: no range holds 2^32-1, and ranges printed are read back.

use ids::parse::subid::parse_getsubids;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(output) = str::from_utf8(bytes) else { return };
    match parse_getsubids(output) {
        Ok(spans) => {
            assert!(spans.iter().all(|s| s.end() <= 4_294_967_295));
            let print =
                |(i, s): (usize, &ids::HostSpan)| format!("{i}: kubelet {} {}\n", s.first(), s.length());
            let printed: String = spans.iter().enumerate().map(print).collect();
            assert_eq!(parse_getsubids(&printed), Ok(spans));
        }
        Err(problem) => {
            assert_eq!(output.lines().nth(problem.line - 1), Some(problem.text.as_str()));
            assert!(!problem.hint().is_empty());
        }
    }
});
