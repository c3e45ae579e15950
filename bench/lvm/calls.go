package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// kind is what a volume is asked to be.
type kind struct {
	pool  string
	block bool
}

func (k kind) capability() *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	if k.block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}}
	}
	return c
}

func (b *testbed) create(ctx context.Context, k kind, name string, sizeBytes int64) (*csi.Volume, time.Duration, error) {
	began := time.Now()
	response, err := b.controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name:               name,
		CapacityRange:      &csi.CapacityRange{RequiredBytes: sizeBytes},
		VolumeCapabilities: []*csi.VolumeCapability{k.capability()},
		Parameters:         map[string]string{"pool": k.pool},
	})
	return response.GetVolume(), time.Since(began), err
}

// remove deletes a volume and says how long the call took, of which how much
// was the wipe.
func (b *testbed) remove(ctx context.Context, id string) (total, wipe time.Duration, err error) {
	before, err := b.wipeTime(ctx)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	_, err = b.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	total = time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	after, err := b.wipeTime(ctx)
	return total, after - before, err
}

// use stages and unstages a volume, after which it counts as handed out: its
// deletion has to wipe it.
func (b *testbed) use(ctx context.Context, k kind, v *csi.Volume) error {
	staging := filepath.Join(b.kubelet, "plugins", "kubernetes.io", "csi", "bench", "globalmount")
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return err
	}
	if _, err := b.nodeClient.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: v.GetVolumeId(), StagingTargetPath: staging,
		VolumeCapability: k.capability(), VolumeContext: v.GetVolumeContext(),
	}); err != nil {
		return err
	}
	_, err := b.nodeClient.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: staging})
	return err
}

// wipeTime is the time that the node has spent on wiping so far.
func (b *testbed) wipeTime(ctx context.Context) (time.Duration, error) {
	families, err := b.metrics(ctx)
	if err != nil {
		return 0, err
	}
	var seconds float64
	for _, metric := range families[metricWipe].GetMetric() {
		seconds += metric.GetHistogram().GetSampleSum()
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// lvmCommands counts the LVM commands that changed something (mutating) and the
// reports that confirm them.
func (b *testbed) lvmCommands(ctx context.Context) (mutating, reports float64, err error) {
	families, err := b.metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	family, ok := families[metricCommands]
	if !ok {
		return 0, 0, fmt.Errorf("the node exports no %s", metricCommands)
	}
	for _, metric := range family.GetMetric() {
		count := metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		switch command := label(metric, "command"); command {
		case "fullreport", "pvs", "vgs", "lvs", "version":
			reports += count
		default:
			mutating += count
		}
	}
	return mutating, reports, nil
}

func median(durations []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/2]
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
