package vm

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const folderPrefix = "vm-"

// sweepAge keeps a folder safe that another process has made but not locked yet.
const sweepAge = time.Minute

// folder is a temporary folder that is locked while its maker lives, so that what a killed
// one left can be told from what is in use.
type folder struct {
	path string
	lock *os.File
}

// newFolder also removes the folders of those that were killed.
func newFolder() (*folder, error) {
	sweepFolders(os.TempDir(), time.Now().Add(-sweepAge))
	path, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(path)
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, err
	}
	return &folder{path, lock}, nil
}

func (f *folder) remove() {
	_ = os.RemoveAll(f.path)
	_ = f.lock.Close()
}

func lockFolder(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweepFolders looks only at this user's own, made before the given time, and only at what
// has the mark of this package in it.
func sweepFolders(in string, before time.Time) {
	paths, _ := filepath.Glob(filepath.Join(in, folderPrefix+"*", specName))
	for _, spec := range paths {
		info, err := os.Lstat(spec)
		if err != nil || info.ModTime().After(before) {
			continue
		}
		path := filepath.Dir(spec)
		lock, err := lockFolder(path)
		if err != nil {
			continue
		}
		var stat unix.Stat_t
		if unix.Fstat(int(lock.Fd()), &stat) == nil && int(stat.Uid) == os.Geteuid() {
			_ = os.RemoveAll(path)
		}
		lock.Close()
	}
}
