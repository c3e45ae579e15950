package vm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// stage is where the new root is put together. /proc exists on every host, and nothing
// in the host's own is of use to the throwaway kernel.
const stage = "/proc"

type mountPoint struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// systemMounts are relative to the new root.
var systemMounts = []mountPoint{
	{"proc", "proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"sysfs", "sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"devtmpfs", "dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
	{"devpts", "dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"},
	{"tmpfs", "dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, ""},
	{"tmpfs", "run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	{"cgroup2", "sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
}

// mountRoot replaces the root, which is the host's and read-only, with an overlay whose
// changes are in memory.
func mountRoot(shares []specShare) error {
	if err := mount(mountPoint{"tmpfs", stage, "tmpfs", 0, "size=75%,mode=0755"}); err != nil {
		return err
	}
	upper, work, root := filepath.Join(stage, "upper"), filepath.Join(stage, "work"), filepath.Join(stage, "root")
	for _, dir := range []string{upper, work, root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	err := mount(mountPoint{"overlay", root, "overlay", 0, "lowerdir=/,upperdir=" + upper + ",workdir=" + work})
	if err != nil {
		return err
	}
	for _, m := range systemMounts {
		m.target = filepath.Join(root, m.target)
		if err := mount(m); err != nil {
			return err
		}
	}
	if err := enterRoot(root); err != nil {
		return err
	}
	for _, share := range shares {
		if err := mount(mountPoint{"none", string(share.Guest), "hostfs", 0, string(share.Host)}); err != nil {
			return fmt.Errorf("share %s: %w", share.Host, err)
		}
	}
	return finishRoot()
}

func mount(m mountPoint) error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.kind, m.target, err)
	}
	return nil
}

// enterRoot makes root the root of every process, not only of this one, so that nothing
// inside takes itself for a chroot.
func enterRoot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	return os.Chdir("/")
}

// finishRoot makes what a booted system has: mounts that propagate, and modules where
// modprobe and the kernel itself look for them.
func finishRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share the mounts: %w", err)
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return err
	}
	version := unix.ByteSliceToString(uts.Release[:])
	for _, dir := range []string{"/lib/modules", "/run/lock", "/run/lvm"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	err := os.Symlink(filepath.Join(kernelModules, version), filepath.Join("/lib/modules", version))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, filepath.Join("/dev", name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// seedRandom gives the kernel random bytes and says that they are.
func seedRandom(seed []byte) error {
	fd, err := unix.Open("/dev/urandom", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("seed random numbers: %w", err)
	}
	defer unix.Close(fd)
	// struct rand_pool_info: bits, bytes, data.
	pool := make([]byte, 8, 8+len(seed))
	binary.NativeEndian.PutUint32(pool, uint32(8*len(seed)))
	binary.NativeEndian.PutUint32(pool[4:], uint32(len(seed)))
	pool = append(pool, seed...)
	if err := ioctlPointer(fd, unix.RNDADDENTROPY, pool); err != nil {
		return fmt.Errorf("seed random numbers: %w", err)
	}
	return nil
}
