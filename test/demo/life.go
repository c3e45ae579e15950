package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/test/screen"
)

const mib = 1 << 20

func (n *node) volumes() []*volume { return []*volume{n.database, n.archive, n.journal} }

// each does the same with all volumes, one after the other.
func (n *node) each(do func(*volume) error) error {
	for _, v := range n.volumes() {
		if err := do(v); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) createDatabase(ctx context.Context) error {
	n.database = &volume{name: "pvc-database", pool: thickPool, fsType: "ext4", required: 512 * mib}
	return n.create(ctx, n.database)
}

func (n *node) createArchive(ctx context.Context) error {
	n.archive = &volume{name: "pvc-archive", pool: thinPool, fsType: "xfs", required: 1024 * mib}
	return n.create(ctx, n.archive)
}

func (n *node) createJournal(ctx context.Context) error {
	n.journal = &volume{name: "pvc-journal", pool: thickPool, required: 256 * mib}
	return n.create(ctx, n.journal)
}

func (n *node) stageAll(ctx context.Context) error {
	return n.each(func(v *volume) error {
		if v.block() {
			return n.stage(ctx, v, ": cleared, no filesystem")
		}
		return n.stage(ctx, v, ": cleared, mkfs."+v.fsType+", mounted")
	})
}

func (n *node) publishAll(ctx context.Context) error {
	return n.each(func(v *volume) error { return n.publish(ctx, v) })
}

// expand grows both filesystems by half, in use, and reads the data again.
func (n *node) expand(ctx context.Context) error {
	for _, v := range []*volume{n.database, n.archive} {
		before, err := filesystemBytes(n.targetPath(v))
		if err != nil {
			return err
		}
		v.required += v.required / 2
		answer, err := n.expandTo(ctx, v, v.required)
		if err != nil {
			return err
		}
		v.bytes = answer.GetCapacityBytes()
		after, err := filesystemBytes(n.targetPath(v))
		if err != nil {
			return err
		}
		n.p.Note("the pod sees %s where it saw %s", screen.Mebibytes(after), screen.Mebibytes(before))
		if v.bytes < v.required || after-before < v.required/4 {
			return fmt.Errorf("%s: wanted %d bytes, got %d; the filesystem had %d and has %d", v.id, v.required, v.bytes, before, after)
		}
		if err := n.checkData(v); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) expandTo(ctx context.Context, v *volume, bytes int64) (*csi.NodeExpandVolumeResponse, error) {
	return call(ctx, n, "NodeExpandVolume", n.driver.Node.NodeExpandVolume, n.expandRequest(v, bytes),
		func(r *csi.NodeExpandVolumeResponse) string {
			return fmt.Sprintf("%s, now %s", v.id, screen.Mebibytes(r.GetCapacityBytes()))
		})
}

func (n *node) expandRequest(v *volume, bytes int64) *csi.NodeExpandVolumeRequest {
	return &csi.NodeExpandVolumeRequest{
		VolumeId: v.id, VolumePath: n.targetPath(v), StagingTargetPath: n.stagingPath(v),
		VolumeCapability: v.capability(), CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
	}
}

func (n *node) stats(ctx context.Context) error {
	return n.each(func(v *volume) error {
		answer, err := call(ctx, n, "NodeGetVolumeStats", n.driver.Node.NodeGetVolumeStats, &csi.NodeGetVolumeStatsRequest{
			VolumeId: v.id, VolumePath: n.targetPath(v), StagingTargetPath: n.stagingPath(v),
		}, func(r *csi.NodeGetVolumeStatsResponse) string { return v.id + ": " + describeUsage(r) })
		if err != nil {
			return err
		}
		for _, u := range answer.GetUsage() {
			if u.GetUnit() == csi.VolumeUsage_BYTES && (v.block() && u.GetTotal() != v.bytes || !v.block() && u.GetUsed() < fileBytes) {
				return fmt.Errorf("%s: %v cannot be right", v.id, u)
			}
		}
		return nil
	})
}

func describeUsage(r *csi.NodeGetVolumeStatsResponse) string {
	text := ""
	for _, u := range r.GetUsage() {
		switch {
		case u.GetUnit() == csi.VolumeUsage_INODES:
			text += fmt.Sprintf(", %d inodes", u.GetUsed())
		case u.GetUsed() > 0:
			text += fmt.Sprintf("%s of %s used", screen.Mebibytes(u.GetUsed()), screen.Mebibytes(u.GetTotal()))
		default:
			text += screen.Mebibytes(u.GetTotal())
		}
	}
	return text
}

// inline shows a volume that lives with its pod: kubelet only publishes and unpublishes it.
func (n *node) inline(ctx context.Context) error {
	v := &volume{
		name: "scratch", fsType: "ext4", required: 128 * mib,
		id: "csi-5b0b6f6e1c0f4d0e9a3d8e7c6b5a49382716059483726150f1e2d3c4b5a69788",
		context: map[string]string{
			"csi.storage.k8s.io/ephemeral":     "true",
			"csi.storage.k8s.io/pod.name":      "worker-0",
			"csi.storage.k8s.io/pod.namespace": "default",
			"csi.storage.k8s.io/pod.uid":       n.pod,
			"pool":                             thickPool,
			"size":                             strconv.Itoa(128 * mib),
		},
	}
	if err := os.MkdirAll(filepath.Dir(n.targetPath(v)), 0o750); err != nil {
		return err
	}
	_, err := call(ctx, n, "NodePublishVolume", n.driver.Node.NodePublishVolume, &csi.NodePublishVolumeRequest{
		VolumeId: v.id, TargetPath: n.targetPath(v), VolumeCapability: v.capability(), VolumeContext: v.context,
	}, func(*csi.NodePublishVolumeResponse) string {
		return "128 MiB from " + thickPool + ": made, formatted, bound"
	})
	if err != nil {
		return err
	}
	if err := n.showVolume(ctx, v); err != nil {
		return err
	}
	if err := fill(ctx, n.dataPath(v), os.O_WRONLY|os.O_CREATE, mib); err != nil {
		return err
	}
	_, err = call(ctx, n, "NodeUnpublishVolume", n.driver.Node.NodeUnpublishVolume,
		&csi.NodeUnpublishVolumeRequest{VolumeId: v.id, TargetPath: n.targetPath(v)},
		func(*csi.NodeUnpublishVolumeResponse) string { return "unmounted, wiped, removed" })
	if err != nil {
		return err
	}
	return mustBeGone(n.targetPath(v))
}

// showVolume prints what LVM and the mount table know of a volume that is gone again
// before the step's own look at them.
func (n *node) showVolume(ctx context.Context, v *volume) error {
	now, err := n.look(ctx)
	if err != nil {
		return err
	}
	if _, mounted := now.mounts[n.targetPath(v)]; !mounted {
		return fmt.Errorf("%s is not mounted", n.targetPath(v))
	}
	showChange(n.p, change{"mount", added, now.mounts[n.targetPath(v)]})
	return nil
}

// createTooLarge shows what a user reads when no space is left.
func (n *node) createTooLarge(ctx context.Context) error {
	v := &volume{name: "pvc-huge", pool: thickPool, fsType: "ext4", required: 100 << 30}
	start := time.Now()
	_, err := n.driver.Controller.CreateVolume(ctx, n.createRequest(v))
	n.p.Call("CreateVolume", v.name+", 100 GiB: refused", time.Since(start))
	n.p.Note("The event on the claim; its pod is placed on another node:")
	return n.refused(err, codes.ResourceExhausted)
}

// expandTooFar shows the same for a claim that grows.
func (n *node) expandTooFar(ctx context.Context) error {
	start := time.Now()
	_, err := n.driver.Node.NodeExpandVolume(ctx, n.expandRequest(n.database, 100<<30))
	n.p.Call("NodeExpandVolume", n.database.id+" to 100 GiB: refused", time.Since(start))
	n.p.Note("The event on the claim; its user can ask for less:")
	if err := n.refused(err, codes.OutOfRange); err != nil {
		return err
	}
	return n.checkData(n.database)
}

// refused wants err to have a code, and shows it.
func (n *node) refused(err error, want codes.Code) error {
	if got := status.Code(err); got != want {
		return fmt.Errorf("wanted %v, got %v (%v)", want, got, err)
	}
	n.p.Message(fmt.Sprintf("rpc error: code = %v desc = %s", want, status.Convert(err).Message()))
	return nil
}

// restart takes the pod down and up again: nothing is formatted a second time.
func (n *node) restart(ctx context.Context) error {
	if err := n.endPod(ctx); err != nil {
		return err
	}
	return n.each(func(v *volume) error {
		if err := n.stage(ctx, v, ""); err != nil {
			return err
		}
		if err := n.publish(ctx, v); err != nil {
			return err
		}
		if err := n.checkData(v); err != nil {
			return err
		}
		n.p.Note("the pod reads what it wrote")
		return nil
	})
}

func (n *node) endPod(ctx context.Context) error {
	return n.each(func(v *volume) error {
		if err := n.unpublish(ctx, v); err != nil {
			return err
		}
		return n.unstage(ctx, v)
	})
}

func (n *node) deleteAll(ctx context.Context) error {
	return n.each(func(v *volume) error { return n.remove(ctx, v) })
}

// nextTenant gives the freed extents to a new raw block volume and reads all of it.
func (n *node) nextTenant(ctx context.Context) error {
	v := &volume{name: "pvc-next", pool: thickPool, required: n.database.bytes + n.journal.bytes}
	for _, do := range []func(context.Context, *volume) error{
		n.create,
		func(ctx context.Context, v *volume) error { return n.stage(ctx, v, ": no filesystem") },
		n.publish, n.readZeros, n.unpublish, n.unstage, n.remove,
	} {
		if err := do(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) readZeros(ctx context.Context, v *volume) error {
	count, err := checkZeros(ctx, n.targetPath(v))
	if err != nil {
		return err
	}
	if count != v.bytes {
		return fmt.Errorf("read %d of %d bytes", count, v.bytes)
	}
	n.p.Note("all %s are zero", screen.Mebibytes(count))
	return nil
}
