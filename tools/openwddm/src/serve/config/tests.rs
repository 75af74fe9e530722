//! The configuration: its defaults, its layers, and its errors.

use dxgkd::UNLIMITED;

use super::*;

fn read(text: &str) -> Result<Config, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

fn limits(text: &str) -> Limits {
    read(text).expect("a configuration").limits()
}

#[test]
fn the_printed_file_says_the_defaults_and_every_name() {
    let said = read(DEFAULT).expect("it is read");
    assert_eq!(said.limits(), Limits::default());
    assert_eq!((said.mode, said.sandbox, said.log), (Some(Mode(0o600)), Some(true), Some(LogLevel::Info)));
    assert!(said.tdr.is_none(), "no watch");
    // The commented lines are right, too.
    let all: String = DEFAULT
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    let said = read(&all).expect("it is read");
    assert_eq!((said.adapter.len(), said.socket), (1, Some("/run/openwddm/kernel".into())));
    let HangArguments { delay, level, ddi_delay, limit } = said.tdr.expect("the watch");
    assert!(delay.is_some() && level.is_some() && ddi_delay.is_some() && limit.is_some());
    let documented = dxgk_host::RecoveryPolicy::default();
    assert_eq!(said.tdr.expect("the watch").policy().expect("a policy"), documented);
    let of = said.users.get(&UserNumber(1000)).expect("a user");
    assert_eq!((of.memory, of.process.answer_ms), (Some(Amount(4 << 30)), Some(Count(500))));
    // Every name has a value there, or the parts would have others.
    let ProcessPart {
        handles,
        sync_objects,
        memory,
        locked_video,
        queued,
        descriptors,
        lanes,
        unheard,
        answer_ms,
        clearing_percent,
        budget,
        messages,
        raise_priority,
    } = said.process;
    let counts = [handles, sync_objects, queued, descriptors, lanes, unheard, answer_ms, clearing_percent];
    assert!(
        counts.iter().all(Option::is_some)
            && memory.is_some()
            && locked_video.is_some()
            && budget.is_some()
            && messages.is_some()
            && raise_priority.is_some()
    );
    let UserPart {
        processes,
        handles,
        sync_objects,
        memory,
        locked_video,
        queued,
        descriptors,
        lanes,
        unheard,
        messages,
    } = said.user;
    let counts = [processes, handles, sync_objects, queued, descriptors, lanes, unheard];
    assert!(counts.iter().all(Option::is_some) && [memory, locked_video, messages].iter().all(Option::is_some));
}

#[test]
fn what_is_not_said_is_the_default_and_a_user_has_its_own() {
    let said = limits(
        "[process]\nhandles = 5\n[user]\nlanes = 9\n[users.7]\nprocesses = 2\nprocess.queued = 3\nprocess.budget = \"1GiB\"\nprocess.raise_priority = true\n",
    );
    let default = Limits::default();
    assert_eq!(said.process, ProcessLimits { handles: 5, ..default.process });
    assert_eq!(said.user, UserLimits { lanes: 9, ..default.user });
    let seven = said.of(7);
    let (budget_bytes, raise_priority) = (1 << 30, true);
    assert_eq!(seven.process, ProcessLimits { handles: 5, queued: 3, budget_bytes, raise_priority, ..default.process });
    assert_eq!(seven.user, UserLimits { lanes: 9, processes: 2, ..default.user });
    assert_eq!(said.of(8).user, said.user);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_its_name() {
    for (text, line, parts) in [
        ("processes = 1\nhandels = 5", "line 2", &["handels", "unknown field", "processes"][..]),
        ("[process]\nhandels = 5", "line 2", &["handels", "sync_objects"]),
        ("[process]\n\nhandles = \"many\"", "line 3", &["handles", "\"many\" is no limit", "unlimited"]),
        ("[process]\nhandles = 0", "line 2", &["handles", "0 is no limit"]),
        ("[process]\nhandles = -4", "line 2", &["handles", "-4 is no limit"]),
        ("[process]\nhandles = 1.5", "line 2", &["handles", "a number from 1 on"]),
        ("[process]\nhandles = [1]", "line 2", &["handles", "a number from 1 on"]),
        ("[user]\nmemory = \"lots\"", "line 2", &["memory", "no amount of memory"]),
        ("[process]\nlocked_video = \"much\"", "line 2", &["locked_video", "no amount of memory"]),
        ("[user]\nmemory = \"50%\"", "line 2", &["memory", "no workload"]),
        ("[user]\nanswer_ms = 1", "line 2", &["answer_ms", "unknown field"]),
        ("mode = \"999\"", "line 1", &["mode", "three octal digits"]),
        ("mode = 600", "line 1", &["mode", "expected a string"]),
        ("[[adapter]]\nprofile = \"no-such\"", "line 2", &["profile", "no-such", "openwddm adapters"]),
        ("[[adapter]]\nvram = \"1GiB\"", "line 1", &["adapter", "profile"]),
        ("[users.bob]\nlanes = 1", "line 1", &["bob", "no number of a user"]),
        ("[process]\nraise_priority = 1", "line 2", &["raise_priority", "boolean"]),
        ("sandbox = 1", "line 1", &["sandbox", "boolean"]),
        ("processes = ", "line 1", &["processes"]),
        ("log = \"loud\"", "line 1", &["log", "loud", "debug"]),
        ("[tdr]\ndelay = 0", "line 2", &["delay", "0.000001 to 900"]),
        ("[tdr]\n\nlevel = \"never\"", "line 3", &["level", "never", "bugcheck"]),
        ("[tdr]\nlimit = 5", "line 2", &["limit", "string"]),
        ("[tdr]\nlimit = \"5/0\"", "line 2", &["limit", "5/60"]),
        ("[tdr]\ndely = 2", "line 2", &["dely", "delay"]),
    ] {
        let problem = read(text).expect_err(text);
        for part in parts.iter().chain([&line]) {
            assert!(problem.contains(part), "{part} is missing in what is said of {text:?}:\n{problem}");
        }
    }
}

#[test]
fn a_limit_on_the_command_line_holds_instead_of_the_files() {
    let file = read("processes = 3\n[process]\nhandles = 5\nqueued = 6\n[users.7]\nlanes = 2\n").expect("a file");
    let mut said = file;
    for text in [
        "process.handles=8",
        "user.memory=1GiB",
        "users.7.unheard=4",
        "process.queued=unlimited",
        "user.locked_video=2GiB",
    ] {
        said = Config::limit(text).expect(text).over(said);
    }
    let limits = said.limits();
    assert_eq!((limits.processes, limits.process.handles, limits.process.queued), (3, 8, UNLIMITED));
    assert_eq!((limits.user.memory_bytes, limits.user.locked_video_bytes), (1 << 30, 2 << 30));
    assert_eq!(limits.process.locked_video_bytes, ProcessLimits::default().locked_video_bytes);
    assert_eq!((limits.of(7).user.lanes, limits.of(7).user.unheard), (2, 4));
    for (text, part) in [
        ("process.handles", "NAME=VALUE"),
        ("process.handels=4", "handels"),
        ("process.handles=many", "no limit"),
        ("mode=600", "string"),
        ("sandbox=no", "boolean"),
        ("socket=/tmp/x", "is no limit"),
    ] {
        let problem = Config::limit(text).expect_err(text);
        assert!(problem.contains(part), "{part} is missing in {problem}");
    }
}
