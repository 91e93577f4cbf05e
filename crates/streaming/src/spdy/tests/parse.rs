use miniz_oxide::deflate::compress_to_vec;
use proptest::prelude::*;

use super::super::frame::{Control, Head, LONGEST_CONTROL, Violation};
use super::super::headers::{Deflater, Headers, Inflater};
use super::{Storing, block};

/// Two frames of the client that kubectl has: a pair of streams for one connection.
const REAL: &str = "800300010000003e0000000100000000000078f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c60\
    616061c0c0c0c0590489c64c50f2663400000000ffff800300010000001800000003000000000000c2aa19540e2512d60b000000ffff";

fn real() -> Vec<u8> {
    (0..REAL.len() / 2).map(|at| u8::from_str_radix(&REAL[2 * at..2 * at + 2], 16).unwrap()).collect()
}

#[test]
fn frames_of_a_real_client_are_read() {
    let bytes = real();
    let mut inflater = Inflater::default();
    let mut rest = &bytes[..];
    let mut types = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk() {
        let Head::Control { kind, flags, length } = Head::parse(*head).unwrap() else { panic!() };
        let (payload, after) = after.split_at(length);
        let Control::Open { stream, fin, headers } =
            Control::parse(kind, flags, payload, &mut inflater).unwrap()
        else {
            panic!()
        };
        assert!(!fin);
        assert_eq!(headers.get("port"), Some("8080"));
        assert_eq!(headers.get("requestid"), Some("0"));
        types.push((stream, headers.get("streamtype").unwrap().to_owned()));
        rest = after;
    }
    assert_eq!(types, [(1, "error".to_owned()), (3, "data".to_owned())]);
}

#[test]
fn our_own_replies_can_be_inflated() {
    let (mut deflater, mut inflater) = (Deflater::default(), Inflater::default());
    for _ in 0..3 {
        assert_eq!(inflater.headers(&deflater.none()), Ok(Headers::default()));
    }
}

#[test]
fn headers_that_are_much_longer_when_they_are_out_are_refused() {
    let bomb = [&[0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2][..], &compress_to_vec(&[0; 1 << 20], 9)].concat();
    assert!(bomb.len() < LONGEST_CONTROL);
    assert_eq!(Inflater::default().headers(&bomb), Err(Violation::Headers));
}

#[test]
fn another_dictionary_is_refused() {
    let mut stored = Storing::default().store(&block(&[]));
    stored[5] ^= 1;
    assert_eq!(Inflater::default().headers(&stored), Err(Violation::Headers));
    assert_eq!(Inflater::default().headers(&[0x78, 0x9c, 0, 0, 0, 0, 0]), Err(Violation::Headers));
}

#[test]
fn headers_that_are_not_well_formed_are_refused() {
    let mut cut = block(&[("port", "80")]);
    cut.pop();
    let many: Vec<_> = (0..100).map(|_| ("name", "value")).collect();
    let long = [&1_u32.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat();
    for wrong in [&[][..], &[0; 3], &[0; 5], &cut, &block(&many), &long, &block(&[("Port", "80")])] {
        assert_eq!(Headers::parse(wrong), Err(Violation::Headers), "{wrong:?}");
    }
}

#[test]
fn frames_that_no_client_may_send_are_refused() {
    assert_eq!(Head::parse([0x80, 2, 0, 6, 0, 0, 0, 4]), Err(Violation::Version));
    assert_eq!(Head::parse([0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff]), Err(Violation::Length(0x00ff_ffff)));
    for kind in [1, 2, 3, 6, 8] {
        assert_eq!(
            Control::parse(kind, 0, &[0; 3], &mut Inflater::default()),
            Err(Violation::Control),
            "{kind}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::spdy(&bytes);
    }

    #[test]
    fn a_real_client_gone_wrong_is_read_or_refused(at in 0..98_usize, with: u8) {
        let mut bytes = real();
        bytes[at] = with;
        crate::fuzzing::spdy(&bytes);
    }

    #[test]
    fn headers_come_out_as_they_were(given in prop::collection::vec(("[a-z]{1,20}", "[ -~é]{0,80}"), 0..9), often in 1..40_usize) {
        let given: Vec<_> = given.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (mut client, mut server) = (Storing::default(), Inflater::default());
        // Often enough that the window is gone round.
        for _ in 0..often {
            let headers = server.headers(&client.store(&block(&given))).unwrap();
            for (name, _) in &given {
                let first = given.iter().find(|(other, _)| other == name).unwrap().1;
                prop_assert_eq!(headers.get(name), Some(first));
            }
        }
    }
}
