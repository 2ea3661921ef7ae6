#!/bin/sh
# Builds lcm, takes the bundled real sessions into a fresh store, shows what one gets out of it, and replays the coding
# session among them through a window it does not fit into: what was folded, and that every original comes back.
# Leaves the store in target/demo (or in the directory given) to be looked at.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cargo build --quiet --release --locked -p lcm-cli --manifest-path "$root/Cargo.toml"
target=${CARGO_TARGET_DIR:-$root/target}
PATH=$target/release:$PATH
home=${1:-$target/demo}
rm -rf -- "$home/lcm"
mkdir -p -- "$home"
export LCM_HOME="$home/lcm" NO_COLOR=1

step() {
    printf '\n$ %s\n' "$*"
    "$@"
}

step lcm-cli import "$root/tests/fixtures/sample/sample.sessions.jsonl.gz"
step lcm-cli sessions
step lcm-cli grep --limit 3 'npm run'
first=$(lcm-cli grep --limit 1 --format json 'npm run' 2> /dev/null | sed -n 's/.*"handle":"\(msg_[0-9a-f]*\)".*/\1/p' | head -n 1)
step lcm-cli expand "$first"
step lcm-cli check
step lcm-cli replay "$root/tests/fixtures/sample/sample.sessions.jsonl.gz" --session pi: --window 16384
