//! Files of adapters: the round trip of each profile, and the place and the rule of each refusal.

use super::keys::KEYS;
use super::*;

fn wrong(text: &str) -> FileError {
    Profile::from_toml(text).expect_err(text)
}

/// The printed file of a profile with one line changed.
fn changed(profile: &str, from: &str, to: &str) -> String {
    let text = Profile::named(profile).expect("a built-in profile").to_toml();
    assert_eq!(text.matches(&format!("\n{from}\n")).count(), 1, "{from} in\n{text}");
    text.replace(&format!("\n{from}\n"), &format!("\n{to}\n"))
}

#[test]
fn a_printed_profile_is_read_back_as_the_same_adapter() {
    for profile in PROFILES {
        let text = profile.to_toml();
        let read = Profile::from_toml(&text).unwrap_or_else(|wrong| panic!("{}: {wrong}\n{text}", profile.name));
        assert_eq!(read, profile, "{text}");
        assert_eq!(read.to_toml(), text);
    }
}

#[test]
fn every_name_reaches_its_field() {
    // A value of each name that no other test has, as far as the form leaves one: the draft that reads it writes it.
    for key in KEYS {
        let mut draft = Draft::of(&PROFILES[0]);
        let before = (key.write)(&draft);
        let others = [
            "true",
            "false",
            "7",
            "\"8KiB\"",
            "\"32\"",
            "\"64KiB\"",
            "\"oldest\"",
            "\"contiguous\"",
            "[9, 9, 12]",
            "[\"standby\"]",
            "\"second\"",
            "\"iommu\"",
            "\"cpu-virtual\"",
            "\"doorbells\"",
            "\"aperture\"",
            "\"2.9\"",
            "\"other\"",
            "\"1f:02.7\"",
            "0x09",
            "0x0009",
        ];
        // What is written with so many hexadecimal digits is read with them.
        let digits = |text: &str| if text.starts_with("0x") { text.len() } else { 0 };
        let differs = |other: &&&str| **other != before && digits(other) == digits(&before);
        let taken = others.iter().filter(differs).find_map(|other| {
            let value = DeValue::parse(other).expect("a value");
            (key.read)(&mut draft, value.get_ref()).ok().map(|()| other)
        });
        let written = (key.write)(&draft);
        assert_ne!(written, before, "{} takes {taken:?}", key.name);
        assert_eq!(Some(&written.as_str()), taken, "{}", key.name);
    }
}

#[test]
fn a_file_of_few_lines_is_an_adapter() {
    let text = "name = \"mine\"\nwddm = \"2.0\"\n[memory]\nvram = \"96MiB\"\n[engines]\nhardware_scheduling = false\n[fences]\nnative = false\n";
    let mine = Profile::from_toml(text).expect("an adapter");
    assert_eq!((mine.name, mine.vram_bytes, mine.has_hardware_queues()), ("mine", 96 << 20, false));
    assert_eq!(mine.driver.ddi_version, Some(ddi::DdiVersion::WDDM_2_0));
    assert_eq!(mine.timing, PROFILES[0].timing);
    let again = Profile::from_toml(text).expect("an adapter");
    assert!(std::ptr::eq(mine, again), "one text is kept once");
}

#[test]
fn every_level_starts_with_packets() {
    for (level, version) in ddi::DdiVersion::LEVELS {
        let text =
            format!("name = \"l\"\nwddm = \"{level}\"\nengines.hardware_scheduling = false\nfences.native = false\n");
        let profile = Profile::from_toml(&text).unwrap_or_else(|wrong| panic!("{level}: {wrong}"));
        assert_eq!(profile.driver.ddi_version(), version);
    }
}

