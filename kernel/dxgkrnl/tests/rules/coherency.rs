//! Coherency and swizzling at adapter start: settings for which a generation or a platform has no place.

use super::*;
use crate::start_without_coherency;

#[test]
fn every_gpu_of_a_coherent_platform_snoops() {
    // spec: memory §6.7
    // seed: M09, U32
    let mut apart = Answers::default();
    apart.segments[1].flags.remove(SegmentFlags::CACHE_COHERENT);
    let tables = Answers { mmu_flags: GpuMmuFlags::empty(), ..Answers::default() };
    let mut old = first_generation(DdiVersion::WDDM_1_3);
    old.segments3[1].flags.remove(SegmentFlags::CACHE_COHERENT);
    let mut second = first_generation(DdiVersion::WDDM_1_3);
    let mut other = second.segments3[1].clone();
    (other.base_address, other.flags) = (1 << 45, SegmentFlags::APERTURE);
    second.segments3.push(other);
    let rows = [
        ("an aperture on a coherent platform needs CacheCoherent", second),
        ("an aperture on a coherent platform needs CacheCoherent", apart),
        ("page tables on a coherent platform need CacheCoherentMemorySupported", tables),
        ("an aperture on a coherent platform needs CacheCoherent", old),
    ];
    for (rule, answers) in rows {
        expect_error(answers.clone(), rule);
        start_without_coherency(answers).expect("on a platform that is not coherent no GPU has to snoop");
    }
}

#[test]
fn swizzling_ranges_have_gone_with_the_first_generation() {
    // spec: memory §6.5
    // seed: U11, U33
    expect_error(Answers { has_swizzling: true, ..Answers::default() }, "swizzling ranges are WDDM 1");
    expect_error(Answers { has_swizzling: true, ..Answers::packets_only() }, "swizzling ranges are WDDM 1");
    let old = Answers { has_swizzling: true, ..first_generation(DdiVersion::WDDM_1_3) };
    start(old, vec![]).0.expect("there they are");
}
