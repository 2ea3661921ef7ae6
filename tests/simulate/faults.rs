//! Faults that the simulator has found and that are not mended yet. What leads to one is left out while its constant is
//! `false`; whoever mends it sets it to `true`, or takes it out.

/// Fault 1: what no provider takes is folded though it stands behind the newest request, as a step in front of that
/// request; when steps before it are kept, `behind` gives it before them.
pub(crate) const BROKEN_STEPS_KEEP_THEIR_ORDER: bool = true;

/// Fault 2: when a request whose steps are folded in front of it is itself folded later, that fold stands for the same
/// steps again: `behind` gives them twice.
pub(crate) const STEPS_IN_FRONT_OF_A_REQUEST: bool = true;

/// Fault 3: a message that was moved and then rewritten, though its calls have ids of their own, is taken for another
/// one: it is there twice.
pub(crate) const WHAT_WAS_MOVED_IS_KNOWN_REWRITTEN: bool = true;

/// Fault 4: a message that stands before a line of ours and is rewritten is taken for a late one.
pub(crate) const WHAT_STANDS_BEFORE_A_LINE_OF_OURS_IS_KNOWN_REWRITTEN: bool = true;

/// Fault 5: ids of calls that a host counts from the beginning again are taken for proof where nothing else is the
/// same: another call is taken for a new form, and a list of another session for one of this.
pub(crate) const IDS_USED_AGAIN_PROVE_NOTHING: bool = true;

/// Fault 6: the list of a session that is a branch of another is not known under a third name.
pub(crate) const BRANCHES_ARE_KNOWN_BY_ANY_NAME: bool = true;

/// Fault 7: a fold that was made in a branch leads a new name to the wrong line, which lacks messages.
pub(crate) const BRANCHES_GO_ON_FROM_THEIR_FOLDS: bool = true;

/// Fault 8: a list with folds of a line that the session has left does not lead back to that line.
pub(crate) const FOLDS_LEAD_BACK_TO_THEIR_LINE: bool = true;

/// Fault 9: the first list under a new name shows a known message in a new form: beside its fold it is there twice.
pub(crate) const FORMS_ARE_KNOWN_UNDER_A_NEW_NAME: bool = true;

/// Fault 10: a list of a fold whose messages do not begin the session, and something new, is taken for a stranger's,
/// and the fold's text is kept as if somebody had said it.
pub(crate) const A_FOLD_ALONE_IS_PROOF: bool = true;

/// Fault 16: a fold of messages that stand in another session of the same owner, too, is not known again: its text is
/// kept as if somebody had said it.
pub(crate) const WHAT_STANDS_TWICE_IS_KNOWN_FOLDED: bool = true;

/// Fault 17: a list of a line that the session has left, with a message in a later form, does not lead back to that
/// line: from that message on all is kept again, in the form in which it is shown.
pub(crate) const REWRITTEN_LISTS_LEAD_BACK_TO_THEIR_LINE: bool = true;

/// Fault 18: what was said again and again is sometimes left out when a fold is expanded (seeds 650 and 696).
pub(crate) const EQUAL_MESSAGES_COME_BACK: bool = true;
