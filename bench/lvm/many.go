package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/csi-local/csi-local/bench/result"
)

// callRounds: the kernel counts threads with the processes, and a Go process
// may start one at any time. The lowest of a few rounds is what calls cost.
const callRounds = 5

// measureMany fills the node with volumes and looks at what reading costs then.
func measureMany(ctx context.Context, bed *testbed, results *result.Set) error {
	ids := make([]string, 0, bed.opts.volumes)
	for i := range bed.opts.volumes {
		v, _, err := bed.create(ctx, kind{pool: "thick", block: true}, fmt.Sprintf("many-%d", i), 4*mib)
		if err != nil {
			return err
		}
		ids = append(ids, v.GetVolumeId())
		if (i+1)%100 == 0 {
			fmt.Fprintf(bed.log, "bench-lvm: %d of %d volumes\n", i+1, bed.opts.volumes)
		}
	}
	target, cleanUp, err := bed.publish(ctx)
	if err != nil {
		return err
	}
	for _, call := range []struct {
		metric string
		times  int
		do     func() error
	}{
		{"processes_per_stats", 100, func() error {
			_, err := bed.nodeClient.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: target.id, VolumePath: target.path})
			return err
		}},
		{"processes_per_list_1000", 10, func() error { return bed.listAll(ctx, len(ids)) }},
		{"processes_per_getcapacity", 100, func() error {
			_, err := bed.controller.GetCapacity(ctx, &csi.GetCapacityRequest{Parameters: map[string]string{"pool": "thick"}})
			return err
		}},
	} {
		started, err := lowestProcessCount(call.times, call.do)
		if err != nil {
			return fmt.Errorf("%s: %w", call.metric, err)
		}
		results.AtMost(call.metric, float64(started)/float64(call.times), "count", 0)
	}
	peak, err := peakRSS(bed.node.Process.Pid)
	if err != nil {
		return err
	}
	results.Report("node_peak_rss_mib_1000_volumes", float64(peak)/float64(mib), "MiB")
	if err := cleanUp(); err != nil {
		return err
	}
	return bed.removeAll(ctx, ids)
}

func lowestProcessCount(times int, do func() error) (int, error) {
	lowest := -1
	for range callRounds {
		before, err := processesStarted()
		if err != nil {
			return 0, err
		}
		for range times {
			if err := do(); err != nil {
				return 0, err
			}
		}
		after, err := processesStarted()
		if err != nil {
			return 0, err
		}
		if started := after - before; lowest < 0 || started < lowest {
			lowest = started
		}
	}
	return lowest, nil
}

// listAll lists every volume and holds the count to what was made.
func (b *testbed) listAll(ctx context.Context, want int) error {
	found, token := 0, ""
	for {
		page, err := b.controller.ListVolumes(ctx, &csi.ListVolumesRequest{StartingToken: token})
		if err != nil {
			return err
		}
		found += len(page.GetEntries())
		if token = page.GetNextToken(); token == "" {
			break
		}
	}
	if found < want {
		return fmt.Errorf("the list has %d volumes, want at least %d", found, want)
	}
	return nil
}

type published struct{ id, path string }

// publish brings one filesystem volume to a pod's folder, for stats.
func (b *testbed) publish(ctx context.Context) (target published, cleanUp func() error, err error) {
	k := kind{pool: "thick"}
	v, _, err := b.create(ctx, k, "stats", 64*mib)
	if err != nil {
		return target, nil, err
	}
	staging := filepath.Join(b.kubelet, "plugins", "kubernetes.io", "csi", "stats", "globalmount")
	target = published{id: v.GetVolumeId(), path: filepath.Join(b.kubelet, "pods", "bench", "volumes", "kubernetes.io~csi", "stats", "mount")}
	for _, folder := range []string{staging, filepath.Dir(target.path)} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return target, nil, err
		}
	}
	if _, err := b.nodeClient.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: target.id, StagingTargetPath: staging, VolumeCapability: k.capability(), VolumeContext: v.GetVolumeContext(),
	}); err != nil {
		return target, nil, err
	}
	if _, err := b.nodeClient.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: target.id, StagingTargetPath: staging, TargetPath: target.path,
		VolumeCapability: k.capability(), VolumeContext: v.GetVolumeContext(),
	}); err != nil {
		return target, nil, err
	}
	return target, func() error {
		if _, err := b.nodeClient.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: target.id, TargetPath: target.path}); err != nil {
			return err
		}
		if _, err := b.nodeClient.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: target.id, StagingTargetPath: staging}); err != nil {
			return err
		}
		_, _, err := b.remove(ctx, target.id)
		return err
	}, nil
}
