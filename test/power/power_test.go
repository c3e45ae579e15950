package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/vm"
)

// cuts is how often the power is cut.
const cuts = 20

func TestMain(m *testing.M) {
	if vm.Inside() {
		if err := guest(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "power:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestPowerCuts: after each cut no volume that was answered is lost, none that
// was deleted is back, none is doubled or leaked, what was synced is intact, and
// what was interrupted is brought to an end by repeating the call.
func TestPowerCuts(t *testing.T) {
	folder := t.TempDir()
	binary, err := nodeproc.Build(t.Context(), "power")
	if err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(folder, "shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var volumes, pieces int
	for round := range cuts + 1 {
		life := machineLife{folder: folder, binary: binary, shared: shared, round: round}
		if round < cuts {
			life.cutAfter = time.Duration(500+random.IntN(4000)) * time.Millisecond
		}
		verified := life.run(t)
		t.Logf("life %d: %s; power cut %v into the load", round, verified, life.cutAfter)
		var v, p int
		if _, err := fmt.Sscanf(verified, markVerified+verifiedFormat, &v, &p); err != nil {
			t.Fatalf("life %d said %q: %v", round, verified, err)
		}
		volumes, pieces = volumes+v, pieces+p
	}
	t.Logf("%d power cuts, %d volumes and %d synced pieces found intact", cuts, volumes, pieces)
	if volumes < cuts || pieces < cuts {
		t.Errorf("too little to lose: %d volumes and %d synced pieces in %d lives", volumes, pieces, cuts)
	}
}

// machineLife is one boot of the machine on the same disks.
type machineLife struct {
	folder, binary, shared string
	round                  int
	// cutAfter is the time under load; 0 ends the machine after the check.
	cutAfter time.Duration
}

func (l machineLife) run(t *testing.T) (verified string) {
	t.Helper()
	stdout, lines := newLineWatch()
	var stderr bytes.Buffer
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	machine, err := vm.Start(t.Context(), vm.Options{
		Command: []string{self},
		Env: []string{envBinary + "=" + l.binary, envJournal + "=" + filepath.Join(l.shared, "journal"),
			fmt.Sprintf("%s=%d", envRound, l.round)},
		Disks: []vm.Disk{{File: filepath.Join(l.folder, "thick.img"), SizeBytes: 8 << 30},
			{File: filepath.Join(l.folder, "thin.img"), SizeBytes: 8 << 30}},
		Shares:   []vm.Share{{Host: l.shared, Guest: l.shared}},
		PowerCut: true, Timeout: 5 * time.Minute, Stdout: stdout, Stderr: &stderr, Log: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		status, err := machine.Wait()
		ended <- errors.Join(err, fmt.Errorf("exit status %d", status))
	}()
	for {
		select {
		case line := <-lines:
			if strings.HasPrefix(line, markVerified) {
				verified = line
			}
			if line != markLoad {
				continue
			}
		case err := <-ended:
			t.Fatalf("life %d ended by itself: %v\n%s", l.round, err, stderr.String())
		}
		break
	}
	select {
	case <-time.After(l.cutAfter): // the moment of the cut is what is random here
	case err := <-ended:
		t.Fatalf("life %d: the load failed: %v\n%s", l.round, err, stderr.String())
	}
	if err := machine.CutPower(); err != nil {
		t.Fatal(err)
	}
	return verified
}

// lineWatch hands on the lines that are written to it.
type lineWatch struct {
	rest  []byte
	lines chan string
}

func newLineWatch() (*lineWatch, <-chan string) {
	w := &lineWatch{lines: make(chan string, 64)}
	return w, w.lines
}

func (w *lineWatch) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.lines <- string(line)
		w.rest = rest
	}
}

// TestJournal_TornLastLineAndUncertainWrites: what was begun and not answered is
// kept apart from what was promised.
func TestJournal_TornLastLineAndUncertainWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []fact{
		{Op: opCreate, Volume: "a", SizeBytes: 1}, {Op: opCreate, Volume: "a", Done: true, ID: "vg/a", CapacityBytes: 4},
		{Op: opWrite, Volume: "a", Slot: 1, Seed: 7}, {Op: opWrite, Volume: "a", Slot: 1, Seed: 7, Done: true},
		{Op: opWrite, Volume: "a", Slot: 2, Seed: 8}, {Op: opWrite, Volume: "a", Slot: 2, Seed: 8, Done: true}, {Op: opWrite, Volume: "a", Slot: 2, Seed: 9},
		{Op: opCreate, Volume: "b"}, {Op: opDelete, Volume: "b"},
	} {
		if err := j.record(f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.file.WriteString(`{"Op":"dele`); err != nil {
		t.Fatal(err)
	}
	j, err = openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.record(fact{Op: opCreate, Volume: "c"}); err != nil {
		t.Fatal(err)
	}
	volumes, err := readJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(volumes) != 3 {
		t.Errorf("the journal names %d volumes, want 3", len(volumes))
	}
	a, b := volumes["a"], volumes["b"]
	if !a.created || a.deleting || a.id != "vg/a" || a.minBytes != 4 || a.slots[1] != 7 || a.uncertain[1] || !a.uncertain[2] {
		t.Errorf("a = %+v", a)
	}
	if b.created || !b.deleting || b.deleted {
		t.Errorf("b = %+v", b)
	}
}
