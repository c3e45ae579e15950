# shellcheck shell=bash
# What the scripts of this folder share. Source it; it moves to the repository's root.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

GO=${GO:-go}
# Everything a run leaves behind is in here, and not in git.
CACHE=$PWD/.cache
mkdir -p "$CACHE" bin

say() { printf '%s\n' "$*"; }
die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# need_go says what is wrong rather than letting the first build fail.
need_go() {
	command -v "$GO" >/dev/null || die "Go is not installed or not on PATH: https://go.dev/dl (go.mod says which version)"
}

# Tests are compiled as the binaries that ship are: with other flags, every package would
# be compiled once more.
export CGO_ENABLED=0
if [[ ${GOFLAGS:-} != *-trimpath* ]] && command -v "$GO" >/dev/null; then
	GOFLAGS="$("$GO" env GOFLAGS) -trimpath"
	export GOFLAGS
fi

# summary runs hack/testsummary, built once per script.
summary() {
	[ -n "${SUMMARY_BUILT:-}" ] || "$GO" build -o bin/testsummary ./hack/testsummary || exit 1
	SUMMARY_BUILT=1
	bin/testsummary "$@"
}

# version is what git calls this commit, or "unknown" outside of a clone.
version() { git describe --tags --always --dirty --match 'v*' 2>/dev/null || echo unknown; }
