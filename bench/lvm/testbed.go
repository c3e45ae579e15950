package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/csi-local/csi-local/test/nodeproc"
)

const (
	thickGroup = "bench-thick"
	thinGroup  = "bench-thin"
	thinPool   = "pool"
	gib        = int64(1) << 30
	mib        = int64(1) << 20
)

const poolsFile = `pools:
- name: thick
  volumeGroup: bench-thick
  type: thick
- name: thin
  volumeGroup: bench-thin
  type: thin
  thinPool: pool
  overprovisionRatio: 100
`

// testbed is two volume groups and a running csi-local node process.
type testbed struct {
	*nodeproc.Node
	opts   options
	log    io.Writer
	folder string
}

func setUp(ctx context.Context, opts options, log io.Writer) (*testbed, error) {
	folder, err := os.MkdirTemp("", "bench-lvm")
	if err != nil {
		return nil, err
	}
	bed := &testbed{opts: opts, log: log, folder: folder}
	for _, args := range [][]string{
		// LVM's default metadata area holds some 500 volumes with their tags.
		{"vgcreate", "-y", "-ff", "--metadatasize", "16m", thickGroup, opts.disks[0]},
		{"vgcreate", "-y", "-ff", "--metadatasize", "16m", thinGroup, opts.disks[1]},
		{"lvcreate", "-y", "--type", "thin-pool", "-l", "90%FREE", "-n", thinPool, thinGroup},
	} {
		if _, err := plain(ctx, args...); err != nil {
			return nil, errors.Join(err, os.RemoveAll(folder))
		}
	}
	bed.Node, err = nodeproc.Start(ctx, nodeproc.Options{Binary: opts.binary, Folder: folder, Pools: poolsFile})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return bed, nil
}

func (b *testbed) tearDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(b.Stop(ctx), os.RemoveAll(b.folder))
}

// plain runs an LVM command as an administrator would, with LVM's own
// configuration, and says how long it took.
func plain(ctx context.Context, args ...string) (time.Duration, error) {
	began := time.Now()
	output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, output)
	}
	return time.Since(began), nil
}

// processesStarted is the kernel's count of processes and threads made since boot.
func processesStarted() (int, error) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if count, ok := strings.CutPrefix(lines.Text(), "processes "); ok {
			return strconv.Atoi(strings.TrimSpace(count))
		}
	}
	return 0, errors.Join(errors.New("/proc/stat has no line processes"), lines.Err())
}

// peakRSS is the highest resident memory of a process so far, in bytes (proc(5), VmHWM).
func peakRSS(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmHWM", pid)
}
