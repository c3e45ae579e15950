package vm

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// BaseModules returns the modules that every throwaway kernel has from the start: the
// device-mapper targets of LVM, and those that make faulty and slow disks. The kernel
// loads others when they are first used, as it does on any host: encryption, bridges and
// so on, which would double the time to boot.
func BaseModules() []string {
	return []string{
		"overlay", "loop",
		"dm-mod", "dm-snapshot", "dm-mirror", "dm-thin-pool", "raid0", "raid1", "dm-raid",
		"dm-cache", "dm-cache-smq", "dm-writecache",
		"dm-zero", "dm-flakey", "dm-delay", "dm-log-writes",
	}
}

// moduleTree is what modules.dep of one kernel version says.
type moduleTree struct {
	dir     string
	files   map[string]string   // canonical name to file, relative to dir
	needs   map[string][]string // file to the files it needs, the nearest first
	builtin map[string]bool     // canonical names of what the kernel has without loading
	loaded  map[string]bool     // files that are loaded: finding that out from the kernel is slow
}

func readModuleTree(dir string) (*moduleTree, error) {
	t := &moduleTree{
		dir: dir, files: map[string]string{}, needs: map[string][]string{},
		builtin: map[string]bool{}, loaded: map[string]bool{},
	}
	err := eachLine(filepath.Join(dir, "modules.dep"), func(line string) {
		file, needs, _ := strings.Cut(line, ":")
		t.files[canonicalModule(file)] = file
		t.needs[file] = strings.Fields(needs)
	})
	if err != nil {
		return nil, err
	}
	err = eachLine(filepath.Join(dir, "modules.builtin"), func(line string) {
		t.builtin[canonicalModule(line)] = true
	})
	return t, err
}

// canonicalModule turns a file or a name into the name by which the kernel knows it.
func canonicalModule(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// order returns the files to load for a module, what it needs first; none when it is
// built in.
func (t *moduleTree) order(name string) ([]string, error) {
	canonical := canonicalModule(name)
	file, ok := t.files[canonical]
	if !ok {
		if t.builtin[canonical] {
			return nil, nil
		}
		return nil, fmt.Errorf("module %s is not in %s", name, t.dir)
	}
	needs := t.needs[file]
	files := make([]string, 0, len(needs)+1)
	for i := len(needs) - 1; i >= 0; i-- {
		files = append(files, needs[i])
	}
	return append(files, file), nil
}

// load does in this process what modprobe does in one of its own: starting a process
// is the slow part in user-mode Linux.
func (t *moduleTree) load(name string) error {
	files, err := t.order(name)
	if err != nil {
		return err
	}
	for _, file := range files {
		if t.loaded[file] {
			continue
		}
		if err := t.insert(file); err != nil {
			return fmt.Errorf("load module %s: %s: %w", name, file, err)
		}
		t.loaded[file] = true
	}
	return nil
}

func (t *moduleTree) insert(file string) error {
	fd, err := unix.Open(filepath.Join(t.dir, file), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.FinitModule(fd, "", 0); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

func eachLine(path string, do func(line string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		do(lines.Text())
	}
	return lines.Err()
}
