//! Words that tell what a line is: a rule, a decision, something left to do, an error, a request.
//!
//! Found in one pass, in several languages, whole words where a script has words. A sign is a hint that weighs, never
//! a proof: who says a line, and what came of it, weighs as much (`pile`).

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// The signs of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signs(u16);

impl Signs {
    /// Speaks of what has to be.
    pub(super) const RULE: Self = Self(1);
    /// Forbids, or wants always.
    pub(super) const STRICT: Self = Self(1 << 1);
    /// Says when it holds: from now on, in every answer.
    pub(super) const SCOPE: Self = Self(1 << 2);
    /// Something was decided, or is other than it was.
    pub(super) const DECIDED: Self = Self(1 << 3);
    /// Gives a reason.
    pub(super) const REASON: Self = Self(1 << 4);
    /// Something is left to do.
    pub(super) const OPEN: Self = Self(1 << 5);
    /// Something was found or brought about.
    pub(super) const OUTCOME: Self = Self(1 << 6);
    /// Something went wrong.
    pub(super) const FAILED: Self = Self(1 << 7);
    /// Calls off.
    pub(super) const STOPS: Self = Self(1 << 8);
    /// Asks for something.
    pub(super) const REQUEST: Self = Self(1 << 9);
    /// Speaks of the present as something new.
    pub(super) const NOW: Self = Self(1 << 10);

    /// The signs in a line.
    pub(super) fn of(line: &str) -> Self {
        let mut signs = Self::default();
        for found in MARKERS.words.find_overlapping_iter(line) {
            let (sign, edges) = MARKERS.signs[found.pattern().as_usize()];
            let begins = !edges.begins || !line[..found.start()].chars().next_back().is_some_and(char::is_alphanumeric);
            let ends = !edges.ends || !line[found.end()..].chars().next().is_some_and(char::is_alphanumeric);
            if begins && ends {
                signs.0 |= sign.0;
            }
        }
        if line.ends_with(['?', '？']) {
            signs.0 |= Self::REQUEST.0;
        }
        signs
    }

    /// Whether one of these is among them.
    pub(super) fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }
}

impl std::ops::BitOr for Signs {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Where a marker must be a word by itself.
#[derive(Clone, Copy)]
struct Edges {
    begins: bool,
    ends: bool,
}

struct Markers {
    words: AhoCorasick,
    signs: Vec<(Signs, Edges)>,
}

static MARKERS: LazyLock<Markers> = LazyLock::new(|| {
    let (mut words, mut signs) = (Vec::new(), Vec::new());
    for (sign, list) in LISTS {
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let stem = word.trim_end_matches('*');
            // Scripts without blanks have no edges of words.
            let is_wide = stem.chars().next().is_some_and(is_wide);
            let edges = Edges { begins: !is_wide, ends: !is_wide && !word.ends_with('*') };
            let capital: String =
                stem.chars().enumerate().flat_map(|(at, c)| if at == 0 { upper(c) } else { vec![c] }).collect();
            // Letters beyond ASCII have their cases told apart by the search.
            if !stem.is_ascii() && capital != stem {
                words.push(capital);
                signs.push((*sign, edges));
            }
            words.push(stem.to_owned());
            signs.push((*sign, edges));
        }
    }
    let built = AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::Standard).build(&words);
    Markers { words: built.expect("a few hundred short words: far below what the search can hold"), signs }
});

fn upper(c: char) -> Vec<char> {
    c.to_uppercase().collect()
}

