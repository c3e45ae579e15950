// Package sanity asks csi-sanity's questions about volumes of every type on real LVM,
// of a running `csi-local node` process. Its tests report each spec; its command stock
// runs the stock csi-sanity program against the same testbed.
package sanity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	suite "github.com/csi-local/csi-local/sanity"
	"github.com/csi-local/csi-local/test/nodeproc"
)

const (
	volumeGroup = "sanity"
	// poolsFile has a thick and a thin pool in one volume group, as a small node has.
	poolsFile = `pools:
- name: thick
  volumeGroup: sanity
  type: thick
- name: thin
  volumeGroup: sanity
  type: thin
  thinPool: pool
  overprovisionRatio: 4
`
	// A multiple of every layout's rounding (two stripes of 4 MiB extents), so that a
	// request can be met exactly.
	volumeBytes   = 16 << 20
	expandedBytes = 32 << 20
)

// Bed is a volume group with a thin pool in it, and a driver that serves both.
type Bed struct {
	node        *nodeproc.Node
	folder      string
	freeExtents string
}

// SetUp makes the volume group on the disks, of which it wants two, and starts the
// driver. What is on the disks is lost.
func SetUp(ctx context.Context, driver, folder string, disks []string) (*Bed, error) {
	if len(disks) < 2 {
		return nil, fmt.Errorf("two disks are needed for mirrors and stripes, found %d", len(disks))
	}
	for _, args := range [][]string{
		append([]string{"vgcreate", "-y", "-ff", volumeGroup}, disks...),
		{"lvcreate", "-y", "--type", "thin-pool", "-L", "2G", "-n", "pool", volumeGroup},
	} {
		if _, err := command(ctx, args...); err != nil {
			return nil, err
		}
	}
	free, err := freeExtents(ctx)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"pods", "plugins"} {
		if err := os.MkdirAll(filepath.Join(folder, "kubelet", dir), 0o750); err != nil {
			return nil, err
		}
	}
	node, err := nodeproc.Start(ctx, nodeproc.Options{Binary: driver, Folder: folder, Pools: poolsFile})
	if err != nil {
		return nil, err
	}
	return &Bed{node: node, folder: folder, freeExtents: free}, nil
}

// Endpoint is the driver's socket.
func (b *Bed) Endpoint() string { return "unix://" + filepath.Join(b.folder, "csi.sock") }

// LogFile is where the driver writes.
func (b *Bed) LogFile() string { return b.node.LogFile() }

// Variants are all kinds of volumes, as file systems and as raw block.
func (b *Bed) Variants() []suite.Variant {
	var variants []suite.Variant
	for _, kind := range []struct {
		name       string
		parameters map[string]string
	}{
		{"thick linear", map[string]string{"pool": "thick"}},
		{"thick striped", map[string]string{"pool": "thick", "layout": "striped", "stripes": "2"}},
		{"thick raid1", map[string]string{"pool": "thick", "layout": "raid1"}},
		{"thin", map[string]string{"pool": "thin"}},
	} {
		for _, access := range []string{"filesystem", "block"} {
			variants = append(variants, suite.Variant{
				Name: kind.name + " " + access, Endpoint: b.Endpoint(), KubeletDir: b.node.KubeletDir(),
				Parameters: kind.parameters, Block: access == "block",
				VolumeBytes: volumeBytes, ExpandedBytes: expandedBytes,
			})
		}
	}
	return variants
}

// TearDown stops the driver and returns an error unless the volume group is as it was:
// the suite deletes what it creates, so what is left was leaked.
func (b *Bed) TearDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := b.node.Stop(ctx)
	free, freeErr := freeExtents(ctx)
	if freeErr == nil && free != b.freeExtents {
		left, _ := command(ctx, "lvs", "-a", volumeGroup)
		freeErr = fmt.Errorf("%s extents are free and %s were at the start; what is left:\n%s", free, b.freeExtents, left)
	}
	return errors.Join(err, freeErr)
}

func freeExtents(ctx context.Context) (string, error) {
	return command(ctx, "vgs", "--noheadings", "-o", "vg_free_count", volumeGroup)
}

// command runs a command as an administrator would and returns what it printed.
func command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "LVM_SUPPRESS_FD_WARNINGS=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}
