//! What is fuzzed: one function for each target, from any bytes to nothing.
//!
//! A function here panics when a promise is broken, and only then. It is the same code whoever brings the bytes: the
//! fuzzer (`targets/`, started by `run`), or the test below, which replays what is stored in `corpus/`.

mod canon;
mod import;
mod wire;

pub use canon::canon;
pub use import::import;
pub use wire::wire;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Runs a target on each file of a folder, in the order of their names.
    fn replay(folder: &str, target: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut inputs: Vec<_> =
            fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "there is nothing to replay");
        for input in inputs {
            println!("{}", input.display());
            target(&fs::read(&input).expect("an input"));
        }
    }

    #[test]
    fn stored_inputs_of_canon_keep_its_promises() {
        replay("corpus/canon", super::canon);
    }

    #[test]
    fn stored_inputs_of_import_keep_its_promises() {
        replay("corpus/import", super::import);
        // Whole files of users, which are too long for the fuzzer.
        replay("../tests/fixtures/import", super::import);
    }

    #[test]
    fn stored_inputs_of_wire_keep_its_promises() {
        replay("corpus/wire", super::wire);
    }
}
