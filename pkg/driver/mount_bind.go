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
	if err := bind(source, target, options); err != nil {
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

// bind needs Linux 5.12, for mount_setattr(2). Older kernels can only bind first
// and make it read-only afterwards; killed in between, a pod could write.
func bind(source, target string, options []string) (err error) {
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
