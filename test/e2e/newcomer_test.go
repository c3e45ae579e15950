package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/test/doctor"
)

// maxCommands is how many a newcomer needs at most for a first volume, and to be rid of
// everything again.
const maxCommands = 10

// testNewcomer runs the commands under "Use it" in the README, as they stand there.
func testNewcomer(t *testing.T, b bed) {
	programs := t.TempDir()
	if err := os.Symlink(b.KubectlPath(), filepath.Join(programs, "kubectl")); err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(doctest.Read(t, "../../README.md"), "\n## Use it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := doctest.Shell(section)
	if len(commands) == 0 || len(commands) > maxCommands {
		t.Fatalf("%d commands, want 1 to %d", len(commands), maxCommands)
	}
	person := doctor.Console{Kubeconfig: b.Kubeconfig(), Path: programs + ":" + os.Getenv("PATH"), Cache: programs}
	for _, command := range commands {
		if strings.HasPrefix(command, "vgcreate ") {
			if !strings.Contains(command, " "+group+" ") {
				t.Errorf("%s: the nodes here have %s", command, group)
			}
			continue
		}
		stdout, stderr, code, err := person.Run(t.Context(), command)
		t.Logf("%s\n%s%s", command, stdout, stderr)
		if err != nil || code != 0 {
			t.Fatalf("status %d, %v", code, err)
		}
		switch {
		case strings.HasPrefix(command, "kubectl wait pod/writer "):
			if log := b.Must(t, "exec", "writer", "--", "cat", "/data/log"); strings.TrimSpace(log) == "" {
				t.Error("the pod has written nothing")
			}
		case strings.HasPrefix(command, "kubectl get persistentvolumes"):
			b.wantNoVolumes(t)
		}
	}
	b.wantNothingOfOurs(t, 0)
}
