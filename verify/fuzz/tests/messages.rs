//! Messages that no client sends, and what the client beside them has locked meanwhile.

#[test]
fn no_message_breaks_the_daemon_or_what_it_lends() {
    // spec: memory §6.3
    let report = fuzz::run_messages(1, 6_000).unwrap_or_else(|failure| panic!("{failure}"));
    // That video memory is lent, to those who send them and to the one beside, is looked at there.
    assert!(report.answered > 3_000 && report.connections > 100, "{report}");
}
