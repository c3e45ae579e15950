package cluster

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const folderPrefix = "csi-local-cluster-"

// sweepAge keeps a folder safe that another process has made and not locked yet.
const sweepAge = time.Minute

// makeFolder makes a folder that is locked as long as its maker lives, and removes those
// of makers that were killed, whose disks take gigabytes. An empty path stands for a new
// one in the folder for temporary files.
func makeFolder(path string) (string, *os.File, error) {
	var err error
	if path != "" {
		err = os.Mkdir(path, 0o700)
	} else {
		sweepFolders()
		path, err = os.MkdirTemp("", folderPrefix)
	}
	if err != nil {
		return "", nil, err
	}
	lock, err := lockFolder(path)
	return path, lock, err
}

func lockFolder(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// sweepFolders removes the disks, and leaves logs to be read.
func sweepFolders() {
	disks, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*", "node-*"))
	for _, disk := range disks {
		folder := filepath.Dir(disk)
		if info, err := os.Lstat(folder); err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		if lock, err := lockFolder(folder); err == nil {
			_ = os.RemoveAll(disk) // whoever cannot remove it need not
			_ = lock.Close()
		}
	}
}
