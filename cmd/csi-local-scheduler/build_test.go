package main

import (
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// The linker ignores a variable that does not exist, so only the built program
// can show that it knows its version.
func TestBuild_Version(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "csi-local-scheduler")
	run(t, "make", "-C", "../..", "build-scheduler", "SCHEDULER_BIN="+binary, "VERSION=v9.8.7-rc.1+more-dirty")
	words := strings.Fields(run(t, binary, "--version"))
	want := kubernetesVersion(t) + "+csi-local.v9.8.7-rc.1.more-dirty"
	if len(words) != 2 || words[1] != want {
		t.Errorf("--version: got %q, want %q", words, want)
	}
	if _, err := version.ParseSemantic(want); err != nil {
		t.Errorf("clients cannot parse it: %v", err)
	}
	if raw := run(t, binary, "--version=raw"); !strings.Contains(raw, `Major:"1", Minor:"37"`) || !strings.Contains(raw, `GitTreeState:"dirty"`) {
		t.Errorf("--version=raw: %s", raw)
	}
	if strings.Contains(run(t, binary, "--version=raw"), "$Format") {
		t.Error("a part of the version was not set")
	}
}

// kubernetesVersion is the version of k8s.io/kubernetes that is linked into the test.
func kubernetesVersion(t *testing.T) string {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("the test was built without its modules' versions")
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubernetes" {
			return m.Version
		}
	}
	t.Fatal("k8s.io/kubernetes is not linked in")
	return ""
}

func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return string(output)
}
