//! Orders of preference: segments (memory §2.4) and banks of a segment (memory §2.5), as values and as the 32 bits that a
//! driver or a client writes.

use wddm_types::SegmentId;

/// One segment of an order of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreferredSegment {
    /// Which; 0 ends the order.
    pub segment: SegmentId,
    /// Direction 1: searched from the top. Direction 0: VidMm chooses the end.
    pub top_down: bool,
}

/// `DXGK_SEGMENTPREFERENCE` (memory §2.4): up to five segments, the strongest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentPreference {
    entries: [PreferredSegment; 5],
}

impl SegmentPreference {
    /// No preference.
    pub const NONE: SegmentPreference =
        SegmentPreference { entries: [PreferredSegment { segment: SegmentId::SYSTEM, top_down: false }; 5] };

    /// These segments, VidMm choosing the end; the sixth and later ones are not looked at.
    pub fn of(segments: &[SegmentId]) -> SegmentPreference {
        let mut preference = SegmentPreference::NONE;
        for (entry, &segment) in preference.entries.iter_mut().zip(segments) {
            entry.segment = segment;
        }
        preference
    }

    /// These entries; the sixth and later ones are not looked at.
    pub fn of_entries(entries: &[PreferredSegment]) -> SegmentPreference {
        let mut preference = SegmentPreference::NONE;
        for (entry, &given) in preference.entries.iter_mut().zip(entries) {
            *entry = given;
        }
        preference
    }

    /// From the bits of the C structure: six for each entry. `None` when reserved bits are set.
    pub fn from_bits(bits: u32) -> Option<SegmentPreference> {
        // CAST: five bits.
        let entry = |n: u32| PreferredSegment {
            segment: SegmentId((bits >> (6 * n) & 0x1f) as u8),
            top_down: bits >> (6 * n + 5) & 1 != 0,
        };
        (bits >> 30 == 0).then(|| SegmentPreference { entries: [entry(0), entry(1), entry(2), entry(3), entry(4)] })
    }

    /// The bits of the C structure.
    pub fn bits(self) -> u32 {
        let place = |n: usize, entry: &PreferredSegment| {
            (u32::from(entry.segment.0 & 0x1f) | u32::from(entry.top_down) << 5) << (6 * n)
        };
        self.entries.iter().enumerate().map(|(n, entry)| place(n, entry)).sum()
    }

    /// The entries before the first 0.
    pub fn iter(self) -> impl Iterator<Item = PreferredSegment> {
        self.entries.into_iter().take_while(|entry| !entry.segment.is_system())
    }

    /// The segments before the first 0.
    pub fn segments(self) -> impl Iterator<Item = SegmentId> {
        self.iter().map(|entry| entry.segment)
    }

    /// The strongest.
    pub fn first(self) -> Option<PreferredSegment> {
        self.iter().next()
    }

    /// The same with each segment replaced.
    #[must_use]
    pub fn map(self, replace: impl Fn(SegmentId) -> SegmentId) -> SegmentPreference {
        let entries = self.entries.map(|entry| PreferredSegment { segment: replace(entry.segment), ..entry });
        SegmentPreference { entries }
    }
}

/// One bank of an order of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreferredBank {
    /// 1 to 127; 0 ends the order.
    pub bank: u8,
    /// Searched from the top of the bank.
    pub top_down: bool,
}

/// `DXGK_SEGMENTBANKPREFERENCE` (memory §2.5): up to four banks of the first preferred segment, the strongest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentBankPreference {
    entries: [PreferredBank; 4],
}

impl SegmentBankPreference {
    /// No preference.
    pub const NONE: SegmentBankPreference =
        SegmentBankPreference { entries: [PreferredBank { bank: 0, top_down: false }; 4] };

    /// These banks; the fifth and later ones are not looked at.
    pub fn of(banks: &[PreferredBank]) -> SegmentBankPreference {
        let mut preference = SegmentBankPreference::NONE;
        for (entry, &bank) in preference.entries.iter_mut().zip(banks) {
            *entry = bank;
        }
        preference
    }

    /// From the bits of the C structure: a byte for each entry.
    pub fn from_bits(bits: u32) -> SegmentBankPreference {
        let entries = bits.to_le_bytes().map(|byte| PreferredBank { bank: byte & 0x7f, top_down: byte & 0x80 != 0 });
        SegmentBankPreference { entries }
    }

    /// The bits of the C structure.
    pub fn bits(self) -> u32 {
        u32::from_le_bytes(self.entries.map(|entry| entry.bank & 0x7f | u8::from(entry.top_down) << 7))
    }

    /// The entries before the first 0.
    pub fn iter(self) -> impl Iterator<Item = PreferredBank> {
        self.entries.into_iter().take_while(|entry| entry.bank != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_segments_of_six_bits_each() {
        // spec: memory §2.4
        let entry = |segment, top_down| PreferredSegment { segment: SegmentId(segment), top_down };
        let preference = SegmentPreference::of_entries(&[entry(1, true), entry(31, false), entry(3, true)]);
        assert_eq!(preference.bits(), 0x21 | 0x1f << 6 | 0x23 << 12);
        assert_eq!(SegmentPreference::from_bits(preference.bits()), Some(preference));
        assert_eq!(preference.segments().collect::<Vec<_>>(), [SegmentId(1), SegmentId(31), SegmentId(3)]);
        assert_eq!(SegmentPreference::from_bits(1 << 30), None, "reserved");
        let gap = SegmentPreference::of(&[SegmentId(2), SegmentId(0), SegmentId(4)]);
        assert_eq!(gap.iter().count(), 1, "0 ends the order");
    }

    #[test]
    fn four_banks_of_eight_bits_each() {
        // spec: memory §2.5
        let banks = [PreferredBank { bank: 127, top_down: true }, PreferredBank { bank: 1, top_down: false }];
        let preference = SegmentBankPreference::of(&banks);
        assert_eq!(preference.bits(), 0xff | 1 << 8);
        assert_eq!(SegmentBankPreference::from_bits(preference.bits()), preference);
        assert_eq!(preference.iter().count(), 2);
    }
}
