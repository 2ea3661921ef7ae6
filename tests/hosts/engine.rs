//! The engine for the Hermes Agent, `plugins/hermes/__init__.py`, in the hands of a host that stands in for it.

use super::run;

#[test]
fn what_goes_wrong_at_night_costs_no_turn_and_no_message() {
    run("engine/test_bad_cases.py");
}

#[test]
fn a_host_that_goes_by_its_contract_or_does_not_is_never_harmed() {
    run("engine/test_engine.py");
}
