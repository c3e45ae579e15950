package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeRunner answers in this process, so that the clock can be fake, too.
type fakeRunner struct {
	start  time.Time
	report json.RawMessage

	mu    sync.Mutex
	onRun func(Command)
	ran   []string // "<seconds since start> <command>"
}

func (r *fakeRunner) Run(_ context.Context, cmd Command) (Result, error) {
	r.mu.Lock()
	r.ran = append(r.ran, fmt.Sprintf("%.2f %s", time.Since(r.start).Seconds(), cmd.Name))
	onRun := r.onRun
	r.mu.Unlock()
	if onRun != nil {
		onRun(cmd)
	}
	if cmd.Name == "vgcfgbackup" {
		if err := os.WriteFile(cmd.Args[1], []byte("metadata"), 0o600); err != nil {
			return Result{}, err
		}
	}
	return Result{Report: r.report, Log: []LogEntry{{Type: "print", Message: "done"}}}, nil
}

// whenRun calls f during each command from now on.
func (r *fakeRunner) whenRun(f func(Command)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onRun = f
}

func (r *fakeRunner) Reset() error { return nil }
func (r *fakeRunner) Close() error { return nil }

func (r *fakeRunner) commands() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.ran
	r.ran = nil
	return out
}

// inBubble runs test with a client on a fake clock.
func inBubble(t *testing.T, edit func(*Options), test func(t *testing.T, c *Client, r *fakeRunner)) {
	t.Helper()
	dir := t.TempDir()
	report := recorded(t, "mixed")
	synctest.Test(t, func(t *testing.T) {
		opts := Options{RunDir: dir, VolumeGroups: []VolumeGroupSelector{{Name: "vgA"}}}
		if edit != nil {
			edit(&opts)
		}
		opts, err := opts.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		r := &fakeRunner{start: time.Now(), report: report}
		disks := &fakeRunner{report: disksOf(pvsRow{"/dev/ubdb", "vgA", uuidA}, pvsRow{"/dev/ubdc", "vgA", uuidA}).Report}
		c := newClient(opts, r, disks)
		c.start()
		if _, err := c.State(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, c, r)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestClient_RefreshesOnTheSlowTimer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *Client, r *fakeRunner) {
		time.Sleep(150 * time.Second)
		if diff := cmp.Diff([]string{"0.00 fullreport", "60.00 fullreport", "120.00 fullreport"}, r.commands()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestClient_ChangesShareOneReport(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *Client, r *fakeRunner) {
		time.Sleep(time.Second)
		for i := range 3 {
			if _, err := c.Create(t.Context(), linear(fmt.Sprint("new", i), mib)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		want := []string{"0.00 fullreport", "1.00 lvcreate", "1.50 lvcreate", "2.00 lvcreate", "2.75 fullreport"}
		if diff := cmp.Diff(want, r.commands()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestClient_StreamOfChangesCannotPutOffTheReportForEver(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *Client, r *fakeRunner) {
		r.commands()
		reports := 0
		r.whenRun(func(cmd Command) {
			if cmd.Name == "fullreport" {
				reports++
			}
		})
		for i := range 20 * 4 { // 20 seconds
			if _, err := c.Create(t.Context(), linear(fmt.Sprint("new", i), mib)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(250 * time.Millisecond)
		}
		if reports != 2 {
			t.Errorf("%d reports in 20 s of changes, want one each 7.5 s", reports)
		}
	})
}

func TestClient_RefreshesAtTheSameTimeShareOneReport(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *Client, r *fakeRunner) {
		r.commands()
		r.whenRun(func(Command) { time.Sleep(time.Second) })
		var all sync.WaitGroup
		time.Sleep(time.Second)
		for range 10 {
			all.Go(func() {
				if _, err := c.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		// The first may have begun before the others asked, so it is not theirs.
		if got := len(r.commands()); got != 1 && got != 2 {
			t.Errorf("%d reports for 10 callers", got)
		}
	})
}

func TestClient_HealthyCostsNothingWhileReportsCome(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *Client, r *fakeRunner) {
		time.Sleep(90 * time.Second)
		r.commands()
		if err := c.Healthy(t.Context()); err != nil {
			t.Error(err)
		}
		if got := r.commands(); len(got) != 0 {
			t.Errorf("commands %q", got)
		}
	})
}

func TestClient_HealthyEndsWithTheContextWhenLVMHangs(t *testing.T) {
	inBubble(t, func(o *Options) { o.RefreshInterval = time.Minute }, func(t *testing.T, c *Client, r *fakeRunner) {
		r.whenRun(func(Command) { time.Sleep(time.Hour) })
		time.Sleep(10 * time.Minute) // the refresh of the first minute hangs
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Healthy(ctx); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := c.State(ctx); err != nil {
			t.Errorf("State: %v", err)
		}
	})
}

func TestClient_BacksUpMetadataAfterChanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backup")
	inBubble(t, func(o *Options) { o.BackupDir = dir }, func(t *testing.T, c *Client, r *fakeRunner) {
		c.noteChange()
		time.Sleep(10 * time.Minute)
		backups := 0
		for _, command := range r.commands() {
			if command[len(command)-len("vgcfgbackup"):] == "vgcfgbackup" {
				backups++
			}
		}
		if backups != 1 {
			t.Errorf("%d backups, the metadata changed never after the first", backups)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 || entries[0].Name() != "vgA" {
			t.Errorf("backup folder has %v, %v", entries, err)
		}
	})
}