#[test]
fn a_wrong_value_is_refused_at_its_line_with_what_there_is() {
    for (text, line, column, says) in [
        ("name = \"x\"\n[memory]\nvram = 0\n", 3, 1, "memory.vram: 0 bytes are not from \"4KiB\" to \"16TiB\""),
        ("name = \"x\"\nmemory.vram = \"8 GoB\"\n", 2, 8, "\"GoB\" is no unit"),
        ("name = \"x\"\nmemory.page = \"8KiB\"\n", 2, 8, "give one of \"4KiB\", \"64KiB\""),
        ("name = \"x\"\nwddm = 3.2\n", 2, 1, "wddm: it cannot be 3.2; give one of \"1.0\""),
        ("name = \"x\"\nwddm = \"3.3\"\n", 2, 1, "\"3.2\""),
        ("name = \"a b\"\n", 1, 1, "letters, digits"),
        (
            "name = \"x\"\n[engines]\ndorbells = 1\n",
            3,
            1,
            "there is no engines.dorbells; there are engines.hardware_scheduling",
        ),
        ("name = \"x\"\n\n[motors]\ncount = 1\n", 3, 2, "there is no motors; there are name"),
        ("name = \"x\"\n[choices]\npromote = 3\n", 3, 1, "promote cannot be \"3\": on or off"),
        ("name = \"x\"\n[choices]\npromotes = true\n", 3, 1, "no choice is called \"promotes\""),
        ("name = \"x\"\nname = \"y\"\n", 2, 1, "duplicate key"),
        ("name = \n", 1, 8, "string"),
        ("wddm = \"3.2\"\n", 1, 1, "the adapter has no name"),
        ("name = \"x\"\n[pci]\nvendor = 0xffff\n", 3, 1, "pci.vendor: 0xffff is not from 0x0000 to 0xfffe"),
        ("name = \"x\"\npci.subsystem = 65536\n", 2, 5, "0x10000 is not from 0x0000 to 0xffff, which has 16 bits"),
        ("name = \"x\"\npci.revision = 256\n", 2, 5, "0x100 is not from 0x00 to 0xff, which has 8 bits"),
        ("name = \"x\"\npci.device = \"2684\"\n", 2, 5, "it cannot be \"2684\"; give a number from 0x0000"),
        ("name = \"x\"\npci.address = \"01:20.0\"\n", 2, 5, "it cannot be \"01:20.0\"; give a bus to ff"),
        ("name = \"x\"\npci.bus_type = \"usb\"\n", 2, 5, "\"pci-express\""),
        ("name = \"x\"\n[pci]\nslot = 1\n", 3, 1, "there is no pci.slot; there are pci.vendor"),
        ("name = \"x\"\nengines.doorbells = -1\n", 2, 9, "it cannot be -1; give a number from 0 to"),
    ] {
        let error = wrong(text);
        assert!(error.problem.contains(says), "{text}: {error}");
        assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
    }
}

/// The rules of the driver and of adapter start, and those of the draft, each at the line that breaks it.
#[test]
fn a_broken_rule_is_refused_at_the_line_that_breaks_it() {
    for (profile, from, to, says) in [
        ("discrete-4k", "ring = \"64KiB\"", "ring = 5000", "a ring is a power of two"),
        ("discrete-4k", "max_in_flight = 256", "max_in_flight = 0", "the buffers in flight are limited"),
        ("discrete-4k", "bar_window_pages = 0", "bar_window_pages = 16", "behind a resized BAR or behind a window"),
        ("discrete-4k", "banks = 0", "banks = 4", "only the first generation has banks"),
        ("discrete-4k", "wddm = \"3.2\"", "wddm = \"3.1\"", "native fences, which exist from WDDM 3.2 on"),
        ("discrete-4k", "native = true", "native = false", "fences.native is as engines.hardware_scheduling"),
        ("discrete-4k", "index_bits = [9, 9, 9, 9]", "index_bits = [9]", "2 to 6 page-table levels"),
        ("levels-2", "dual_entries = false", "dual_entries = true", "dual entries stand between the root"),
        (
            "wddm2-packets",
            "map_aperture2 = false",
            "map_aperture2 = true",
            "MapAperture2Supported exists from WDDM 2.9 on",
        ),
        ("wddm1-banks", "translation = \"gpu-mmu\"", "translation = \"iommu\"", "the first generation does not share"),
        ("discrete-4k", "layout = \"memory\"", "layout = \"two-apertures\"", "aperture"),
        ("discrete-4k", "hidden = 0", "hidden = \"1MiB\"", "memory.hidden belongs to two memories"),
        ("integrated", "hidden = 0", "hidden = 4096", "memory.hidden belongs to two memories"),
        ("flip-queue", "period_ns = 16666667", "period_ns = 0", "a display has 100000 ns at least"),
        ("flip-queue", "queue_entries = 16", "queue_entries = 0", "room for a flip"),
        // Each type and each way of native fences alone, on an adapter without them.
        ("wddm2-packets", "local_monitored = false", "local_monitored = true", "types of native fences"),
        ("wddm2-packets", "intra_gpu = false", "intra_gpu = true", "types of native fences"),
        ("wddm2-packets", "optimized_interrupt = false", "optimized_interrupt = true", "belongs to native fences"),
        ("wddm2-packets", "peers = \"none\"", "peers = \"linear-storage\"", "fences.peers needs native fences"),
    ] {
        let text = changed(profile, from, to);
        let error = match Profile::from_toml(&text) {
            Err(error) => error,
            Ok(_) => panic!("{profile} with {to} starts"),
        };
        assert_eq!(text.lines().nth(error.line - 1), Some(to), "{error}");
        assert!(error.problem.contains(says) && error.problem.contains("a rule is broken"), "{error}");
    }
}

#[test]
fn a_text_is_a_name_or_a_path() {
    assert_eq!(Profile::asked("discrete-64k"), Ok(Profile::named("discrete-64k").expect("built in")));
    let unknown = Profile::asked("discrete").expect_err("none has this name");
    assert!(unknown.to_string().contains("\"discrete\"") && unknown.to_string().contains(".toml"), "{unknown}");
    let unread = Profile::asked("/nowhere/gpu.toml").expect_err("no such file");
    assert!(matches!(&unread, ProfileError::Unread { path, .. } if path == "/nowhere/gpu.toml"), "{unread}");
}
