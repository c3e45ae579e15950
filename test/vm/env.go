package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// commandEnv is the environment of the command: the caller's, the added one, and what the
// machine tells about itself.
func commandEnv(callers, added []string, backend Backend, disks []string, udev bool) []string {
	env := newEnvironment(callers)
	env.set("PATH", withSystemFolders(env.get("PATH")))
	env.drop("DM_DISABLE_UDEV")
	env.set(EnvUdev, "0")
	if udev {
		env.set(EnvUdev, "1")
	} else {
		// Else LVM waits for a udevd that does not answer.
		env.set("DM_DISABLE_UDEV", "1")
	}
	for _, kv := range added {
		name, value, _ := strings.Cut(kv, "=")
		env.set(name, value)
	}
	env.set(EnvBackend, string(backend))
	env.set(EnvDisks, strings.Join(disks, " "))
	return env.list()
}

// findCommand looks a command up as the command itself would: in the PATH of its own
// environment, and relative to its own folder.
func findCommand(name, dir string, env []string) (string, error) {
	folders := []string{""}
	if !strings.Contains(name, "/") {
		folders = filepath.SplitList(newEnvironment(env).get("PATH"))
	}
	err := error(&exec.Error{Name: name, Err: exec.ErrNotFound})
	for _, folder := range folders {
		path := filepath.Join(folder, name)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		found, lookErr := exec.LookPath(path)
		if lookErr == nil {
			return found, nil
		}
		if !errors.Is(lookErr, os.ErrNotExist) {
			err = lookErr // a file that cannot be run tells more than none
		}
	}
	return "", err
}

// withSystemFolders adds where LVM's tools are, which an ordinary user's PATH leaves out.
func withSystemFolders(path string) string {
	for _, dir := range []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if !strings.Contains(":"+path+":", ":"+dir+":") {
			path = strings.TrimPrefix(path+":"+dir, ":")
		}
	}
	return path
}

// kernelEnv tells the kernel to keep the machine's memory in a file of dir where /dev/shm,
// its first choice, is too small: it would die by a bus error in the middle of the run.
func kernelEnv(callers []string, dir string, memoryMiB int) []string {
	env := newEnvironment(callers)
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		env.drop(name)
	}
	var fs syscall.Statfs_t
	err := syscall.Statfs("/dev/shm", &fs)
	if err != nil || fs.Bavail*uint64(fs.Bsize) < uint64(memoryMiB)<<20 {
		env.set("TMPDIR", dir)
	}
	return env.list()
}

// environment keeps the order of names, so that two runs see the same.
type environment struct {
	names  []string
	values map[string]string
}

func newEnvironment(list []string) *environment {
	e := &environment{values: map[string]string{}}
	for _, kv := range list {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			e.set(name, value)
		}
	}
	return e
}

func (e *environment) get(name string) string { return e.values[name] }

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) drop(name string) {
	if _, ok := e.values[name]; !ok {
		return
	}
	delete(e.values, name)
	e.names = slices.DeleteFunc(e.names, func(n string) bool { return n == name })
}

func (e *environment) list() []string {
	out := make([]string, len(e.names))
	for i, name := range e.names {
		out[i] = fmt.Sprintf("%s=%s", name, e.values[name])
	}
	return out
}

// Inside says whether this process is a machine's command already.
func Inside() bool { return os.Getenv(EnvBackend) != "" }
