package service

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/test/admin"
)

// A disk that does not answer stops what has to write to it, and nothing else:
// calls end in time, the same volume says that it is busy, reading goes on, no
// process is killed, and when the disk comes back so does the right state.
func TestHangingDisk(t *testing.T) {
	b := newBed(t, "zero")
	ctx := t.Context()
	v := b.handOut(ctx, spec("thick", "ext4", "before", 64*mib), podA)
	lvmBefore := children(t, b.PID(), "lvm")
	if len(lvmBefore) != 1 {
		t.Fatalf("lvm processes: %v, want one", lvmBefore)
	}

	admin.Run(t, "dmsetup", "suspend", "--nolockfs", diskName)
	resumed := false
	resume := func() {
		if !resumed {
			admin.CleanUp(t, "dmsetup", "resume", diskName)
			resumed = true
		}
	}
	t.Cleanup(resume)

	const patience = 3 * time.Second
	create := func(name string) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := b.Create(ctx, spec("thick", "", name, 32*mib))
		return err
	}
	began := time.Now()
	if err := create("hung"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("creation while the disk hangs: %v, want DeadlineExceeded", err)
	}
	if took := time.Since(began); took > 2*patience {
		t.Errorf("the answer took %v, the deadline was %v", took, patience)
	}
	if err := create("hung"); status.Code(err) != codes.Aborted {
		t.Errorf("the same volume: %v, want Aborted", err)
	}
	if err := create("other"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("another volume: %v, want DeadlineExceeded", err)
	}
	b.readsGoOn(ctx, v.ID, b.TargetPath(v, podA))
	if now := children(t, b.PID(), "lvm"); fmt.Sprint(now) != fmt.Sprint(lvmBefore) {
		t.Errorf("lvm processes: %v before, %v now", lvmBefore, now)
	}

	resume()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, name := range []string{"hung", "other"} {
		err := retried(ctx, func() error {
			made, err := b.Create(ctx, spec("thick", "", name, 32*mib))
			if err != nil {
				return err
			}
			return b.Delete(ctx, made.ID)
		})
		if err != nil {
			t.Errorf("%s after the disk came back: %v", name, err)
		}
	}
	b.takeBack(ctx, v, podA)
	b.asBefore()
}

// readsGoOn makes the calls that must not depend on LVM; each has a second.
func (b *bed) readsGoOn(ctx context.Context, id, path string) {
	b.t.Helper()
	for name, call := range map[string]func(ctx context.Context) error{
		"NodeGetVolumeStats": func(ctx context.Context) error {
			_, err := b.Node.Node.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: path})
			return err
		},
		"ListVolumes": func(ctx context.Context) error {
			_, err := b.Controller.ListVolumes(ctx, &csi.ListVolumesRequest{})
			return err
		},
		"GetCapacity": func(ctx context.Context) error {
			_, err := b.Controller.GetCapacity(ctx, &csi.GetCapacityRequest{Parameters: map[string]string{"pool": "thin"}})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		if err := call(ctx); err != nil {
			b.t.Errorf("%s while the disk hangs: %v", name, err)
		}
		cancel()
	}
}

// children are the process numbers of pid's children with that name.
func children(t *testing.T, pid int, name string) []string {
	t.Helper()
	var found []string
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range strings.Fields(string(data)) {
			if comm, err := os.ReadFile("/proc/" + child + "/comm"); err == nil && strings.TrimSpace(string(comm)) == name {
				found = append(found, child)
			}
		}
	}
	return found
}