/// Whether a character stands for a syllable or a word and is written without blanks.
pub(super) fn is_wide(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Markers by their sign; a star stands for any ending.
const LISTS: &[(Signs, &str)] = &[
    (
        Signs::RULE,
        "must, only, required, requires, requirement*, prefer*, important, make sure, ensure, policy, constraint*,
         rule, rules, avoid, should, has to, have to, guideline*, convention*, at most, at least, no more than,
         只能, 应该, 规则, 要求, 优先, べき, ルール, 規則, 규칙, только, следует, правило, правила, предпочита*, желательно,
         muss, müssen, soll, sollen, nur, regel, doit, doivent, règle, debe, deben, regla, deve, devem",
    ),
    (
        Signs::STRICT,
        "never, always, must not, mustn't, do not, don't, under no circumstances, forbidden, not allowed, prohibited,
         may not, shall not, refuse to, strictly,
         必须, 禁止, 不要, 不得, 不能, 不可, 务必, 切勿, 永远, 始终, 一律, 必ず, しないで, てはいけない, てはならない, 常に, 반드시,
         금지, 절대, 항상, 하지 마, никогда, всегда, нельзя, обязательно, запрещ*, не надо, не нужно, должен, должн*,
         ни в коем случае, niemals, nie, immer, darf nicht, dürfen nicht, verboten, bitte nicht, jamais, toujours,
         interdit*, ne pas, nunca, siempre, prohibid*, sempre, proibid*",
    ),
    (
        Signs::SCOPE,
        "from now on, for the rest of, going forward, henceforth, every reply, each reply, all replies, your replies,
         your reply, your answers, every time, each time, whenever, when you, before you, after you, unless i, until i,
         without asking, without my, on my behalf, by default, at all times,
         从现在起, 今后, 以后, 每次, 今後, 毎回, 앞으로, с этого момента, впредь, каждый раз, отныне, по умолчанию, ab jetzt,
         ab sofort, in zukunft, jedes mal, désormais, à partir de maintenant, chaque fois, a partir de ahora, cada vez",
    ),
    (
        Signs::DECIDED,
        "decided, decide, decision, decisions, agreed, instead of, instead, we will use, we'll use, let's use,
         let's go with, going with, go with, switch to, switched to, chose, chosen, settled on, changed to,
         has changed, have changed, moved to, rebased, rotated, retired, no longer, correction, actually, update:,
         supersede*, replaces, replaced, rather than, opted for, approach:,
         决定, 改为, 改成, 换成, 不再, 改用, 決定, に変更, 変更し, 결정, 변경, решил*, решен*, договорил*, вместо, больше не,
         перенес*, изменен*, изменил*, entschieden, stattdessen, statt, nicht mehr, décidé, plutôt, au lieu,
         decidido, en lugar de, en vez de",
    ),
    (
        Signs::REASON,
        "because, so that, due to, reason, reasons, therefore, otherwise, which is why, 因为, 所以, 由于, ため, ので,
         때문, потому, поэтому, так как, weil, damit, deshalb, parce que, porque",
    ),
    (
        Signs::OPEN,
        "next step, next steps, next:, todo, fixme, remaining, still need*, still to, not done, not yet, pending, blocked,
         waiting for, waiting on, awaiting, open question*, unresolved, in progress, left to do, follow up, failing,
         is broken, before we can, current task, goal:, 待办, 下一步, 尚未, 未完成, 进行中, 未解決, 次の, 다음 단계, 미완료,
         осталось, следующий шаг, ещё не, еще не, ожида*, offen, nächster schritt, noch nicht, prochaine étape, reste à,
         pendiente, siguiente paso",
    ),
    (
        Signs::OUTCOME,
        "fixed, implemented, added, created, removed, renamed, works, passes, passed, succeeded, completed, root cause,
         the issue, the problem, turns out, found, caused by, merged, pushed, released, committed, deployed, published,
         完成, 已修复, 修复了, 原因, 完了, 修正し, 완료, исправ*, готово, сделан*, причина, behoben, erledigt, corrigé, terminé,
         arreglado, corregido",
    ),
    (
        Signs::FAILED,
        "error, errors, failed, failure, fails, exception, traceback, panicked, fatal, cannot, can't, no such file,
         not found, permission denied, timed out, refused, denied, crash*, unable to, 错误, 失败, 异常, エラー, 失敗, 오류, 실패,
         ошибк*, не удалось, fehler, fehlgeschlagen, erreur, échec, fallo",
    ),
    (
        Signs::STOPS,
        "cancel, cancelled, stop, never mind, nevermind, forget it, forget that, forget about, drop it, drop that, abort,
         don't bother, hold off, 取消, 停止, 算了, 中止, 不用了, やめて, 취소, 중지, отмен*, стоп, не надо, остановись, abbrechen,
         vergiss es, annule*, laisse tomber, cancela*, olvídalo",
    ),
    (
        Signs::REQUEST,
        "please, can you, could you, would you, i want, i need, i'd like, help me, how do, how can, how to, why, what is,
         what are, which, where is, let's, 请, 帮我, 帮忙, 能不能, 可以吗, 怎么, 为什么, ください, お願い, してほしい, 해줘, 해 주세요,
         부탁, пожалуйста, можешь, можете, нужно, помоги*, сделай, почему, как, bitte, kannst du, könntest, warum,
         s'il te, s'il vous, peux-tu, pouvez-vous, pourquoi, por favor, puedes, podrías, por qué",
    ),
    (Signs::NOW, "now, new, currently, 现在, 目前, 現在, 지금, теперь, сейчас, jetzt, maintenant, ahora, agora"),
];

/// Whether a line only opens, acknowledges or announces: what a person says to be polite, an agent before it works.
pub(super) fn is_filler(line: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "let me ",
        "now let me",
        "now i'll",
        "now i ",
        "i'll ",
        "i will now",
        "ok",
        "okay",
        "sure",
        "great",
        "perfect",
        "acknowledged",
        "noted",
        "got it",
        "understood",
        "you're welcome",
        "thanks",
        "thank you",
        "of course",
        "certainly",
        "absolutely",
        "continuing",
        "good",
        "nice",
        "now ",
        "let's ",
        "is there anything",
        "feel free",
        "i hope ",
        "yes",
        "yeah",
        "hi",
        "hello",
        "excellent",
        "alright",
        "done.",
        "i can help",
        "no problem",
        "no worries",
        "that's great",
        "good luck",
        "好的",
        "没问题",
        "收到",
        "明白",
        "了解",
        "はい",
        "了解し",
        "네",
        "хорошо",
        "понял",
        "конечно",
        "спасибо",
        "alles klar",
        "danke",
        "natürlich",
        "d'accord",
        "merci",
        "bien sûr",
        "vale",
        "gracias",
        "claro",
    ];
    let beginning: String = line.chars().take(24).flat_map(char::to_lowercase).collect();
    BEGINNINGS.iter().any(|words| {
        beginning.strip_prefix(words).is_some_and(|rest| {
            words.ends_with(' ')
                || words.chars().next_back().is_some_and(is_wide)
                || !rest.chars().next().is_some_and(char::is_alphanumeric)
        })
    })
}

