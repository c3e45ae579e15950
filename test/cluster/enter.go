package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/test/cluster/guest"
	"github.com/csi-local/csi-local/test/cluster/images"
	"github.com/csi-local/csi-local/test/testbed"
	"github.com/csi-local/csi-local/test/vm"
)

// TestImage is the image of pods in tests: a shell and the usual commands.
const TestImage = images.Test

// envPrepared holds what was prepared outside of the network, as JSON.
const envPrepared = "CLUSTER_PREPARED"

// prepared is what a cluster is started from.
type prepared struct {
	// Repository is the folder of our sources, Kubectl and Kubelet are programs.
	Repository, Kubectl, Kubelet string
	// Disk is a file that each node's first disk begins as.
	Disk string
}

// Main is for TestMain: it builds what is missing, enters a network of its own, runs the
// tests there, and does not return.
func Main(m *testing.M) {
	flag.Parse()
	if list := flag.Lookup("test.list"); list != nil && list.Value.String() != "" {
		os.Exit(m.Run())
	}
	if err := Enter(context.Background(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(vm.StatusFailed)
	}
	os.Exit(m.Run())
}

// Enter is for the main function of other programs, and comes first there: it builds what
// is missing, which progress is told and which may take half an hour the first time, and
// enters a network of its own (see [vm.EnterNetwork]). In a node's kernel, where this very
// program is what makes a node of it, it does not return.
func Enter(ctx context.Context, progress io.Writer) error {
	if InNode() {
		runNode(ctx)
	}
	if err := Prepare(ctx, progress); err != nil {
		return err
	}
	return vm.EnterNetwork()
}

// InNode tells whether this process is what makes a node of a bare kernel.
func InNode() bool { return os.Getenv(guest.EnvSpec) != "" }

func runNode(ctx context.Context) {
	if err := guest.Run(ctx, os.Getenv(guest.EnvSpec)); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Prepare is Enter without entering. This process and those it starts do not prepare again.
func Prepare(ctx context.Context, progress io.Writer) error {
	if os.Getenv(envPrepared) != "" {
		return nil
	}
	p, err := prepare(ctx, progress)
	if err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.Setenv(envPrepared, string(text))
}

func readPrepared() (p prepared, err error) {
	text := os.Getenv(envPrepared)
	if text == "" {
		return p, errors.New("nothing is prepared: call cluster.Enter, or cluster.Main in TestMain, before")
	}
	return p, json.Unmarshal([]byte(text), &p)
}

// prepare builds the programs and the images, and the disk that has them.
func prepare(ctx context.Context, progress io.Writer) (p prepared, err error) {
	for _, program := range []testbed.Program{testbed.Etcd, testbed.APIServer, testbed.ControllerManager, testbed.Scheduler} {
		if _, err := program.Path(ctx, progress); err != nil {
			return p, err
		}
	}
	if p.Kubectl, err = testbed.Kubectl.Path(ctx, progress); err != nil {
		return p, err
	}
	if p.Kubelet, err = testbed.Kubelet.Path(ctx, progress); err != nil {
		return p, err
	}
	if p.Repository, err = images.Repository(ctx); err != nil {
		return p, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return p, err
	}
	folder := filepath.Join(cache, "csi-local", "images")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return p, err
	}
	unlock, err := lock(filepath.Join(folder, "lock"))
	if err != nil {
		return p, err
	}
	defer unlock()
	all, err := images.All(ctx, progress)
	if err != nil {
		return p, err
	}
	p.Disk, err = nodeDisk(ctx, folder, all, progress)
	return p, err
}

// lock waits until no other process prepares the same.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// Manifests is a folder of deploy/manifests, such as second-scheduler.
func (c *Cluster) Manifests(name string) string {
	return filepath.Join(c.prepared.Repository, "deploy", "manifests", name)
}
