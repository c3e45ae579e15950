package testbed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Version is the version of Kubernetes that is built; kube/go.mod says the same.
const Version = "v1.37.2"

// binDirEnv names a folder that holds the programs already.
const binDirEnv = "KUBE_BIN_DIR"

// Program is one that [Program.Path] can find or build.
type Program string

// The programs.
const (
	Etcd              Program = "etcd"
	APIServer         Program = "kube-apiserver"
	ControllerManager Program = "kube-controller-manager"
	Scheduler         Program = "kube-scheduler"
	Kubectl           Program = "kubectl"
	Kubelet           Program = "kubelet"
)

// Path returns the program's file. If it is in none of KUBE_BIN_DIR and the
// cache it is built, which progress tells, since that may take minutes. Several
// processes may ask at once.
func (p Program) Path(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv(binDirEnv); dir != "" {
		path := filepath.Join(dir, string(p))
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s is set: %w", binDirEnv, err)
		}
		return path, nil
	}
	module, err := moduleDir(ctx)
	if err != nil {
		return "", err
	}
	dir, err := cacheDir(module)
	if err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, string(p)+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(dir, string(p))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	_, _ = fmt.Fprintf(progress, "testbed: building %s from its Go modules, once; on two cores this takes up to 10 minutes\n", p)
	if err := p.build(ctx, module, path); err != nil {
		return "", err
	}
	return path, nil
}

// build leaves a whole program at path, or none.
func (p Program) build(ctx context.Context, module, path string) error {
	const component, client = "k8s.io/component-base/version.", "k8s.io/client-go/pkg/version."
	major, minor, _ := strings.Cut(strings.TrimPrefix(Version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	// Without a version the programs refuse their clients, and each other.
	flags := fmt.Sprintf("-s -w -X %[1]sgitVersion=%[3]s -X %[1]sgitMajor=%[4]s -X %[1]sgitMinor=%[5]s -X %[2]sgitVersion=%[3]s",
		component, client, Version, major, minor)
	target := "k8s.io/kubernetes/cmd/" + string(p)
	if p == Etcd {
		target = "./etcd"
	}
	partial := path + ".partial"
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", flags, "-o", partial, target)
	build.Dir = module
	// The caller's flags are for another module; with -trimpath as the scheduler, which is
	// mostly the same packages.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -trimpath", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("building %s: %w\n%s", p, err, output), remove(partial))
	}
	return os.Rename(partial, path)
}

// moduleDir finds the nested module from wherever in the repository we run.
func moduleDir(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/csi-local/csi-local/test/testbed").Output()
	if err != nil {
		return "", fmt.Errorf("go list, to find test/testbed/kube: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(output)), "kube"), nil
}

// cacheDir is another one for each set of sources.
func cacheDir(module string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", "etcd/main.go"} {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		hash.Write(content)
	}
	dir := filepath.Join(cache, "csi-local", "kube", Version+"-"+hex.EncodeToString(hash.Sum(nil))[:8])
	return dir, os.MkdirAll(dir, 0o755)
}

// lock waits until no other process builds the same program.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// remove takes a file away that may not be there.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
