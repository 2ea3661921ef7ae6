//! The store as a host meets it, on the bundled sample: open, a turn, searches, reading back.
//!
//! Small and quick, to see what a change does; figures that are compared with others come from `lcm-perf`.

use std::hint::black_box;
use std::io::Read;
use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use lcm_benches::host::Host;
use lcm_benches::workload::Said;
use lcm_core::Json;
use lcm_engine::service::{GrepRequest, Pattern, ReadRequest, SearchMode, SearchRequest, Service};
use lcm_store::{Grep, Pace, Words};

/// The messages of the sample, all sessions behind each other.
fn sample() -> Vec<Said> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/sample/sample.sessions.jsonl.gz");
    let file = std::fs::File::open(&path).expect("the sample lies in the checkout");
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).expect("the sample is whole");
    let mut said = Vec::new();
    for line in text.lines() {
        let session = Json::parse(line.as_bytes()).expect("the sample is JSON");
        for message in session.get("messages").and_then(Json::as_array).unwrap_or_default() {
            let json = String::from_utf8(message.to_text()).expect("the sample has no half surrogates");
            said.push(Said { json, seen_ms: 0 });
        }
    }
    said
}

fn store(criterion: &mut Criterion) {
    let said = sample();
    let folder = tempfile::tempdir().expect("a folder for the store");
    let home = folder.path().join("lcm");
    let host = Host::open(&home).expect("a new store");
    host.say("sample", 0, &said).expect("the sample comes in");
    host.engine().store().catch_up(Pace::Bulk, &|_| {}).expect("the index is made");
    let session = host.session("sample").expect("it is there");

    criterion.bench_function("open", |bencher| bencher.iter(|| Host::open(black_box(&home)).expect("it opens")));
    let mut turns = 0;
    criterion.bench_function("turn of 4, durable", |bencher| {
        bencher.iter_batched(
            || {
                turns += 1;
                let one = |i| Said { json: format!(r#"{{"role":"user","content":"turn {turns}, {i}"}}"#), seen_ms: 0 };
                (format!("turn {turns}"), (0..4).map(one).collect::<Vec<_>>())
            },
            |(name, messages)| host.say(&name, 0, &messages).expect("it is kept"),
            BatchSize::SmallInput,
        );
    });
    criterion.bench_function("words", |bencher| {
        let request = SearchRequest {
            scope: host.scope(Some(session)),
            words: Words::new("error message"),
            mode: SearchMode::Words,
        };
        bencher.iter(|| host.engine().search(black_box(&request)).expect("it answers"));
    });
    criterion.bench_function("ranked", |bencher| {
        let request = SearchRequest {
            scope: host.scope(Some(session)),
            words: Words::new("which file holds the agent session"),
            mode: SearchMode::Ranked,
        };
        bencher.iter(|| host.engine().search(black_box(&request)).expect("it answers"));
    });
    criterion.bench_function("grep, regex", |bencher| {
        let request = GrepRequest {
            scope: host.scope(None),
            grep: Grep::new(Pattern::Regex(r"import \{ \w+ \}".to_owned())),
            whole_words: false,
            lines: None,
        };
        bencher.iter(|| host.engine().grep(black_box(&request)).expect("it answers"));
    });
    criterion.bench_function("read 100 messages", |bencher| {
        let request = ReadRequest {
            scope: host.scope(Some(session)),
            session,
            timeline: None,
            from: None,
            max: 100,
            bytes_max: usize::MAX,
        };
        bencher.iter(|| host.engine().read(black_box(&request)).expect("it answers"));
    });
}

criterion_group!(benches, store);
criterion_main!(benches);
