//! The view of a session becomes what its host shows, once it shows it.

use lcm_core::OpId;
use lcm_engine::Engine;

use crate::session::{
    assistant, exchanges, folded, home, open, options, read, session, try_compress, turn, user, with,
};

fn view(engine: &Engine, name: &str) -> Vec<lcm_core::NodeId> {
    let session = session(engine, name).session.id;
    let view = engine.store().snapshot().unwrap().view(session, OpId(u64::MAX)).unwrap();
    view.map_or_else(Vec::new, |view| view.summaries().collect())
}

#[test]
fn a_fold_is_staged_until_the_host_shows_it() {
    let home = home();
    let said = with(&exchanges("old", 6, 40), &[user("go on")]);
    let (done, shown) = try_compress(&home.engine, "s", &said, options(500), None).unwrap();
    assert!(!done.folds.is_empty() && !done.turned.published);
    assert_eq!(view(&home.engine, "s"), [], "staged, not shown");
    // The host did not take it: no evidence for it.
    assert!(!turn(&home.engine, "s", &with(&said, &[assistant("gladly")])).published);
    assert_eq!(view(&home.engine, "s"), []);
    // It takes it after all.
    let taken = with(&shown, &[assistant("gladly")]);
    assert!(turn(&home.engine, "s", &taken).published);
    assert_eq!(view(&home.engine, "s"), done.folds);
    assert!(!turn(&home.engine, "s", &with(&taken, &[user("and?")])).published, "once");
    // A list without folds is no evidence against one.
    assert!(!turn(&home.engine, "s", &with(&said, &[assistant("gladly"), user("and?")])).published);
    assert_eq!(view(&home.engine, "s"), done.folds);
}

#[test]
fn a_fold_is_published_days_later_in_another_process() {
    let home = home();
    let said = with(&exchanges("old", 6, 40), &[user("go on")]);
    let (done, shown) = try_compress(&home.engine, "s", &said, options(500), None).unwrap();
    drop(home.engine);
    let engine = open(&home.folder);
    assert!(turn(&engine, "s", &with(&shown, &[assistant("gladly")])).published);
    assert_eq!(view(&engine, "s"), done.folds);
    assert_eq!(read(&engine, "s"), with(&said, &[assistant("gladly")]));
}

#[test]
fn a_newer_fold_takes_the_place_of_an_older_one() {
    let home = home();
    let said = with(&exchanges("old", 6, 40), &[user("go on")]);
    let shown = folded(&home.engine, "s", &said, 500);
    turn(&home.engine, "s", &shown);
    let first = view(&home.engine, "s");
    let more = with(&shown, &with(&exchanges("more", 6, 40), &[user("and?")]));
    let (done, again) = try_compress(&home.engine, "s", &more, options(500), None).unwrap();
    assert!(turn(&home.engine, "s", &again).published);
    assert_eq!(view(&home.engine, "s"), done.folds);
    assert_ne!(view(&home.engine, "s"), first);
}

#[test]
fn an_older_fold_shown_again_is_the_view_again() {
    let home = home();
    let said = with(&exchanges("old", 6, 40), &[user("go on")]);
    let shown = folded(&home.engine, "s", &said, 500);
    turn(&home.engine, "s", &shown);
    let first = view(&home.engine, "s");
    let more = with(&shown, &with(&exchanges("more", 6, 40), &[user("and?")]));
    let again = folded(&home.engine, "s", &more, 500);
    turn(&home.engine, "s", &again);
    assert_ne!(view(&home.engine, "s"), first);
    // The host comes back with the older one.
    turn(&home.engine, "s", &more);
    assert_eq!(view(&home.engine, "s"), first);
}
