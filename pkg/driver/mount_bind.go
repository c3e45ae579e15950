package driver

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// Bind makes a copy of source's mount, gives it its options while nobody can
// see it, and attaches it at target. Symbolic links at target are not followed.
func (m *mounter) Bind(ctx context.Context, source, target string, options []string) error {
	err := bindDetached(source, target, options)
	if errors.Is(err, unix.ENOSYS) {
		err = bindThenRemount(source, target, options)
	}
	if err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, target, err)
	}
	klog.FromContext(ctx).V(2).Info("Bound", "source", source, "path", target, "options", options)
	return nil
}

// Unmount is umount(2): neither lazy nor forced, because a file system that is
// still in use behind a path that looks unmounted is how data gets lost.
func (m *mounter) Unmount(ctx context.Context, target string) error {
	if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	klog.FromContext(ctx).V(2).Info("Unmounted", "path", target)
	return nil
}

// bindDetached needs Linux 5.12 (mount_setattr(2)).
func bindDetached(source, target string, options []string) (err error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(tree)) }()
	var attributes unix.MountAttr
	for _, known := range perMountOptions() {
		if mountOptions(options).has(known.name) {
			attributes.Attr_set |= known.set
			attributes.Attr_clr |= known.clear
		}
	}
	if attributes != (unix.MountAttr{}) {
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attributes); err != nil {
			return fmt.Errorf("mount_setattr: %w", err)
		}
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// bindThenRemount does for older kernels in two steps what bindDetached does in
// one. If the second fails, the first is undone.
func bindThenRemount(source, target string, options []string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	flags, err := currentFlags(target)
	if err == nil {
		asked := uintptr(0)
		for _, known := range perMountOptions() {
			if mountOptions(options).has(known.name) {
				asked |= known.flag
			}
		}
		if asked&^flags == 0 {
			return nil
		}
		err = unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags|asked, "")
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, unix.Unmount(target, unix.UMOUNT_NOFOLLOW))
}

// currentFlags are the per-mount options that path has now: a bind remount
// takes away those that it does not name.
func currentFlags(path string) (uintptr, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	flags := uintptr(0)
	for shown, flag := range map[int64]uintptr{
		unix.ST_RDONLY: unix.MS_RDONLY, unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV,
		unix.ST_NOEXEC: unix.MS_NOEXEC, unix.ST_NOATIME: unix.MS_NOATIME, unix.ST_NODIRATIME: unix.MS_NODIRATIME,
		unix.ST_RELATIME: unix.MS_RELATIME,
	} {
		if s.Flags&shown != 0 {
			flags |= flag
		}
	}
	return flags, nil
}
