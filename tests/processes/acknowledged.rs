//! What writers were told is durable, against what the store holds.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use lcm_core::Message;

/// What each writer of a folder was told is durable, in order, by the beginning that all its texts share.
pub(crate) fn acknowledged(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "acknowledged") {
            let text = fs::read_to_string(&path).unwrap();
            // The last line may be cut: its writer died while it wrote it.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            for line in whole.lines() {
                all.entry(writer_of(line)).or_default().push(line.to_owned());
            }
        }
    }
    all
}

/// Name and seed: one run of one writer.
fn writer_of(text: &str) -> String {
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Checks that everything acknowledged is kept, in order and once, and nothing else but the one turn of each writer
/// that was under way.
pub(crate) fn assert_kept(
    kept: &[(String, Vec<String>)],
    acknowledged: &BTreeMap<String, Vec<String>>,
    under_way: bool,
) {
    let mut by_writer: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for (session, texts) in kept {
        for text in texts {
            let message = Message::parse(text.as_bytes()).unwrap();
            let text = message.get("content").and_then(lcm_core::Json::as_str).unwrap().to_owned();
            assert!(text.starts_with(session.as_str()), "{session} holds {text}");
            assert!(seen.insert(text.clone()), "doubled: {text}");
            by_writer.entry(writer_of(&text)).or_default().push(text);
        }
    }
    for (writer, acknowledged) in acknowledged {
        let kept = by_writer.get(writer).map_or(&[][..], Vec::as_slice);
        let lost = acknowledged.iter().zip(kept).position(|(one, other)| one != other);
        assert!(
            kept.len() >= acknowledged.len() && lost.is_none(),
            "{writer}: {} acknowledged, {} kept, other from {lost:?} on",
            acknowledged.len(),
            kept.len(),
        );
        // A turn has at most three messages.
        let more = kept.len() - acknowledged.len();
        assert!(more <= if under_way { 3 } else { 0 }, "{writer}: {more} messages that nobody was told of");
    }
    for (writer, kept) in by_writer {
        assert!(acknowledged.contains_key(&writer) || (under_way && kept.len() <= 3), "{writer} wrote {kept:?}");
    }
}
