//! `lcm-cli`: the program. All of it is in the library, so that tests can call it.

fn main() -> std::process::ExitCode {
    lcm_cli::main()
}