/// Whether a line begins with a verb that tells somebody what to do.
pub(super) fn is_imperative(line: &str) -> bool {
    const VERBS: &[&str] = &[
        "use",
        "keep",
        "run",
        "report",
        "put",
        "write",
        "reply",
        "answer",
        "show",
        "avoid",
        "stick",
        "ensure",
        "remember",
        "note",
        "add",
        "remove",
        "fix",
        "make",
        "update",
        "create",
        "change",
        "delete",
        "move",
        "rename",
        "implement",
        "refactor",
        "check",
        "test",
        "find",
        "look",
        "read",
        "explain",
        "give",
        "tell",
        "list",
        "commit",
        "push",
        "merge",
        "revert",
        "try",
        "do",
        "start",
        "continue",
        "finish",
        "include",
        "exclude",
        "send",
        "draft",
        "ask",
        "wait",
        "treat",
        "format",
        "set",
        "build",
        "install",
        "review",
        "search",
        "open",
        "cite",
        "pick",
    ];
    let first = line.split(|c: char| !c.is_alphanumeric() && c != '\'').find(|word| !word.is_empty()).unwrap_or("");
    VERBS.iter().any(|verb| first.eq_ignore_ascii_case(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_whole_words_in_any_case_and_language() {
        for (line, sign) in [
            ("You MUST NOT push", Signs::STRICT),
            ("из-за этого решили иначе", Signs::DECIDED),
            ("Никогда не пиши в main", Signs::STRICT),
            ("我们决定使用UTC", Signs::DECIDED),
            ("必ずテストを実行", Signs::STRICT),
            ("From now on, answer in German", Signs::SCOPE),
            ("Is that so?", Signs::REQUEST),
            ("Der Fehler ist bekannt", Signs::FAILED),
        ] {
            assert!(Signs::of(line).has(sign), "{line}");
        }
        for (line, sign) in [
            ("mustard and ruler", Signs::RULE),
            ("unstoppable", Signs::STOPS),
            ("a terror", Signs::FAILED),
            ("осталось", Signs::STRICT),
        ] {
            assert!(!Signs::of(line).has(sign), "{line}");
        }
    }

    #[test]
    fn fillers_are_words_too() {
        assert!(is_filler("Okay, I see") && is_filler("Let me look") && is_filler("好的，我来做"));
        assert!(!is_filler("Goodness of fit is 0.93") && !is_filler("История изменений"));
    }
}
