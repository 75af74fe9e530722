//! Expands gzip as `gzip` itself does: several members one after the other, and zeros behind the last one (tapes and
//! block devices pad files so). Other bytes behind the last member are damage. Called by `source`.

use std::io::{self, Read};

use flate2::bufread::GzDecoder;

use crate::Fault;

/// The first bytes of every gzip member.
pub(crate) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Expands a gzip stream into at most `limit` bytes.
pub(crate) fn expand(raw: &[u8], limit: u64) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    let mut rest = raw;
    loop {
        let mut member = GzDecoder::new(rest);
        let room = limit + 1 - text.len() as u64; // the loop below ends before the text is longer than the limit
        match (&mut member).take(room).read_to_end(&mut text) {
            Ok(_) if text.len() as u64 > limit => return Err(Fault::TooLarge { limit }),
            Ok(_) => rest = member.into_inner(),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Fault::CutGzip { bytes: raw.len() as u64 });
            }
            Err(e) => return Err(Fault::BrokenGzip { expanded: text.len() as u64, what: e.to_string() }),
        }
        if rest.iter().all(|byte| *byte == 0) {
            return Ok(text);
        }
        if !rest.starts_with(&MAGIC[..rest.len().min(MAGIC.len())]) {
            let what = format!("{} bytes stand behind the last member that are neither zeros nor gzip", rest.len());
            return Err(Fault::BrokenGzip { expanded: text.len() as u64, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        to.write_all(text).unwrap();
        to.finish().unwrap()
    }

    #[test]
    fn a_gzip_bomb_stops_at_the_limit() {
        let bomb = gzip(&vec![b' '; 1 << 20]);
        assert!(bomb.len() < 4096, "the bomb is small");
        assert!(matches!(expand(&bomb, 1 << 16), Err(Fault::TooLarge { limit: 0x10000 })));
        assert_eq!(expand(&bomb, 1 << 20).unwrap().len(), 1 << 20, "exactly the limit still fits");
        let twice = [&bomb[..], &bomb[..]].concat();
        assert!(matches!(expand(&twice, (2 << 20) - 1), Err(Fault::TooLarge { .. })), "members together");
        assert_eq!(expand(&twice, 2 << 20).unwrap().len(), 2 << 20);
    }

    #[test]
    fn cut_and_damaged_gzip_are_told_apart() {
        let whole = gzip(br#"{"format": "none"}"#);
        assert!(matches!(expand(&whole[..whole.len() - 3], 100), Err(Fault::CutGzip { .. })));
        let mut damaged = whole.clone();
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        assert!(matches!(expand(&damaged, 100), Err(Fault::BrokenGzip { .. })));
        let second_cut = [&whole[..], &whole[..whole.len() - 9]].concat();
        assert!(matches!(expand(&second_cut, 100), Err(Fault::CutGzip { .. })));
    }

    #[test]
    fn members_follow_each_other_and_zeros_the_last() {
        let (one, two) = (gzip(b"one"), gzip(b"two"));
        let several = [&one[..], &two[..], &[0; 512]].concat();
        assert_eq!(expand(&several, 100).unwrap(), b"onetwo");
        let stranger = [&one[..], b"\0\0garbage"].concat();
        let Err(Fault::BrokenGzip { expanded: 3, what }) = expand(&stranger, 100) else { panic!("garbage was read") };
        assert!(what.contains("9 bytes"), "{what}");
    }
}
