//! What models cost and what providers count: the first is written down whatever came of it, the second corrects
//! thresholds and sizes of the model it was reported for, and of no other.

use lcm_core::op::Change;
use lcm_engine::compress::summary::{Summarizer, SummarizerError, SummaryPrompt};
use lcm_engine::service::{CompressRequest, Compressed, Service, Spent};
use lcm_engine::{Engine, compress};

use crate::session::{
    exchanges, home, in_messages, key, options, scope, texts, try_compress, turn, turn_of, user, with,
};

/// A model that answers everything with this.
struct Says(Result<&'static str, SummarizerError>);

impl Summarizer for Says {
    fn model(&self) -> &'static str {
        "test-model"
    }

    fn summarize(&self, _: &SummaryPrompt) -> Result<String, SummarizerError> {
        self.0.clone().map(str::to_owned)
    }
}

const GOOD: &str = "Every old question about the harbour has its answer.";

fn spent(engine: &Engine) -> Spent {
    engine.spent(&scope(), None).unwrap()
}

#[test]
fn what_a_model_cost_is_written_down_with_the_summaries() {
    let home = home();
    let said = with(&exchanges("old", 30, 60), &[user("go on")]);
    let (done, _) = try_compress(&home.engine, "s", &said, options(2000), Some(&Says(Ok(GOOD)))).unwrap();
    assert!(done.model_calls > 0 && done.model_tokens > 1000, "{done:?}");
    let spent = spent(&home.engine);
    assert_eq!((spent.calls, spent.tokens), (done.model_calls, done.model_tokens));
    assert!(spent.summaries > 0);
    let op = home.engine.store().snapshot().unwrap().ops(done.turned.op.unwrap(), 1).unwrap().remove(0);
    assert!(matches!(op.what, Change::Stage { summaries: 1.., .. }), "{op:?}");
}

#[test]
fn a_model_that_was_asked_in_vain_was_asked() {
    let home = home();
    // So little room that no list comes of it.
    let said = with(&exchanges("old", 30, 60), &[user(&"go on with all of it, pier by pier; ".repeat(400))]);
    for (model, costs) in [
        (Says(Ok(GOOD)), true),
        (Says(Err(SummarizerError::Unusable("its answer is empty".to_owned()))), true),
        (Says(Err(SummarizerError::Spent("the cap is reached".to_owned()))), false),
    ] {
        let before = spent(&home.engine);
        let (done, _) = try_compress(&home.engine, "s", &said, options(600), Some(&model)).unwrap();
        assert!(done.messages.is_none() && done.reason.is_some(), "{done:?}");
        let after = spent(&home.engine);
        assert_eq!(after.summaries, before.summaries);
        assert_eq!((after.calls - before.calls, after.tokens - before.tokens), (done.model_calls, done.model_tokens));
        assert_eq!(done.model_calls > 0, costs, "{done:?}");
        // Nothing else was changed, and without a model nothing is written at all.
        assert_eq!(turn(&home.engine, "s", &said).op, None);
    }
    let last = home.engine.store().snapshot().unwrap().last_op().unwrap();
    try_compress(&home.engine, "s", &said, options(600), None).unwrap();
    assert_eq!(home.engine.store().snapshot().unwrap().last_op().unwrap(), last);
}

fn compress_for(engine: &Engine, list: &[String], threshold: u64, model: Option<&str>) -> Compressed {
    let options = options(threshold);
    let (turn, model) = (turn_of("s", list), model.map(str::to_owned));
    let request = CompressRequest { model, ..CompressRequest::new(turn, options) };
    engine.compress(&request).unwrap()
}

#[test]
fn what_a_provider_counts_corrects_the_threshold_of_its_model() {
    let home = home();
    let engine = &home.engine;
    let said = with(&exchanges("old", 160, 60), &[user("go on")]);
    let stored = |list: &[String]| {
        let list = in_messages(list);
        engine.weigh(&list).unwrap()
    };
    // The provider counts a fifth more than we do, and 5,000 tokens that we never see. Turns teach it.
    for end in (20..said.len()).step_by(20) {
        turn(engine, "s", &said[..end]);
        engine.report_usage(&key("s"), "wide", 5000 + stored(&said[..end]) * 6 / 5);
    }
    let correction = engine.correction("wide");
    assert!((1150..=1200).contains(&correction.scale_per_mille()), "{correction:?}");
    let tokens = stored(&said);
    // Between what we count and what the provider does.
    let threshold = tokens * 11 / 10;
    let plain = compress_for(engine, &said, threshold, None);
    assert!(plain.messages.is_none() && plain.tokens_before == tokens, "{:?}", plain.reason);
    let other = compress_for(engine, &said, threshold, Some("never heard of"));
    assert!(other.messages.is_none() && other.tokens_before == tokens);
    let done = compress_for(engine, &said, threshold, Some("wide"));
    assert!(done.messages.is_some(), "{:?}", done.reason);
    assert_eq!(done.tokens_before, correction.apply(tokens));
    assert!(done.tokens_after <= threshold, "{} of {threshold}", done.tokens_after);
    // What comes back and what the next turn shows are one list: what is said in between is learned from.
    let shown = texts(done.list(&in_messages(&said)));
    engine.report_usage(&key("s"), "wide", 5000 + stored(&shown));
    let more = with(&shown, &exchanges("more", 30, 60));
    turn(engine, "s", &more);
    // From now on it counts as we do.
    let learned = engine.report_usage(&key("s"), "wide", 5000 + stored(&more));
    assert!(learned.scale_per_mille() < correction.scale_per_mille(), "{learned:?}");
}

#[test]
fn one_summary_stands_for_no_more_than_is_allowed() {
    let made = |chunk_tokens_max: u64| {
        let home = home();
        let said = with(&exchanges("old", 60, 60), &[user("go on")]);
        let options = compress::CompressOptions { chunk_tokens_max, ..options(6000) };
        let (done, _) = try_compress(&home.engine, "s", &said, options, None).unwrap();
        assert!(done.messages.is_some(), "{:?}", done.reason);
        spent(&home.engine).summaries
    };
    assert!(made(1000) > 2 * made(20_000));
}
