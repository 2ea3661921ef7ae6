//! How long a call takes, from start to exit. Ignored: it judges a machine, and a build.
//!
//! `cargo test --test hooks -- --ignored --nocapture how_long`

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::host::{AGENT, Host, messages, requests};

/// Half of the calls take no longer. The filter is left out, because starting its launcher is no part of a call.
fn p50(host: &Host, request: &str) -> Duration {
    let hook = host.data().parent().unwrap().join("plugins/lcm/hooks/lcm-hook");
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            let begun = Instant::now();
            let mut command = Command::new(&hook);
            command.env_clear().env("LIBREFANG_AGENT_ID", AGENT).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
            let done = child.wait_with_output().unwrap();
            assert!(done.status.success());
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
#[ignore = "it judges a machine"]
fn how_long_a_call_takes() {
    let host = Host::new();
    let window = messages(5_000, "a window of many messages");
    let large =
        format!(r#"{{"type":"assemble","agent_id":"{AGENT}","messages":{window},"context_window_tokens":200000}}"#);
    let small = requests().swap_remove(1).1;
    println!("alone, small: {:?}", p50(&host, &small));
    println!("alone, {} bytes: {:?}", large.len(), p50(&host, &large));
    let server = host.serve();
    println!("served, small: {:?}", p50(&host, &small));
    println!("served, {} bytes: {:?}", large.len(), p50(&host, &large));
    server.end();
}
