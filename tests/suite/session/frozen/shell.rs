//! Shells that are frozen by their user or at a notice, and go on.

use super::is_taken;
use crate::session::site::{SESSION, Site};
use crate::session::terminal::ends;

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
fn a_shell_goes_on_where_it_was_with_its_variables_and_jobs() {
    let site = Site::with_a_drive();
    let words = ["connect", "demo", "--freeze", "--no-jupyter", "--resume"];
    let mut pty = site.in_terminal(&words);
    pty.see_within(SESSION, "# ");
    pty.type_in("WORD=$((6*7))-is-kept; sleep 1000 & echo begun-$((6*7))\r");
    pty.see_within(SESSION, "begun-42");
    pty.type_in("\r~f");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    assert!(pty.modes_are_as_before(), "{}", pty.contents());
    pty.see("froze the shell (");
    site.is_saved("demo", 2);

    let mut back = site.in_terminal(&words);
    back.see_within(SESSION, "the shell goes on where it was");
    back.type_in("echo \"and $WORD\"; jobs\r");
    back.see_within(SESSION, "and 42-is-kept");
    back.see_within(SESSION, "sleep 1000");
    is_taken(&site, &back, "the shell");
    back.type_in("WORD=still-$WORD; echo $WORD\r");
    back.see_within(SESSION, "still-42-is-kept");
    back.type_in("exit 4\r");
    ends(back, &site, 4, 4);
    let listed = site.run(&["ls", "demo:/v1/xdrive/frozen"]);
    assert_eq!(listed.stdout, "");
}
