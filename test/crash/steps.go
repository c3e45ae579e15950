// Package crash kills the driver's process, with SIGKILL, before and after every
// step in which a call changes LVM, a device or the mount table, and sees that
// repeating the call ends as if nothing had happened.
package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/lvm"
)

// point says where to die: before or after the step with that number.
type point struct {
	step  int64
	after bool
}

func (p point) String() string {
	if p.after {
		return fmt.Sprintf("after step %d", p.step)
	}
	return fmt.Sprintf("before step %d", p.step)
}

// stepper counts steps while the file is there, and dies at the point that it names.
type stepper struct {
	file  string
	count atomic.Int64
}

// step runs do between two points.
func (s *stepper) step(name string, do func() error) error {
	target, armed := s.target()
	if !armed {
		return do()
	}
	number := s.count.Add(1)
	if number == target.step && !target.after {
		die("before", name)
	}
	err := do()
	if number == target.step && target.after {
		die("after", name)
	}
	return err
}

func (s *stepper) target() (p point, armed bool) {
	data, err := os.ReadFile(s.file)
	if errors.Is(err, os.ErrNotExist) {
		s.count.Store(0)
		return point{}, false
	}
	var when string
	if err == nil {
		_, err = fmt.Sscanf(string(data), "%s %d", &when, &p.step)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash: unreadable point:", err)
		os.Exit(2)
	}
	p.after = when == "after"
	return p, true
}

// die ends the process as the kernel's out-of-memory killer would. The step's
// name goes to the log, for the reader of a failure.
func die(when, name string) {
	fmt.Fprintln(os.Stderr, "crash:", when, name)
	if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
		os.Exit(2)
	}
	select {} // the signal is on its way
}

// stepVolumes, stepDevices and stepMounter are the real ones with a point before
// and after everything that changes something.
type stepVolumes struct {
	*lvm.Client
	s *stepper
}

func (v stepVolumes) Create(ctx context.Context, req lvm.CreateRequest) (lv lvm.LogicalVolume, err error) {
	err = v.s.step("lvcreate", func() error { lv, err = v.Client.Create(ctx, req); return err })
	return lv, err
}

func (v stepVolumes) Remove(ctx context.Context, ref lvm.Ref) error {
	return v.s.step("lvremove", func() error { return v.Client.Remove(ctx, ref) })
}

func (v stepVolumes) Extend(ctx context.Context, ref lvm.Ref, sizeBytes int64) (lv lvm.LogicalVolume, err error) {
	err = v.s.step("lvextend", func() error { lv, err = v.Client.Extend(ctx, ref, sizeBytes); return err })
	return lv, err
}

func (v stepVolumes) Activate(ctx context.Context, ref lvm.Ref) (lv lvm.LogicalVolume, err error) {
	err = v.s.step("lvchange -ay", func() error { lv, err = v.Client.Activate(ctx, ref); return err })
	return lv, err
}

func (v stepVolumes) ChangeTags(ctx context.Context, ref lvm.Ref, add, remove []string) error {
	return v.s.step("lvchange --addtag", func() error { return v.Client.ChangeTags(ctx, ref, add, remove) })
}

func (v stepVolumes) ChangeTagsUnlessOrigin(ctx context.Context, ref lvm.Ref, add, remove []string) error {
	return v.s.step("lvchange --addtag", func() error { return v.Client.ChangeTagsUnlessOrigin(ctx, ref, add, remove) })
}

type stepDevices struct {
	driver.Devices
	s *stepper
}

func (d stepDevices) ClearEnds(ctx context.Context, path string) error {
	return d.s.step("clear the ends", func() error { return d.Devices.ClearEnds(ctx, path) })
}

func (d stepDevices) Zero(ctx context.Context, path string, discard bool, progress func(int64)) error {
	return d.s.step("wipe", func() error { return d.Devices.Zero(ctx, path, discard, progress) })
}

type stepMounter struct {
	driver.Mounter
	s *stepper
}

func (m stepMounter) Format(ctx context.Context, device, fsType string, options []string) error {
	return m.s.step("mkfs", func() error { return m.Mounter.Format(ctx, device, fsType, options) })
}

func (m stepMounter) Mount(ctx context.Context, device, target, fsType string, options []string) error {
	return m.s.step("mount", func() error { return m.Mounter.Mount(ctx, device, target, fsType, options) })
}

func (m stepMounter) Bind(ctx context.Context, source, target string, options []string) error {
	return m.s.step("mount --bind", func() error { return m.Mounter.Bind(ctx, source, target, options) })
}

func (m stepMounter) Unmount(ctx context.Context, target string) error {
	return m.s.step("umount", func() error { return m.Mounter.Unmount(ctx, target) })
}

func (m stepMounter) Grow(ctx context.Context, device, mountPoint, fsType string) error {
	return m.s.step("grow the file system", func() error { return m.Mounter.Grow(ctx, device, mountPoint, fsType) })
}
