//! Any sequence of what the host does, against a plain model: everything that was no secret is kept once and in order,
//! nothing else is, and every window is valid and fits.

use std::collections::BTreeMap;

use lcm_tests::random::Random;

use super::host::{Host, Turn, difference};

#[test]
fn whatever_the_host_does_everything_is_kept_once() {
    let rounds: u64 = std::env::var("LCM_LIBREFANG_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    for round in 0..rounds {
        let mut random = Random::seeded(round);
        let mut host = Host::new(*random.pick(&[4096, 8192, 32_768]));
        // What was said in each session; a reply comes with the next turn that is told of.
        let mut said: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut waiting: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut broken: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut failed: BTreeMap<&str, String> = BTreeMap::new();
        host.repeats_ids = random.percent(50);
        for nth in 0..60 {
            let session = *random.pick(&["a", "b"]);
            let text = format!("request {nth} of {session} {}", "word ".repeat(random.below(300)));
            let more = format!("more {nth}");
            let reply = format!("reply {nth} {}", "so ".repeat(random.below(200)));
            let results: Vec<String> = (0..random.below(4))
                .map(|step| {
                    format!("result {nth}.{step} {}", "line\n".repeat(random.below(5000) / (1 + random.below(8))))
                })
                .collect();
            let turn = Turn {
                session,
                text: &text,
                reply: &reply,
                results: results.clone(),
                is_private: random.percent(12),
                fails: random.percent(8),
                loses_after_turn: random.percent(10),
                more: (random.percent(10) && !results.is_empty()).then_some(more.as_str()),
                has_image: random.percent(10) && !failed.contains_key(session),
                is_pressed: random.percent(10),
                is_told_late: random.percent(10),
                peer: None,
            };
            // A request that fails at once is run together with the next one, its image too.
            let turn = if turn.fails { Turn { has_image: false, ..turn } } else { turn };
            host.turn(&turn);
            if turn.is_private {
                continue;
            }
            let request = match failed.remove(session) {
                Some(before) => format!("{before}\n\n{text}"),
                None => text.clone(),
            };
            if turn.fails && turn.results.is_empty() {
                failed.insert(session, request);
                continue;
            }
            let mut all = vec![request];
            for (step, result) in turn.results.iter().enumerate() {
                all.extend(["I look it up.".to_owned(), result.clone()]);
                all.extend(turn.more.filter(|_| step == 0).map(str::to_owned));
            }
            if turn.fails {
                // Where it is the last, what is said next is run together with it.
                if let Some(more) = turn.more.filter(|_| turn.results.len() == 1) {
                    all.pop();
                    failed.insert(session, more.to_owned());
                }
                broken.entry(session).or_default().extend(all);
                continue;
            }
            let told = said.entry(session).or_default();
            // Behind a reply all before it is known to be no secret; behind what broke off nothing is.
            let before = waiting.remove(session).unwrap_or_default();
            told.extend(before);
            all.splice(0..0, broken.remove(session).unwrap_or_default());
            match turn.loses_after_turn || turn.is_told_late {
                true => waiting.entry(session).or_default().extend(all),
                false => told.extend(all),
            }
            waiting.entry(session).or_default().push(reply.clone());
            if random.percent(15) {
                host.compact(session);
            }
            // Anew it is not known which of several calls with one id an artifact is of.
            if random.percent(5) && !turn.loses_after_turn && !turn.is_told_late && !host.repeats_ids {
                host.restart();
            }
        }
        let kept: Vec<Vec<String>> = host.kept().into_values().collect();
        for (session, told) in &said {
            // What a private turn shows of what was said before is no secret.
            let at_most = [told.as_slice(), waiting.get(session).map_or(&[], Vec::as_slice)].concat();
            let is_it = |kept: &Vec<String>| kept.starts_with(told) && at_most.starts_with(kept);
            assert!(kept.iter().any(is_it), "round {round}: {}", difference(told, &kept));
        }
        assert_eq!(kept.len(), said.len(), "round {round}");
    }
}
