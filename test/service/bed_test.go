// Package service holds a running `csi-local node` process to what it promises
// under load, with a disk that hangs, and between tenants; on real LVM.
package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/test/admin"
	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/vm"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30

	thickGroup = "service-thick"
	thinGroup  = "service-thin"
	// diskName is a device-mapper device below thickGroup, so that a test can
	// make the disk hang.
	diskName = "service-disk"
)

// envBinary names the executable, which is built before the machine starts.
const envBinary = "SERVICE_BINARY"

func TestMain(m *testing.M) {
	// With a running udevd, as nodes have it.
	opts := vm.Options{Disks: []vm.Disk{{SizeBytes: 2 * gib}, {SizeBytes: 2 * gib}}, Udev: true}
	if !vm.Inside() {
		binary, err := nodeproc.Build(context.Background(), "service")
		if err != nil {
			fmt.Fprintln(os.Stderr, "service:", err)
			os.Exit(1)
		}
		opts.Env = []string{envBinary + "=" + binary}
	}
	vm.Main(m, opts)
}

// bed is two volume groups and the process that serves them.
type bed struct {
	*nodeproc.Node
	t *testing.T
	// free is what vgs said at the start.
	free string
}

// pools is the pools file with a wipe policy for both pools.
func pools(wipe string) string {
	return fmt.Sprintf(`pools:
- name: thick
  volumeGroup: %s
  type: thick
  wipe: %s
- name: thin
  volumeGroup: %s
  type: thin
  thinPool: pool
  overprovisionRatio: 20
  wipe: %s
`, thickGroup, wipe, thinGroup, wipe)
}

func newBed(t *testing.T, wipe string) *bed {
	t.Helper()
	disks := strings.Fields(os.Getenv(vm.EnvDisks))
	for _, disk := range disks {
		// A pool gets blank disks: what others left on them is not the driver's to know.
		admin.Run(t, "blkdiscard", "-f", disk)
	}
	sectors := strings.TrimSpace(admin.Run(t, "blockdev", "--getsz", disks[0]))
	admin.Run(t, "dmsetup", "create", diskName, "--table", "0 "+sectors+" linear "+disks[0]+" 0")
	t.Cleanup(func() { admin.CleanUp(t, "dmsetup", "remove", "--retry", diskName) })
	for group, disk := range map[string]string{thickGroup: "/dev/mapper/" + diskName, thinGroup: disks[1]} {
		admin.Run(t, "vgcreate", "-y", "--metadatasize", "8m", group, disk)
		t.Cleanup(func() {
			admin.CleanUp(t, "vgremove", "-ff", "-y", group)
			admin.CleanUp(t, "pvremove", "-ff", "-y", disk)
		})
	}
	admin.Run(t, "lvcreate", "-y", "--type", "thin-pool", "-l", "90%FREE", "-n", "pool", thinGroup)

	// Not t.TempDir, whose paths are longer than a socket's may be.
	folder, err := os.MkdirTemp("", "service")
	if err != nil {
		t.Fatal(err)
	}
	node, err := nodeproc.Start(t.Context(), nodeproc.Options{Binary: os.Getenv(envBinary), Folder: folder, Pools: pools(wipe)})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{Node: node, t: t, free: freeExtents(t)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(node.Stop(ctx), os.RemoveAll(folder)); err != nil {
			t.Error(err)
		}
	})
	return b
}

// asBefore fails unless LVM has as much free as at the start, and no volume.
func (b *bed) asBefore() {
	b.t.Helper()
	volumes, err := b.List(b.t.Context())
	if err != nil || len(volumes) > 0 {
		b.t.Errorf("%d volumes are left, %v", len(volumes), err)
	}
	if now := freeExtents(b.t); now != b.free {
		b.t.Errorf("free extents: %s at the start, %s now", b.free, now)
	}
	admin.Run(b.t, "vgck", thickGroup, thinGroup)
}

func freeExtents(t *testing.T) string {
	t.Helper()
	return strings.Join(strings.Fields(admin.Run(t, "vgs", "--noheadings", "-o", "vg_name,vg_free_count,lv_count", thickGroup, thinGroup)), " ")
}

func spec(pool, fsType, name string, sizeBytes int64) nodeproc.Spec {
	return nodeproc.Spec{Name: name, SizeBytes: sizeBytes, FSType: fsType, Parameters: map[string]string{"pool": pool}}
}

// retried repeats a call while its answer is one that provisioner and kubelet
// take for "maybe in progress".
func retried(ctx context.Context, do func() error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		switch status.Code(err) {
		case codes.Aborted, codes.DeadlineExceeded, codes.Unavailable:
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

// allBytes reads the whole device in pieces and calls each.
func allBytes(t *testing.T, path string, each func(offset int64, piece []byte)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	piece := make([]byte, mib)
	for offset := int64(0); ; {
		n, err := file.Read(piece)
		if n > 0 {
			each(offset, piece[:n])
			offset += int64(n)
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// fill writes the pattern over the whole device, and makes it durable.
func fill(t *testing.T, path string, sizeBytes int64, pattern byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	piece := bytes.Repeat([]byte{pattern}, int(mib))
	for offset := int64(0); offset < sizeBytes; offset += mib {
		if _, err := file.WriteAt(piece[:min(mib, sizeBytes-offset)], offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}
