//! What SPDY/3 takes as known before the first header: a dictionary of names, each behind its length, and of pieces
//! of values. Its bytes are part of the protocol.

/// What zlib calls the dictionary by: its Adler-32 sum.
pub(super) const ID: [u8; 4] = [0xe3, 0xc6, 0xa7, 0xc2];

/// Names, and some of the values, in the order of the protocol.
const NAMES: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding \
    content-language content-length content-location content-md5 content-range content-type date etag expect \
    expires from host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified \
    location max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te \
    trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200_OK \
    version HTTP/1.1 url public set-cookie keep-alive origin";

/// Values without lengths.
const VALUES: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized\
    403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
    text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// The whole of it.
pub(super) fn bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    for name in NAMES.split(' ') {
        bytes.extend_from_slice(&u32::try_from(name.len()).unwrap_or_default().to_be_bytes());
        bytes.extend(name.bytes().map(|byte| if byte == b'_' { b' ' } else { byte }));
    }
    bytes.extend_from_slice(VALUES.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adler-32, as RFC 1950 defines it.
    fn sum(bytes: &[u8]) -> u32 {
        let (a, b) = bytes.iter().fold((1_u32, 0_u32), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65521;
            (a, (b + a) % 65521)
        });
        b << 16 | a
    }

    #[test]
    fn the_dictionary_has_the_sum_that_every_peer_names() {
        assert_eq!(bytes().len(), 1423);
        assert_eq!(sum(&bytes()).to_be_bytes(), ID);
    }
}
