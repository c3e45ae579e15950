package poolconfig

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	oneThick  = "pools: [{name: a, volumeGroup: vg-a, type: thick}]\n"
	twoThick  = "pools: [{name: a, volumeGroup: vg-a, type: thick}, {name: b, volumeGroup: vg-b, type: thick}]\n"
	misspelt  = "pools: [{name: a, volumeGroup: vg-a, type: thck}]\n"
	misspelt2 = "pools: [{name: a, volumeGrup: vg-a, type: thick}]\n"
)

// watched runs Watch in a bubble of fake time and keeps what it told.
type watched struct {
	dir, path string
	reload    chan struct{}
	changes   []int // number of pools of each new configuration
	errors    []string
}

func startWatch(t *testing.T, content string) *watched {
	t.Helper()
	w := &watched{dir: t.TempDir(), reload: make(chan struct{})}
	w.path = filepath.Join(w.dir, "pools.yaml")
	w.write(t, content)
	current, err := Load(w.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, WatchOptions{
			Path: w.path, Current: current, Reload: w.reload,
			OnChange: func(c Config) { w.changes = append(w.changes, len(c.ForNode(""))) },
			OnError:  func(err error) { w.errors = append(w.errors, err.Error()) },
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// write replaces the file at once, so that a look never finds half of it.
func (w *watched) write(t *testing.T, content string) {
	t.Helper()
	temporary := w.path + ".new"
	if err := os.WriteFile(temporary, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, w.path); err != nil {
		t.Fatal(err)
	}
}

// tick lets the time of n looks pass.
func (w *watched) tick(n int) {
	<-time.After(time.Duration(n) * DefaultInterval)
	synctest.Wait()
}

func (w *watched) signal() {
	w.reload <- struct{}{}
	synctest.Wait()
}

func (w *watched) expect(t *testing.T, step string, changes []int, errors ...string) {
	t.Helper()
	if len(w.changes) != len(changes) || len(w.errors) != len(errors) {
		t.Fatalf("%s: changes %v, errors %q; want %v, %q", step, w.changes, w.errors, changes, errors)
	}
	for i := range changes {
		if w.changes[i] != changes[i] {
			t.Errorf("%s: changes %v, want %v", step, w.changes, changes)
		}
	}
	for i := range errors {
		if !strings.Contains(w.errors[i], errors[i]) {
			t.Errorf("%s: error %q, want %q", step, w.errors[i], errors[i])
		}
	}
	w.changes, w.errors = nil, nil
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatch(t, oneThick)
		w.tick(3)
		w.expect(t, "nothing changed", nil)
		w.signal()
		w.expect(t, "signal, nothing changed", nil)
		w.write(t, twoThick)
		w.tick(3)
		w.expect(t, "changed", []int{2})
		w.write(t, oneThick)
		w.signal()
		w.expect(t, "changed and signalled", []int{1})
		w.tick(3)
		w.expect(t, "told once", nil)
	})
}

// A bad file keeps what was valid, is told once, and again when somebody asks.
func TestWatch_BadFileKeepsTheOldConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatch(t, oneThick)
		w.write(t, misspelt)
		w.tick(5)
		w.expect(t, "bad file", nil, `"thck" is not known; want thick`)
		w.signal()
		w.expect(t, "asked", nil, `"thck" is not known; want thick`)
		w.write(t, misspelt2)
		w.tick(2)
		w.expect(t, "another bad file", nil, "did you mean volumeGroup?")
		w.write(t, oneThick)
		w.tick(2)
		w.expect(t, "back to what is in use", nil)
		w.write(t, misspelt2)
		w.tick(2)
		w.expect(t, "bad again", nil, "did you mean volumeGroup?")
		w.write(t, twoThick)
		w.tick(2)
		w.expect(t, "good file", []int{2})
	})
}

func TestWatch_MissingFileKeepsTheOldConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatch(t, oneThick)
		if err := os.Remove(w.path); err != nil {
			t.Fatal(err)
		}
		w.tick(5)
		w.expect(t, "gone", nil, "no such file")
		w.write(t, twoThick)
		w.tick(1)
		w.expect(t, "back", []int{2})
	})
}

// kubelet changes a ConfigMap by exchanging a link above the file, whose own
// link, name and time stay as they are.
func TestWatch_ConfigMapLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWatch(t, oneThick)
		for version, content := range map[string]string{"..v1": oneThick, "..v2": twoThick} {
			if err := os.MkdirAll(filepath.Join(w.dir, version), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(w.dir, version, "pools.yaml"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		link := func(target, name string) {
			if err := os.Symlink(target, filepath.Join(w.dir, "tmp")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(w.dir, "tmp"), filepath.Join(w.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		link("..v1", "..data")
		link("..data/pools.yaml", "pools.yaml")
		w.tick(2)
		w.expect(t, "same bytes behind links", nil)
		link("..v2", "..data")
		w.tick(2)
		w.expect(t, "link exchanged", []int{2})
	})
}

func TestLoad_Errors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte(misspelt), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		dir:                        "is a directory",
		bad:                        bad + ":\n1:44: pools[0].type",
	} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
