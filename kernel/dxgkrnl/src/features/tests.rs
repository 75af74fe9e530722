//! Every combination of what kernel, configuration and driver can say of a feature, against the rule written down once
//! more, as a sentence instead of as a sequence.

use ddi::{DriverStatus, FeatureId, FeatureInterface, FeatureSupport};

use super::known::{KNOWN, Known};
use super::{FeatureOff, FeatureOverride, Features, check, decide};

fn support(versions: (u16, u16), by_driver: bool, here: bool) -> FeatureSupport {
    FeatureSupport {
        min_version: versions.0,
        max_version: versions.1,
        supported_by_driver: by_driver,
        supported_on_current_config: here,
    }
}

/// All ranges with ends from 0 to 3, also those that cannot be.
fn ranges() -> impl Iterator<Item = (u16, u16)> + Clone {
    (0..4).flat_map(|least| (0..4).map(move |most| (least, most)))
}

/// The highest number that is in all of the ranges.
fn highest(ranges: &[(u16, u16)]) -> Option<u16> {
    (1..4).rev().find(|version| ranges.iter().all(|(least, most)| least <= version && version <= most))
}

#[test]
fn every_combination_gives_the_table() {
    // spec: sync §3.1 step 4, sync §3.19 item 13
    // seed: N36, N38
    let mut on = 0u64;
    for kernel in std::iter::once(None).chain(ranges().filter(|(least, most)| *least > 0 && least <= most).map(Some)) {
        for of_driver in [false, true] {
            let known =
                Known { feature: FeatureId(31), name: "X", versions: kernel, of_driver, global: false, needs: &[] };
            for off in [false, true] {
                for narrowed in std::iter::once(None).chain(ranges().map(Some)) {
                    for missing in [None, Some("HWSCH")] {
                        for (driver, by_driver, here, fails) in ranges().flat_map(|driver| {
                            (0..8u8).map(move |bits| (driver, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0))
                        }) {
                            let policy = FeatureOverride { off, versions: narrowed, allow_experimental: false };
                            let answer = match fails {
                                true => Err(DriverStatus::InvalidParameter("")),
                                false => Ok(support(driver, by_driver, here)),
                            };
                            let (state, why) = decide(&known, policy, of_driver.then_some(answer), missing);
                            let all = (1, 3);
                            let sides =
                                [kernel.unwrap_or(all), narrowed.unwrap_or(all), if of_driver { driver } else { all }];
                            let sound = driver.0 > 0 && driver.0 <= driver.1;
                            let agreed = !of_driver || (!fails && by_driver && here && sound);
                            let expected = (kernel.is_some() && !off && agreed && missing.is_none())
                                .then(|| highest(&sides))
                                .flatten();
                            let case = format!("{kernel:?} {policy:?} {answer:?} {missing:?}");
                            assert_eq!(state.enabled, expected.is_some(), "{case}");
                            assert_eq!(state.version, expected.unwrap_or(0), "{case}");
                            assert_eq!(why.is_none(), state.enabled, "{case}: off has a reason");
                            assert!(state.known);
                            on += u64::from(state.enabled);
                        }
                    }
                }
            }
        }
    }
    assert!(on > 1_000, "the property is not about nothing: {on}");
}

#[test]
fn an_answer_that_cannot_be_counts_as_off_and_says_so() {
    // spec: sync §3.1 step 3
    for (answer, word) in [
        (support((0, 1), true, true), "MinSupportedVersion"),
        (support((2, 1), true, true), "below"),
        (support((1, 1), false, false), "not supported"),
    ] {
        let error = check(answer).expect_err(word);
        assert!(matches!(error, FeatureOff::Contradiction(_)) && error.to_string().contains(word), "{error}");
    }
    for answer in [support((0, 0), false, false), support((1, 7), true, false)] {
        check(answer).expect("sound");
    }
}

#[test]
fn the_interface_comes_with_the_negotiated_version_only() {
    // spec: sync §3.1 step 6
    // seed: N39, N41
    let known = KNOWN.iter().find(|known| known.feature == FeatureId::NATIVE_FENCE).unwrap();
    for (driver, on) in [((1, 1), true), ((1, 9), true), ((2, 9), false)] {
        let decided = decide(known, FeatureOverride::default(), Some(Ok(support(driver, true, true))), None);
        let states = [(FeatureId::NATIVE_FENCE, decided), (FeatureId(1), decided)].into();
        let features = Features { states, native_fence: ddi::NativeFenceOsCaps::default() };
        let given = features.interface(FeatureId::NATIVE_FENCE, 1);
        assert_eq!(matches!(given, Ok(FeatureInterface::NativeFence1(_))), on);
        if !on {
            assert!(matches!(given, Err(DriverStatus::Unsuccessful(_))), "{given:?}");
        }
        assert_eq!(features.interface(FeatureId(1), 1).is_ok(), on, "a feature without a table succeeds with none");
        for version in [0, 2] {
            assert!(matches!(features.interface(FeatureId::NATIVE_FENCE, version), Err(DriverStatus::Unsuccessful(_))));
        }
        assert!(matches!(features.interface(FeatureId(77), 1), Err(DriverStatus::InvalidParameter(_))));
    }
}

#[test]
fn needs_stand_before_those_who_need_them_and_ids_are_told_once() {
    // spec: sync §6 B21
    for (place, known) in KNOWN.iter().enumerate() {
        for need in known.needs {
            assert!(KNOWN[..place].iter().any(|before| before.feature == *need), "{}", known.name);
        }
        assert!(KNOWN[..place].iter().all(|before| before.feature != known.feature), "{}", known.name);
    }
}

#[test]
fn features_of_the_operating_system_have_names() {
    // spec: sync §2.10
    let names = [
        "QUERYSTATISTICS_EXTENSIONS",
        "RESERVE_GPUVA_ZERO_BASE_ADDRESS",
        "PER_PTE_PAGE_SIZE",
        "FENCE_SIGNAL_FROM_SWS_NODE",
        "SUPPRESSVSYNC_INTERRUPTS",
        "FEATURE_INTERFACE_EXTENSIONS",
        "READONLY_EXISTINGSYSMEM",
        "OPPORTUNISTIC_64KB_PAGES",
    ];
    for (number, name) in (0x1000_0000..).zip(names) {
        assert_eq!(super::known::name(FeatureId(number)), name, "{number:#x}");
    }
}
