//! Compress with the extractive summariser, as a host meets it: 200k tokens of the bundled sample, already taken in.
//!
//! Every round has a list of its own, told apart by its first message: an equal list is known under any session's name,
//! its summaries are used again, and nothing would be measured.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use lcm_benches::host::Host;
use lcm_core::Json;
use lcm_engine::compress::CompressOptions;
use lcm_engine::service::{CompressRequest, InMessage, Service, TurnRequest};

/// What the list costs, about.
const TOKENS: u64 = 200_000;
/// What it is brought under.
const THRESHOLD: u64 = 96_000;
const AGENT: &str = "bench";

/// The sample's messages, one session behind the other and again from the start, up to so many tokens.
fn messages(host: &Host) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/sample/sample.sessions.jsonl.gz");
    let file = std::fs::File::open(&path).expect("the sample lies in the checkout");
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).expect("the sample is whole");
    let sessions: Vec<Json> =
        text.lines().map(|line| Json::parse(line.as_bytes()).expect("the sample is JSON")).collect();
    let lists: Vec<&[Json]> =
        sessions.iter().filter_map(|session| session.get("messages").and_then(Json::as_array)).collect();
    let mut messages = Vec::new();
    let mut tokens = 0;
    for message in lists.iter().copied().flatten().cycle() {
        // A system message stands at the head of a list and nowhere else.
        if message.get("role").and_then(Json::as_str) == Some("system") {
            continue;
        }
        let message = message.to_text();
        tokens += host.engine().weigh(&InMessage::list([message.clone()])).expect("it is a message");
        if tokens > TOKENS {
            return messages;
        }
        messages.push(message);
    }
    messages
}

fn compress(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for the store");
    let host = Host::open(&folder.path().join("lcm")).expect("a new store");
    let messages = messages(&host);
    let request = |turn: TurnRequest| CompressRequest {
        force: true,
        ..CompressRequest::new(turn, CompressOptions { threshold_tokens: THRESHOLD, ..CompressOptions::default() })
    };
    let mut group = criterion.benchmark_group("compress");
    group.sample_size(20).measurement_time(Duration::from_secs(10));
    let mut round = 0;
    group.bench_function("200k tokens, extractive, first", |bencher| {
        bencher.iter_batched(
            || {
                round += 1;
                let first = format!(r#"{{"role":"user","content":"This is round {round}."}}"#).into_bytes();
                let list = std::iter::once(first).chain(messages.iter().cloned()).collect();
                let turn = host.turn(AGENT, &format!("round {round}"), list);
                host.engine().turn(&turn).expect("it is taken in");
                request(turn)
            },
            |request| {
                let done = host.engine().compress(&request).expect("it is compressed");
                assert!(done.turned.op.is_some(), "summaries were used again: {:?}", done.reason);
                done
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, compress);
criterion_main!(benches);
