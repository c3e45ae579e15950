package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxPathBytes is Linux's own limit (PATH_MAX with its final zero).
const maxPathBytes = 4095

// nodePath checks a staging or target path of a request and returns it with the
// symbolic links above it resolved, which is how the mount table shows it. A
// path outside of kubelet's folders, or one that leads out of them through a
// link, is refused: the driver is root, and whoever can talk to its socket
// shall not choose where on the host it mounts.
//
// The last element need not exist, but must not be a link. If the folder above
// it does not exist, the error matches fs.ErrNotExist as well.
func (d *Driver) nodePath(field, path string) (string, error) {
	if err := checkPathText(field, path); err != nil {
		return "", err
	}
	roots := d.pathRoots()
	if !isBelowAny(path, roots) {
		return "", pathOutside.errorf(field, path, strings.Join(roots, ", "))
	}
	resolved, err := resolveParent(path)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", errPrecondition, field, err)
	}
	for _, root := range roots {
		real, err := filepath.EvalSymlinks(root)
		if err == nil && isBelow(resolved, real) {
			return resolved, d.refuseLink(field, resolved)
		}
	}
	return "", pathEscapes.errorf(field, path, resolved)
}

// pathRoots are the folders below which volumes may be staged and published.
func (d *Driver) pathRoots() []string {
	return append([]string{filepath.Join(d.kubeletDir, "pods"), filepath.Join(d.kubeletDir, "plugins")}, d.extraPaths...)
}

// checkPathText is the part of the check that needs no file system.
func checkPathText(field, path string) error {
	switch {
	case path == "":
		return pathMissing.errorf(field)
	case len(path) > maxPathBytes:
		return pathTooLong.errorf(field, len(path), maxPathBytes)
	case !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0):
		return pathNotClean.errorf(field, path)
	}
	return nil
}

// resolveParent resolves the links in all but the last element.
func resolveParent(path string) (string, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(path)), nil
}

// refuseLink refuses a path whose last element is a symbolic link. The root of a
// mounted file system that has failed cannot be looked at; it must be possible
// to unmount it all the same.
func (d *Driver) refuseLink(field, path string) error {
	info, err := lstatIfThere(path)
	if err != nil {
		if table, tableErr := d.mountTable(); tableErr == nil {
			if _, mounted := table.at(path); mounted {
				return nil // a mount point is no link
			}
		}
		return fmt.Errorf("%s: %w", field, err)
	}
	if info != nil && info.Mode()&fs.ModeSymlink != 0 {
		return pathIsLink.errorf(field, path)
	}
	return nil
}

// isBelow tells whether path is inside of dir; dir itself is not.
func isBelow(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func isBelowAny(path string, dirs []string) bool {
	for _, dir := range dirs {
		if isBelow(path, dir) {
			return true
		}
	}
	return false
}

// lstatIfThere is os.Lstat, and nil for a path that does not exist.
func lstatIfThere(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}
