package lvm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// deviceNumber is the kernel's number of a block device.
type deviceNumber struct{ major, minor int }

// devices looks device nodes up and holds them to what the kernel says about
// its device-mapper devices. A node that is left over from another volume, or
// made too late, must not be mistaken for the volume.
type devices struct {
	sysDir string
	// stat returns the number of the block device at path (links followed).
	stat func(path string) (deviceNumber, error)
}

// errNoNode: the node is not (yet) there, or not the right one.
var errNoNode = errors.New("device node")

// find returns the number of the device node at path if it is the
// device-mapper device of that volume. vgUUID and lvUUID may be empty if they
// are not known; then the name alone decides.
func (d devices) find(path string, ref Ref, vgUUID, lvUUID string) (deviceNumber, error) {
	number, err := d.stat(path)
	if err != nil {
		return number, fmt.Errorf("%w %s: %w", errNoNode, path, err)
	}
	dm := filepath.Join(d.sysDir, "dev", "block", fmt.Sprintf("%d:%d", number.major, number.minor), "dm")
	name, err := readLine(filepath.Join(dm, "name"))
	if errors.Is(err, fs.ErrNotExist) {
		return number, fmt.Errorf("%w %s is %d:%d, which is no device-mapper device", errNoNode, path, number.major, number.minor)
	}
	if err != nil {
		return number, fmt.Errorf("%w %s: %w", errNoNode, path, err)
	}
	uuid, err := readLine(filepath.Join(dm, "uuid"))
	if err != nil {
		return number, fmt.Errorf("%w %s: %w", errNoNode, path, err)
	}
	if want := deviceMapperName(ref); name != want {
		return number, fmt.Errorf("%w %s is the device %s, not %s", errNoNode, path, name, want)
	}
	if want := "LVM-" + squeeze(vgUUID) + squeeze(lvUUID); vgUUID != "" && !strings.HasPrefix(uuid, want) {
		return number, fmt.Errorf("%w %s has the UUID %s, wanted is %s", errNoNode, path, uuid, want)
	}
	return number, nil
}

// squeeze turns LVM's way of writing UUIDs into device-mapper's.
func squeeze(uuid string) string { return strings.ReplaceAll(uuid, "-", "") }

func readLine(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}

// statBlockDevice is devices.stat for the real file system.
func statBlockDevice(path string) (deviceNumber, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return deviceNumber{-1, -1}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return deviceNumber{-1, -1}, errors.New("not a block device")
	}
	return deviceNumber{int(unix.Major(st.Rdev)), int(unix.Minor(st.Rdev))}, nil
}

const (
	firstLook   = 2 * time.Millisecond
	slowestLook = 100 * time.Millisecond
)

// awaitDevice waits, at most DeviceTimeout, until the volume's node is there
// and the right one. If it does not come by itself soon, LVM is asked to make
// it (vgmknodes(8)). The caller holds the turn.
func (c *Client) awaitDevice(ctx context.Context, ref Ref, vgUUID, lvUUID string) (deviceNumber, error) {
	deadline := time.Now().Add(c.opts.DeviceTimeout)
	askAt := time.Now().Add(c.opts.DeviceTimeout / 5)
	pause := firstLook
	timer := time.NewTimer(0)
	defer timer.Stop()
	asked := false
	for {
		<-timer.C
		number, err := c.devices.find(c.path(ref), ref, vgUUID, lvUUID)
		if err == nil {
			return number, nil
		}
		now := time.Now()
		if now.After(deadline) {
			return number, &Error{Kind: ErrUnavailable, Op: "lvchange", Object: ref.String(),
				Cause: fmt.Errorf("activated, but after %v: %w", c.opts.DeviceTimeout, err)}
		}
		if !asked && (now.After(askAt) || !c.udev) {
			asked = true
			if err := c.makeNodes(ctx, ref); err != nil {
				return number, err
			}
		}
		timer.Reset(pause)
		pause = min(2*pause, slowestLook)
	}
}

func (c *Client) makeNodes(ctx context.Context, ref Ref) error {
	cmd := Command{Name: "vgmknodes", Args: []string{ref.String()}}
	result, err := c.observe(context.WithoutCancel(ctx), c.runner, cmd, 0)
	if err == nil && result.ExitCode == 0 {
		return nil
	}
	return &Error{Kind: ErrUnavailable, Op: cmd.Name, Object: ref.String(), ExitCode: result.ExitCode, Messages: result.Failures(), Cause: err}
}
