package beside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
	"github.com/csi-local/csi-local/test/lvm/onegroup"
)

// slowDisk is a disk behind a device-mapper device that can be suspended.
const slowDisk = "/dev/mapper/slowdisk"

// hangable makes the volume group on a disk that can be suspended, and a client that
// counts the processes it starts.
func hangable(t *testing.T, plainExec bool) (*lvmtest.Real, *lvm.Client, *atomic.Int64) {
	t.Helper()
	below := lvmtest.NewReal(t, disks(), lvm.Options{})
	// It begins behind the place of the label, or LVM would find the same physical
	// volume on the disk below and use that.
	below.Command(t, "dmsetup", "create", "slowdisk", "--table", fmt.Sprintf("0 %d linear %s 2048", 512*2048, disks()[0]))
	t.Cleanup(func() {
		if _, err := below.Try("dmsetup", "remove", "--force", "slowdisk"); err != nil {
			t.Error(err)
		}
	})
	processes := &atomic.Int64{}
	r := lvmtest.NewReal(t, []string{slowDisk}, lvm.Options{
		PlainExec: plainExec,
		// No report may come in between and take the turn.
		RefreshDelay: time.Hour, RefreshInterval: time.Hour,
		Observe: func(s lvm.CommandStats) {
			if s.Process {
				processes.Add(1)
			}
		},
	})
	r.AddGroup(t, "vgA", 4*mib, 1)
	c := r.Client(t, lvm.VolumeGroupSelector{Name: "vgA"})
	if _, err := c.Create(t.Context(), onegroup.Linear(onegroup.Ref("there"))); err != nil {
		t.Fatal(err)
	}
	// Turns are given in order, so the report that a new client makes by itself is over.
	onegroup.Refreshed(t, c)
	return r, c, processes
}

// lockGroup takes LVM's lock on the volume group, as a command that hangs has it.
func lockGroup(t *testing.T) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(lockFile("vgA"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() {
		// LVM does the same: removed while it is locked, so that nobody waits for a
		// file that is no longer there.
		if err := errors.Join(os.Remove(f.Name()), f.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestHang_CallersTimeOutStateAnswersNothingIsKilled(t *testing.T) {
	for _, way := range []string{"suspended disk", "lock held"} {
		for _, plainExec := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, plain exec %v", way, plainExec), func(t *testing.T) {
				r, c, processes := hangable(t, plainExec)
				release := func() { r.Command(t, "dmsetup", "resume", "slowdisk") }
				if way == "lock held" {
					release = lockGroup(t)
				} else {
					r.Command(t, "dmsetup", "suspend", "slowdisk")
				}
				hang(t, c, processes, plainExec, release)
			})
		}
	}
}

// hang makes calls while LVM hangs: one gets the turn and waits for LVM, all others
// must give up in time.
func hang(t *testing.T, c *lvm.Client, processes *atomic.Int64, plainExec bool, release func()) {
	const calls = 4
	before := processes.Load()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	type outcome struct {
		name string
		err  error
	}
	outcomes := make(chan outcome, calls)
	for i := range calls {
		go func() {
			name := fmt.Sprintf("hang%d", i)
			_, err := c.Create(ctx, onegroup.Linear(onegroup.Ref("%s", name)))
			outcomes <- outcome{name, err}
		}()
	}
	for range calls - 1 {
		if got := <-outcomes; !errors.Is(got.err, lvm.ErrTimeout) || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("%s while LVM hangs: %v", got.name, got.err)
		}
	}
	state, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if vg, _ := state.VolumeGroup("vgA"); len(vg.LogicalVolumes) != 1 {
		t.Errorf("while LVM hangs the state has %v", vg.LogicalVolumes)
	}
	release()
	last := <-outcomes
	if last.err != nil {
		t.Errorf("the call that waited for LVM: %v", last.err)
	}
	vg := onegroup.Refreshed(t, c)
	if _, ok := vg.LogicalVolume(last.name); !ok || len(vg.LogicalVolumes) != 2 {
		t.Errorf("in the end there are %v", vg.LogicalVolumes)
	}
	if started := processes.Load() - before; !plainExec && started != 0 {
		t.Errorf("the shell was started %d times more", started)
	}
}

// waitForLockWaiter returns when a process waits for a lock on a file (proc_locks(5)).
func waitForLockWaiter(t *testing.T) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for range 500 {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(locks), "-> FLOCK") {
			return
		}
		<-look.C
	}
	t.Fatal("nobody waits for the lock")
}

// lvmChildren are the children of this process that run lvm.
func lvmChildren(t *testing.T) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(content))
		if len(fields) > 3 && fields[1] == "(lvm)" && fields[3] == strconv.Itoa(os.Getpid()) {
			pid, err := strconv.Atoi(fields[0])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestKilled_ShellIsUnavailableOnceAndReplaced(t *testing.T) {
	_, c, processes := hangable(t, false)
	unlock := lockGroup(t)
	before := processes.Load()
	result := make(chan error, 1)
	go func() {
		_, err := c.Create(t.Context(), onegroup.Linear(onegroup.Ref("a")))
		result <- err
	}()
	waitForLockWaiter(t)
	shells := lvmChildren(t)
	if len(shells) != 1 {
		t.Fatalf("lvm processes %v", shells)
	}
	if err := unix.Kill(shells[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The truth is read from a new shell, which waits for the lock as well.
	unlock()
	if err := <-result; err != nil && !errors.Is(err, lvm.ErrUnavailable) {
		t.Errorf("Create whose lvm was killed: %v", err)
	}
	if _, err := c.Create(t.Context(), onegroup.Linear(onegroup.Ref("b"))); err != nil {
		t.Errorf("the next Create: %v", err)
	}
	vg := onegroup.Refreshed(t, c)
	for _, name := range []string{"there", "b"} {
		if _, ok := vg.LogicalVolume(name); !ok {
			t.Errorf("%s is not there", name)
		}
	}
	if started := processes.Load() - before; started < 1 {
		t.Error("no new shell was started")
	}
}
