//! The program under test: `lcm-cli`, built as a binary of this crate so that Cargo tells tests where it is.

fn main() -> std::process::ExitCode {
    lcm_cli::main()
}
