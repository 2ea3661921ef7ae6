//! What a search finds, whatever state index and sieve are in.
//! Method: a store of messages is searched while nothing, a part or all of it is indexed, with index and sieve whole,
//! missing, cut, overwritten or locked; every answer is compared with a look at everything.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lcm_core::node::SummaryParts;
use lcm_core::op::Change;
use lcm_core::view::View;
use lcm_core::{Arrival, NodeId, OrderKey, Role, Summary, canon};
use proptest::prelude::*;
use regex::Regex;

use super::trial::{Trial, message, of_agent, of_session};
use super::*;
use crate::CheckOptions;
use crate::scope::Scope;

/// Texts that meet each other: few words, many combinations, both cases, scripts with and without spaces.
fn texts(count: usize, seed: u64) -> Vec<String> {
    const WORDS: [&str; 24] = [
        "error",
        "Error:",
        "connection",
        "refused",
        "read_file",
        "readFile",
        "HTTPServer",
        "commit",
        "commits",
        "量子缓存",
        "缓存量子",
        "größe",
        "GRÖSSE",
        "2024-01-31",
        "src/main.rs",
        "\u{212a}elvin",
        "kelvin",
        "ſo",
        "so",
        "{\"a\": 1}",
        "fn main() {",
        "naïve",
        "nai\u{308}ve",
        "\n",
    ];
    let mut state = seed | 1;
    let mut next = |below: usize| {
        state = tokenize::mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    (0..count)
        .map(|i| {
            let words: Vec<&str> = (0..next(9) + 1).map(|_| WORDS[next(WORDS.len())]).collect();
            // Now and then something that is said once, something long, and something said again.
            match i % 17 {
                0 => format!("needle{i} {}", words.join(" ")),
                1 => words.join(" ").repeat(200),
                2 => "said again".to_owned(),
                _ => words.join(" "),
            }
        })
        .collect()
}

fn filled(count: usize) -> Trial {
    let mut trial = Trial::new();
    let (_, timeline) = trial.session("a", "s");
    let texts = texts(count, 7);
    for chunk in texts.chunks(50) {
        trial.say(timeline, &chunk.iter().map(String::as_str).collect::<Vec<_>>());
    }
    trial
}

const PATTERNS: [&str; 18] = [
    "needle17",
    "(?i)error",
    "Error:",
    "connection refused",
    "read_?[fF]ile",
    "缓存",
    "^fn main",
    r"\d{4}-\d\d-\d\d",
    "said again$",
    "[^\\x00-\\x7F]",
    "(?i)KELVIN",
    "(?i)größe",
    "(commit|refused)s? (so|src/main)",
    "a{2,3}|qu+x",
    "e.*r.*o.*r",
    "x{0}",
    "(?i)SO\\b",
    "needle(34|51|zz)",
];

fn assert_greps(trial: &Trial, store: &Store, state: &str) {
    for pattern in PATTERNS {
        let grep = Grep { case: LetterCase::Sensitive, ..Grep::new(Pattern::Regex(pattern.into())) };
        let regex = Regex::new(&format!("(?m){pattern}")).unwrap();
        let expected = trial.expected(&regex, |_| true);
        assert_eq!(Trial::grep_in(store, &Scope::everything(), &grep), expected, "{pattern} with {state}");
        let oldest = Grep { order: Order::Oldest, ..grep };
        let rising: Vec<u64> = expected.into_iter().rev().collect();
        assert_eq!(Trial::grep_in(store, &Scope::everything(), &oldest), rising, "{pattern} oldest first with {state}");
    }
}

const QUERIES: [&str; 19] = [
    "error",
    "connection refused",
    "\"connection refused\"",
    "readFile",
    "read_file",
    "server",
    "量子缓存",
    "缓存",
    "量",
    "naïve",
    "größe",
    "kelvin",
    "src/main.rs",
    "needle17",
    "so error",
    "\"so error\"",
    "{",
    "commit AND commits",
    "said again",
];

/// What the words of a query find when each text is looked at alone.
fn expected_words(trial: &Trial, text: &str) -> Vec<u64> {
    let query = words::Query::new(text);
    let (mut room, mut splitter) = (needle::FoldRoom::new(), tokenize::Splitter::new());
    let matching =
        trial.said.iter().rev().filter(|(_, said)| query.match_text(said, &mut room, &mut splitter, 0).is_some());
    matching.map(|(arrival, _)| *arrival).collect()
}

fn assert_words(trial: &Trial, store: &Store, state: &str) {
    for query in QUERIES {
        let found = Trial::words_in(store, &Scope::everything(), query);
        assert_eq!(found, expected_words(trial, query), "{query} with {state}");
    }
}

#[test]
fn a_search_finds_the_same_before_while_and_after_it_is_indexed() {
    let mut trial = filled(900);
    let (_, timeline) = trial.session("a", "t");
    assert_greps(&trial, &trial.again(), "nothing indexed");
    assert_words(&trial, &trial.again(), "nothing indexed");
    trial.catch_up();
    let status = trial.store.index_status().unwrap();
    assert_eq!((status.state, status.indexed_to), (IndexState::Ready, status.last_arrival));
    assert!(status.sieved_to.0 > 500, "{status:?}");
    assert_greps(&trial, &trial.store, "all indexed");
    assert_words(&trial, &trial.store, "all indexed");
    for text in texts(300, 99) {
        trial.say(timeline, &[&text]);
    }
    // A long-lived process, which keeps the tail, and a new one, which reads it.
    for _ in 0..2 {
        assert_greps(&trial, &trial.store, "a part indexed");
        assert_words(&trial, &trial.store, "a part indexed");
    }
    assert_greps(&trial, &trial.again(), "a part indexed, new process");
    for query in QUERIES {
        assert_eq!(
            Trial::words_in(&trial.again(), &Scope::everything(), query),
            expected_words(&trial, query),
            "{query}"
        );
    }
    trial.catch_up();
    assert_greps(&trial, &trial.store, "all indexed again");
    assert_words(&trial, &trial.store, "all indexed again");
    assert_eq!(trial.store.inner.index.verify(&trial.store.snapshot().unwrap()).unwrap(), Vec::<String>::new());
}

fn files_of(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_of(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// What is done to a file.
type Damage = fn(&Path);

#[test]
fn a_damaged_index_changes_no_answer_and_is_made_anew() {
    let damages: [(&str, Damage); 5] = [
        ("cut to half", |path| {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }),
        ("emptied", |path| fs::write(path, b"").unwrap()),
        ("overwritten", |path| {
            let len = fs::metadata(path).unwrap().len();
            fs::write(path, (0..len).map(|i| u8::try_from(tokenize::mix(i) & 255).unwrap()).collect::<Vec<_>>())
                .unwrap();
        }),
        ("one bit flipped in place", |path| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 4;
            }
            let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
            std::io::Write::write_all(&mut file, &bytes).unwrap();
        }),
        ("removed", |path| fs::remove_file(path).unwrap()),
    ];
    let trial = filled(700);
    trial.catch_up();
    let index = trial.home.path().join("index");
    let pattern = Regex::new("(?i)needle(34|51)|größe").unwrap();
    for (name, damage) in damages {
        let files = files_of(&index);
        assert!(files.len() > 5, "{files:?}");
        for path in files {
            if !path.exists() {
                continue;
            }
            // A process that has looked at it before, and one that has not.
            assert_words(&trial, &trial.store, "a whole index");
            damage(&path);
            let state = format!("{} {name}", path.display());
            for store in [&trial.store, &trial.again()] {
                let grep = Grep::new(Pattern::Regex("needle(34|51)|größe".into()));
                let expected = trial.expected(&pattern, |_| true);
                assert_eq!(Trial::grep_in(store, &Scope::everything(), &grep), expected, "{state}");
                for query in ["error", "\"connection refused\"", "needle17"] {
                    let found = Trial::words_in(store, &Scope::everything(), query);
                    assert_eq!(found, expected_words(&trial, query), "{query} with {state}");
                }
            }
            trial.catch_up();
            let status = trial.store.index_status().unwrap();
            assert_eq!((status.state, status.indexed_to), (IndexState::Ready, status.last_arrival), "{state}");
            assert!(status.sieved_to.0 > 0, "{state}");
            let wrong = trial.store.inner.index.verify(&trial.store.snapshot().unwrap()).unwrap();
            assert_eq!(wrong, Vec::<String>::new(), "{state}");
        }
    }
    fs::remove_dir_all(&index).unwrap();
    assert_greps(&trial, &trial.store, "no index");
    assert_words(&trial, &trial.store, "no index");
    assert_eq!(trial.store.index_status().unwrap().state, IndexState::Absent);
}

#[test]
fn a_search_does_not_wait_for_whoever_holds_the_lock() {
    let trial = filled(300);
    let other = trial.again();
    let lock = other.inner.index.try_lock().unwrap().unwrap();
    assert!(trial.store.inner.index.try_lock().unwrap().is_none());
    assert_eq!(trial.store.catch_up(Pace::Gentle, &|_| {}).unwrap().state, IndexState::Absent);
    assert!(matches!(trial.store.rebuild_index(&|_| {}), Err(StoreError::Busy { .. })));
    assert_greps(&trial, &trial.store, "a lock held elsewhere");
    assert_words(&trial, &trial.store, "a lock held elsewhere");
    drop(lock);
    trial.catch_up();
    // Tantivy's own lock, as a stopped process would hold it.
    let own = disk::private_file(&trial.home.path().join("index/words/.tantivy-writer.lock")).unwrap();
    own.lock().unwrap();
    assert_words(&trial, &trial.store, "tantivy's lock held elsewhere");
}

#[test]
fn an_index_of_another_store_or_state_is_not_used() {
    let (one, two) = (filled(300), filled(300));
    one.catch_up();
    // The same texts, said at another time.
    let mut three = Trial::new();
    let (_, timeline) = three.session("a", "s");
    for text in texts(400, 3) {
        three.say(timeline, &[&text]);
    }
    let copy = |to: &Trial| {
        let (from, to) = (one.home.path().join("index"), to.home.path().join("index"));
        fs::create_dir_all(to.join("words")).unwrap();
        for path in files_of(&from) {
            fs::copy(&path, to.join(path.strip_prefix(&from).unwrap())).unwrap();
        }
    };
    copy(&three);
    assert_eq!(three.store.index_status().unwrap().state, IndexState::Unusable);
    assert_greps(&three, &three.store, "another store's index");
    assert_words(&three, &three.store, "another store's index");
    assert!(!three.store.inner.index.verify(&three.store.snapshot().unwrap()).unwrap().is_empty());
    three.catch_up();
    assert_eq!(three.store.index_status().unwrap().state, IndexState::Ready);
    assert_words(&three, &three.store, "its own index");
    // A copy of a data directory takes its index along.
    copy(&two);
    assert_eq!(two.store.index_status().unwrap().state, IndexState::Ready);
    assert_words(&two, &two.store, "a copied index");
}

#[test]
fn nothing_out_of_scope_is_found_or_counted() {
    let mut trial = Trial::new();
    let (mine, a) = trial.session("mine", "s");
    let (_, b) = trial.session("theirs", "s");
    let mut own = BTreeSet::new();
    for (i, text) in texts(600, 5).iter().enumerate() {
        let at = if i % 3 == 0 { a } else { b };
        let arrivals = trial.say(at, &[text]);
        if i % 3 == 0 {
            own.extend(arrivals);
        }
        if i == 400 {
            trial.catch_up();
        }
    }
    let alone = {
        // The same words without anybody else: scores must be the same.
        let mut alone = Trial::new();
        let (_, timeline) = alone.session("mine", "s");
        let texts: Vec<String> =
            trial.said.iter().filter(|(at, _)| own.contains(at)).map(|(_, text)| text.clone()).collect();
        alone.say(timeline, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        alone
    };
    for scope in [of_agent("mine"), of_session(mine)] {
        for pattern in PATTERNS {
            let grep = Grep { case: LetterCase::Sensitive, ..Grep::new(Pattern::Regex(pattern.into())) };
            let expected =
                trial.expected(&Regex::new(&format!("(?m){pattern}")).unwrap(), |arrival| own.contains(&arrival));
            assert_eq!(Trial::grep_in(&trial.store, &scope, &grep), expected, "{pattern}");
        }
        for query in QUERIES {
            let mut expected = expected_words(&trial, query);
            expected.retain(|arrival| own.contains(arrival));
            for store in [&trial.store, &trial.again()] {
                assert_eq!(Trial::words_in(store, &scope, query), expected, "{query}");
                let words = Words { hits_max: 50, ..Words::new(query) };
                let ranked = store.ranked(&scope, &words).unwrap();
                assert!(ranked.hits.iter().all(|hit| own.contains(&hit.placed.arrival.0)), "{query}");
                let scores: Vec<Option<u32>> = ranked.hits.iter().map(|hit| hit.score).collect();
                let expected = alone.store.ranked(&Scope::everything(), &words).unwrap();
                let expected: Vec<Option<u32>> = expected.hits.iter().map(|hit| hit.score).collect();
                assert_eq!(scores, expected, "{query}");
            }
        }
    }
    let nobody = of_agent("nobody");
    assert!(trial.store.words(&nobody, &Words::new("error")).unwrap().hits.is_empty());
    assert!(trial.store.ranked(&nobody, &Words::new("error")).unwrap().hits.is_empty());
    assert!(Trial::grep_in(&trial.store, &nobody, &Grep::new(Pattern::Literal("e".into()))).is_empty());
}

/// Segments that hold places of several sessions in turns, some merged, against places that are read from truth.
#[test]
fn ranking_is_the_same_however_places_are_indexed() {
    let words: Vec<String> = (0..30).map(|n| format!("word{n}")).collect();
    let (mut pieces, mut fresh) = (Trial::new(), Trial::new());
    for nth in 0..40_usize {
        for trial in [&mut pieces, &mut fresh] {
            let timelines = [trial.session("a", "s").1, trial.session("a", "t").1];
            // Two words stand everywhere, the others here and there.
            let texts: Vec<String> = (0..5)
                .map(|at| format!("word0 word1 {} {}", words[(nth + at) % 30], words[(nth * 7 + at) % 30]))
                .collect();
            for (at, text) in texts.iter().enumerate() {
                trial.say(timelines[(nth + at) % 2], &[text]);
            }
        }
        pieces.catch_up();
    }
    for question in [words.join(" "), words[2..9].join(" "), "word0 word5".to_owned()] {
        let asked = Words { hits_max: 30, ..Words::new(question.clone()) };
        let found = |trial: &Trial| -> Vec<(u64, Option<u32>)> {
            let found = trial.store.ranked(&Scope::everything(), &asked).unwrap();
            found.hits.iter().map(|hit| (hit.placed.arrival.0, hit.score)).collect()
        };
        let expected = found(&fresh);
        assert_eq!(expected.len(), 30, "{question}");
        assert_eq!(found(&pieces), expected, "{question}");
    }
}

#[test]
fn a_branch_sees_what_it_shares_and_no_more() {
    let mut trial = Trial::new();
    let (session, first) = trial.session("a", "s");
    let shared = trial.say(first, &["alpha one", "alpha two", "alpha three"]);
    let branch = trial.branch(session, first, shared[1]);
    let left = trial.say(first, &["alpha four of the branch that was left"]);
    let own = trial.say(branch, &["alpha five"]);
    let expected = vec![own[0], shared[1], shared[0]];
    for round in 0..2 {
        for _ in 0..2 {
            let scope = of_session(session);
            assert_eq!(Trial::grep_in(&trial.store, &scope, &Grep::new(Pattern::Literal("alpha".into()))), expected);
            assert_eq!(Trial::words_in(&trial.store, &scope, "alpha"), expected, "round {round}");
            let ranked = trial.store.ranked(&scope, &Words::new("alpha")).unwrap();
            let mut found: Vec<u64> = ranked.hits.iter().map(|hit| hit.placed.arrival.0).collect();
            found.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(found, expected, "round {round}");
            let all = Scope { branches: crate::Branches::All, ..scope };
            assert!(Trial::words_in(&trial.store, &all, "alpha").contains(&left[0]));
        }
        trial.catch_up();
    }
}

#[test]
fn a_filter_holds_in_every_kind_of_search() {
    let mut trial = Trial::new();
    let (session, timeline) = trial.session("a", "s");
    let (other, elsewhere) = trial.session("a", "t");
    let user = trial.say_as("user", timeline, &["alpha asked"])[0];
    let tool = trial.say_as("tool", timeline, &["alpha answered"])[0];
    let there = trial.say_as("user", elsewhere, &["alpha elsewhere"])[0];
    let child = message("user", "alpha asked").encode().unwrap().id;
    let summary = trial.summarise(timeline, child, user, "alpha in short");
    let filters: Vec<(Filter, Vec<u64>)> = vec![
        (Filter::default(), vec![summary, there, tool, user]),
        (Filter { roles: vec![Role::User], ..Filter::default() }, vec![there, user]),
        (Filter { kinds: Kinds::Summaries, ..Filter::default() }, vec![summary]),
        (Filter { kinds: Kinds::Messages, ..Filter::default() }, vec![there, tool, user]),
        (Filter { without_sessions: vec![other], ..Filter::default() }, vec![summary, tool, user]),
        (Filter { without_sessions: vec![session], ..Filter::default() }, vec![there]),
        (Filter { since_ms: Some(1_000_001), before_ms: Some(1_000_002), ..Filter::default() }, vec![tool]),
    ];
    for round in 0..3 {
        for (filter, expected) in &filters {
            let grep = Grep { filter: filter.clone(), ..Grep::new(Pattern::Literal("alpha".into())) };
            assert_eq!(
                &Trial::grep_in(&trial.store, &Scope::everything(), &grep),
                expected,
                "{filter:?} round {round}"
            );
            let words = Words { filter: filter.clone(), ..Words::new("alpha") };
            let found = trial.store.words(&Scope::everything(), &words).unwrap();
            let arrivals: Vec<u64> = found.hits.iter().map(|hit| hit.placed.arrival.0).collect();
            assert_eq!(&arrivals, expected, "{filter:?} round {round}");
            let ranked = trial.store.ranked(&Scope::everything(), &words).unwrap();
            let mut arrivals: Vec<u64> = ranked.hits.iter().map(|hit| hit.placed.arrival.0).collect();
            arrivals.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(&arrivals, expected, "{filter:?} round {round}");
        }
        if round == 1 {
            trial.catch_up();
        }
    }
}

#[test]
fn what_is_staged_is_found_once_a_view_shows_it_or_what_is_above_it() {
    let mut trial = Trial::new();
    let (session, timeline) = trial.session("a", "s");
    let said = trial.say(timeline, &["the harbour", "the tide"]);
    let first = OrderKey::appended(Arrival(said[0]));
    let summary = |text: &str, children: Vec<NodeId>, depth| {
        let parts = SummaryParts { text: text.to_owned(), children, depth, span_ms: (0, 1) };
        let summary = Summary::new(parts).unwrap();
        (canon::message_id(&canon::encode_summary(&summary)), summary)
    };
    let child = message("user", "the harbour").encode().unwrap().id;
    let (low, leaf) = summary("alpha below", vec![child], 1);
    let (high, top) = summary("alpha above", vec![low], 2);
    let (_, other) = summary("alpha that nobody took", vec![child], 1);
    let staged = trial.store.commit(|commit| {
        let mut staged = Vec::new();
        for summary in [&leaf, &top, &other] {
            commit.stage(summary, timeline, &first, 5)?;
            staged.push(commit.last_arrival());
        }
        Ok::<_, StoreError>(staged)
    });
    let staged = staged.unwrap();
    let found = |store: &Store| {
        let grep = Trial::grep_in(store, &Scope::everything(), &Grep::new(Pattern::Literal("alpha".into())));
        let words = store.words(&Scope::everything(), &Words::new("alpha")).unwrap();
        let mut words: Vec<u64> = words.hits.iter().map(|hit| hit.placed.arrival.0).collect();
        let ranked = store.ranked(&Scope::everything(), &Words::new("alpha")).unwrap();
        let mut ranked: Vec<u64> = ranked.hits.iter().map(|hit| hit.placed.arrival.0).collect();
        words.sort_unstable_by(|a, b| b.cmp(a));
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!((&words, &ranked), (&grep, &grep));
        grep
    };
    for is_indexed in [false, true] {
        if is_indexed {
            trial.catch_up();
        }
        assert!(found(&trial.store).is_empty(), "indexed: {is_indexed}");
        let snapshot = trial.store.snapshot().unwrap();
        for arrival in &staged {
            assert!(snapshot.find_place(&Scope::everything(), *arrival).unwrap().is_some(), "it can be read");
        }
    }
    let view = View::raw(first.clone()).fold(&first, &OrderKey::appended(Arrival(said[1])), high).unwrap();
    trial.store.commit(|commit| commit.op(session, 0, "test", Change::Fold { summary: high }, Some(&view))).unwrap();
    assert_eq!(found(&trial.store), [staged[1].0, staged[0].0]);
    assert_eq!(found(&trial.again()), [staged[1].0, staged[0].0]);
    trial.store.rebuild_index(&|_| {}).unwrap();
    assert_eq!(found(&trial.store), [staged[1].0, staged[0].0]);
    let report = trial.store.check(&CheckOptions { faults_max: 10, progress: &|_, _| {} }).unwrap();
    assert_eq!(report.faults, 0, "{report:?}");
}

#[test]
fn going_on_from_cursor_to_cursor_gives_each_hit_once() {
    let trial = filled(700);
    for indexed in [false, true] {
        if indexed {
            trial.catch_up();
        }
        for order in [Order::Newest, Order::Oldest] {
            let all = Trial::grep_in(
                &trial.store,
                &Scope::everything(),
                &Grep { order, ..Grep::new(Pattern::Literal("so".into())) },
            );
            for bounds in [(3, None, None), (0, Some(Duration::ZERO), None), (7, None, Some(4000))] {
                let (hits_max, time_max, bytes_max) = bounds;
                let mut grep =
                    Grep { order, hits_max, time_max, bytes_max, ..Grep::new(Pattern::Literal("so".into())) };
                let mut paged = Vec::new();
                for page in 0.. {
                    assert!(page < 3000, "it does not end: {grep:?}");
                    let found = trial.store.grep(&Scope::everything(), &grep).unwrap();
                    paged.extend(found.hits.iter().map(|hit| hit.placed.arrival.0));
                    assert_eq!(found.complete, found.next.is_none());
                    let Some(next) = found.next else { break };
                    grep.after = Some(next.to_string().parse().unwrap());
                }
                assert_eq!(paged, all, "{order:?} {bounds:?}");
            }
        }
        let all = expected_words(&trial, "error");
        let mut words = Words { hits_max: 7, ..Words::new("error commits") };
        let (mut exact, mut seen, mut ranked) = (Vec::new(), BTreeSet::new(), false);
        loop {
            let found = trial.store.words(&Scope::everything(), &words).unwrap();
            for hit in &found.hits {
                assert!(seen.insert(hit.placed.arrival.0), "twice: {}", hit.placed.arrival);
                assert!(hit.ranked || !ranked, "an exact hit behind a ranked one");
                ranked |= hit.ranked;
                if !hit.ranked {
                    exact.push(hit.placed.arrival.0);
                }
            }
            let Some(next) = found.next else { break };
            words.after = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(exact, expected_words(&trial, "error commits"));
        assert!(seen.is_superset(&all.into_iter().collect()), "ranked hits have any of the words");
    }
}

#[test]
fn a_text_that_is_no_cursor_is_refused() {
    for text in ["", "b", "x1", "b-1", "b1 ", "b99999999999999999999999", "量1", "a1\n", "r"] {
        assert_eq!(text.parse::<Cursor>(), Err(CursorError), "{text:?}");
    }
    for text in ["b0", "a18446744073709551615", "r7"] {
        assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
    }
    // A cursor with any number ends no process.
    let trial = filled(40);
    for text in ["b0", "b18446744073709551615", "a0", "a18446744073709551615", "r0", "r18446744073709551615"] {
        let after = Some(text.parse().unwrap());
        let grep = Grep { after, ..Grep::new(Pattern::Literal("e".into())) };
        let _answer = trial.store.grep(&Scope::everything(), &grep).is_ok();
        let words = Words { after, ..Words::new("error") };
        trial.store.words(&Scope::everything(), &words).unwrap();
        trial.store.ranked(&Scope::everything(), &words).unwrap();
    }
}

#[test]
fn scores_do_not_change_when_places_are_indexed() {
    let trial = filled(500);
    let ask = |store: &Store| -> Vec<(u64, Option<u32>)> {
        let words = Words { hits_max: 100, ..Words::new("connection error commits größe") };
        store
            .ranked(&Scope::everything(), &words)
            .unwrap()
            .hits
            .iter()
            .map(|hit| (hit.placed.arrival.0, hit.score))
            .collect()
    };
    let read = ask(&trial.again());
    assert_eq!(read.len(), 100);
    assert_eq!(ask(&trial.store), read);
    // The second search of a process keeps the tail.
    assert_eq!(ask(&trial.store), read);
    trial.catch_up();
    assert_eq!(ask(&trial.store), read);
}

#[test]
fn a_thread_beside_catches_up_and_ends() {
    let trial = filled(900);
    let newest = trial.store.snapshot().unwrap().last_arrival().unwrap();
    trial.store.catch_up_beside(Arrival(100));
    assert_eq!(trial.store.index_status().unwrap().state, IndexState::Absent);
    trial.store.catch_up_beside(newest);
    let begun = Instant::now();
    while trial.store.inner.index.following.load(Ordering::Acquire) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::yield_now();
    }
    assert_eq!(trial.store.index_status().unwrap().indexed_to, newest);
    assert!(trial.store.inner.index.try_lock().unwrap().is_some(), "the lock is free");
}

#[test]
fn segments_stay_few() {
    let mut trial = Trial::new();
    let (_, timeline) = trial.session("a", "s");
    for text in texts(40, 1) {
        trial.say(timeline, &[&text, "filler"]);
        trial.catch_up();
        let status = trial.store.index_status().unwrap();
        assert!(status.segments <= 8, "{status:?}");
        assert_eq!(status.indexed_to, status.last_arrival);
    }
    assert_words(&trial, &trial.store, "many commits");
}

#[test]
fn what_the_index_writes_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let trial = filled(300);
    trial.catch_up();
    let index = trial.home.path().join("index");
    for path in [index.clone(), index.join("words")] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700, "{}", path.display());
    }
    for path in files_of(&index) {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn a_catch_up_that_was_cut_is_gone_on_with() {
    let mut trial = filled(300);
    trial.catch_up();
    let (_, timeline) = trial.session("a", "s");
    let index = trial.home.path().join("index");
    // A sieve that was written behind its end, and files of a segment that no commit names.
    let sieve = fs::OpenOptions::new().append(true).open(index.join("sieve"));
    std::io::Write::write_all(&mut sieve.unwrap(), &[7; 5000]).unwrap();
    fs::write(index.join("words/0123456789abcdef0123456789abcdef.term"), b"torn").unwrap();
    fs::write(index.join("words/meta.json.123.4"), b"torn").unwrap();
    assert_greps(&trial, &trial.store, "a sieve written beyond its end");
    for text in texts(400, 4) {
        trial.say(timeline, &[&text]);
    }
    trial.catch_up();
    assert_greps(&trial, &trial.store, "gone on");
    assert_words(&trial, &trial.store, "gone on");
    let wrong = trial.store.inner.index.verify(&trial.store.snapshot().unwrap()).unwrap();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn groups_of_a_pattern_keep_nothing_and_mean_the_same() {
    let pairs = [
        ("(a|b)*c", "(?:a|b)*c"),
        ("(?P<year>[0-9(]+)-(?<day>\\d)", "(?:[0-9(]+)-(?:\\d)"),
        ("(?i:x)(?s)\\(y[()](z)", "(?i:x)(?s)\\(y[()](?:z)"),
        ("((é)(🚢))+", "(?:(?:é)(?:🚢))+"),
        ("(open", "(open"),
    ];
    for (pattern, plain) in pairs {
        assert_eq!(without_groups(pattern), plain);
    }
}

#[test]
fn a_pattern_is_read_as_python_reads_it() {
    let mut trial = Trial::new();
    let (_, timeline) = trial.session("a", "s");
    let at = trial.say(timeline, &["fn main() {", "a{b} [x]", "line\nend", "aXXXb & c~~d"]);
    let cases: [(&str, &[u64]); 9] = [
        ("fn main\\(\\) {", &at[..1]),
        ("a{b}", &at[1..2]),
        ("[][]x", &at[1..2]),
        ("end\\Z", &at[2..3]),
        ("X{3}", &at[3..4]),
        ("X{,3}b", &[at[3], at[1]]),
        ("[a&&z]XXX", &at[3..4]),
        ("c[~~]~d", &at[3..4]),
        ("[[:digit:]]|(?P<name>line)", &at[2..3]),
    ];
    for (pattern, expected) in cases {
        let grep = Grep { case: LetterCase::Sensitive, ..Grep::new(Pattern::Regex(pattern.into())) };
        assert_eq!(Trial::grep_in(&trial.store, &Scope::everything(), &grep), expected, "{pattern}");
    }
    for pattern in ["(", "a**b(", "(?<=x)y", "\\1", "[", "(?i", "\\", "{{{(", &"(".repeat(5000), "(a{1000}){1000}"] {
        let grep = Grep::new(Pattern::Regex(pattern.into()));
        assert!(matches!(trial.store.grep(&Scope::everything(), &grep), Err(StoreError::Pattern(_))), "{pattern:.20}");
    }
}

#[test]
fn smart_case_looks_at_the_letters_of_the_pattern() {
    let mut trial = Trial::new();
    let (_, timeline) = trial.session("a", "s");
    let at = trial.say(timeline, &["error", "ERROR"]);
    let both = [at[1], at[0]];
    let cases: [(Pattern, &[u64]); 6] = [
        (Pattern::Literal("error".into()), &both),
        (Pattern::Literal("ERROR".into()), &at[1..]),
        (Pattern::Regex("err\\S+".into()), &both),
        (Pattern::Regex("\\p{Lu}RROR".into()), &at[1..]),
        (Pattern::Regex("[E]rr".into()), &[]),
        (Pattern::Regex("\\Wx|er+or".into()), &both),
    ];
    for (pattern, expected) in cases {
        let grep = Grep::new(pattern.clone());
        assert_eq!(Trial::grep_in(&trial.store, &Scope::everything(), &grep), expected, "{pattern:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Random texts and random patterns over few letters: prefix, suffix and class meet in every way.
    #[test]
    fn the_sieve_never_holds_a_match_back(
        texts in prop::collection::vec("[abAB ſ\u{212a}kSé量İı\n]{0,30}", 1..12),
        pattern in "([abk sé量]|\\.|[ab]\\*|\\[aAk\\]|\\[\\^a\\]|\\(ab\\|ka\\)|\\(a\\|bk\\)\\?|[as]\\{2\\}|\\(ak\\)\\+|\\\\b|é\\?){1,8}",
        insensitive in any::<bool>(),
    ) {
        let grep = Grep {
            case: if insensitive { LetterCase::Insensitive } else { LetterCase::Sensitive },
            ..Grep::new(Pattern::Regex(pattern.clone()))
        };
        let compiled = grep::compile(&grep).map_err(|error| TestCaseError::reject(error.to_string()))?;
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("sieve");
        let mut writer = sieve::SieveWriter::open(&path, None).unwrap();
        for (arrival, text) in (1..).zip(&texts) {
            writer.add(arrival, 1, text).unwrap();
            writer.next_group_for_test();
        }
        writer.close_for_test();
        writer.commit([1; 32]).unwrap();
        let sieve = Sieve::open(&path).unwrap().unwrap();
        let mut blocks = sieve.blocks(false);
        let block = blocks.next().unwrap().unwrap();
        let (bits, masks, table) = (block.bits().unwrap(), block.masks().unwrap(), block.table().unwrap());
        prop_assert_eq!(table.entries.len(), texts.len());
        for (text, entry) in texts.iter().zip(table.entries) {
            if compiled.regex.is_match(text) {
                let needs = &compiled.needs;
                prop_assert!(needs.may_hold(bits), "{pattern} in {text:?}: {needs:?}");
                prop_assert!(needs.groups(&masks) & (1 << entry.group) != 0, "{pattern} in {text:?}: {needs:?}");
            }
        }
    }

    #[test]
    fn no_pattern_makes_it_panic(pattern in "\\PC{0,20}|[\\[\\]{}()*+?.^$|&~,0-9a-z:\\\\-]{0,16}") {
        let _read = grep::compile(&Grep::new(Pattern::Regex(pattern))).is_ok();
    }

    #[test]
    fn no_query_makes_it_panic(query in "\\PC{0,40}|[\"a_ 量\u{301}ẞİ.]{0,20}", text in "\\PC{0,40}|[\"a_ 量\u{301}ẞİ.]{0,40}") {
        let (mut room, mut splitter) = (needle::FoldRoom::new(), tokenize::Splitter::new());
        let asked = words::Query::new(&query);
        if let Some(shown) = asked.match_text(&text, &mut room, &mut splitter, 20) {
            prop_assert!(shown.snippet.chars().count() <= 20);
            for range in shown.matches {
                prop_assert!(shown.snippet.get(range).is_some());
            }
        }
        let _question = rank::Question::new(&query);
    }
}

#[test]
fn what_stands_in_another_normal_form_is_found_before_it_is_indexed() {
    let mut trial = Trial::new();
    let (_, timeline) = trial.session("a", "s");
    let filler = "nothing of it ".repeat(1000);
    // U+F900 becomes U+8C48; the sieve knows the bytes only.
    let at = trial.say(timeline, &["\u{f900}", "nai\u{308}ve \u{130}stanbul", &filler]);
    for _ in 0..40 {
        trial.say(timeline, &[&filler]);
    }
    trial.catch_up();
    fs::remove_dir_all(trial.home.path().join("index/words")).unwrap();
    let status = trial.store.index_status().unwrap();
    assert!(status.sieved_to.0 > 3 && status.state == IndexState::Absent, "{status:?}");
    let expected = [("\u{8c48}", at[0]), ("naïve", at[1]), ("\u{130}stanbul", at[1])];
    for (query, arrival) in expected {
        assert_eq!(Trial::words_in(&trial.store, &Scope::everything(), query), [arrival], "{query}");
    }
}

#[test]
fn a_damaged_message_hides_no_other() {
    let trial = filled(300);
    trial.catch_up();
    let path = trial.home.path().join("store.1.redb");
    let expected = trial.expected(&Regex::new("said again").unwrap(), |_| true);
    // The bytes of one message, as they lie in the file: short texts are stored as they are.
    let bytes = fs::read(&path).unwrap();
    let spots: Vec<usize> = memchr::memmem::find_iter(&bytes, b"needle170").collect();
    assert!(!spots.is_empty());
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for spot in spots {
        std::os::unix::fs::FileExt::write_all_at(&file, b"N", u64::try_from(spot).unwrap()).unwrap();
    }
    let store = trial.again();
    let all = Grep { hits_max: 0, ..Grep::new(Pattern::Literal("said again".into())) };
    let found = store.grep(&Scope::everything(), &all).unwrap();
    let found: Vec<u64> = found.hits.iter().map(|hit| hit.placed.arrival.0).collect();
    assert_eq!(found, expected);
    // What was changed in the file matches, and is not given out.
    let changed = store.grep(&Scope::everything(), &Grep::new(Pattern::Literal("Needle170".into()))).unwrap();
    assert_eq!((changed.hits.len(), changed.scanned.damaged), (0, 1));
}

#[test]
fn an_index_of_nothing_is_no_fault() {
    let trial = Trial::new();
    for _ in 0..2 {
        let status = trial.store.rebuild_index(&|_| {}).unwrap();
        assert_ne!(status.state, IndexState::Unusable);
        trial.catch_up();
        assert_eq!(wrong(&trial), [] as [&str; 0]);
    }
    // And it is gone on with.
    let mut trial = trial;
    let (_, timeline) = trial.session("a", "s");
    trial.say(timeline, &["something"]);
    trial.catch_up();
    assert_eq!(trial.store.index_status().unwrap().state, IndexState::Ready);
    assert_eq!(wrong(&trial), [] as [&str; 0]);
}

fn wrong(trial: &Trial) -> Vec<String> {
    trial.store.inner.index.verify(&trial.store.snapshot().unwrap()).unwrap()
}

#[test]
fn what_stands_in_the_way_of_the_index_is_told_and_removed() {
    type Block = fn(&Path);
    fn swap(path: &Path) {
        match path.is_dir() {
            true => fs::remove_dir_all(path).and_then(|()| fs::write(path, "hi")).unwrap(),
            false => fs::remove_file(path).and_then(|()| fs::create_dir(path)).unwrap(),
        }
    }
    let cut = |path: &Path, len| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
    let blocks: [(&str, Block); 5] = [
        ("the index is a file", |index| swap(index)),
        ("its words are a file", |index| swap(&index.join("words"))),
        ("its sieve is a directory", |index| swap(&index.join("sieve"))),
        ("its table of contents is gone", |index| fs::remove_file(index.join("words/meta.json")).unwrap()),
        ("its seal is a directory", |index| swap(&index.join("seal"))),
    ];
    for (what, block) in blocks {
        for rebuilt in [true, false] {
            let trial = filled(600);
            trial.catch_up();
            assert_eq!(wrong(&trial), [] as [&str; 0]);
            block(&trial.home.path().join("index"));
            let is_seal = what.contains("seal");
            // Without its seal it is whole, and only slower to open.
            assert_eq!(wrong(&trial).is_empty(), is_seal, "{what}");
            assert_greps(&trial, &trial.again(), what);
            if rebuilt {
                trial.store.rebuild_index(&|_| {}).unwrap();
            } else if !is_seal {
                trial.catch_up();
            }
            assert_eq!(wrong(&trial), [] as [&str; 0], "{what}");
        }
    }
    let trial = filled(600);
    for len in [0, 100, 255, 256, 300] {
        trial.store.rebuild_index(&|_| {}).unwrap();
        cut(&trial.home.path().join("index/sieve"), len);
        assert_eq!(wrong(&trial), ["the sieve cannot be used: it is damaged, or of another version"], "at {len}");
    }
}
