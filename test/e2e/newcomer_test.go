package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/internal/doctest"
)

// maxCommands is how many a newcomer needs at most for a first volume, and to be rid of
// everything again.
const maxCommands = 10

// testNewcomer runs the commands under "Use it" in the README, as they stand there.
func testNewcomer(t *testing.T, b bed) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.Symlink(b.KubectlPath(), filepath.Join(programs, "kubectl")); err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(doctest.Read(t, root+"/README.md"), "\n## Use it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := doctest.Shell(section)
	if len(commands) == 0 || len(commands) > maxCommands {
		t.Fatalf("%d commands, want 1 to %d", len(commands), maxCommands)
	}
	for _, command := range commands {
		if strings.HasPrefix(command, "vgcreate ") {
			if !strings.Contains(command, " "+group+" ") {
				t.Errorf("%s: the nodes here have %s", command, group)
			}
			continue
		}
		shell := exec.CommandContext(t.Context(), "sh", "-c", command)
		shell.Dir = root
		shell.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+b.Kubeconfig(), "HOME="+programs)
		out, err := shell.CombinedOutput()
		t.Logf("%s\n%s", command, out)
		if err != nil {
			t.Fatal(err)
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
	for _, n := range b.Nodes() {
		b.wantCount(t, n, -1, -1)
	}
	b.wantNothingOfOurs(t, 0)
}
