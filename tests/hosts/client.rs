//! The Python client of the wire, `plugins/hermes/__init__.py`: one test for each file of tests in `client`.

use super::run;

#[test]
fn what_is_sent_of_a_list_makes_it_again() {
    run("client/test_lists.py");
}

#[test]
fn a_call_ends_whatever_the_child_does() {
    run("client/test_wire.py");
}

#[test]
fn forks_copies_and_ends_of_the_host_leave_no_child_behind() {
    run("client/test_process.py");
}

#[test]
fn what_threads_say_is_kept_once_whatever_happens_to_the_child() {
    run("client/test_program.py");
}
