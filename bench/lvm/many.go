package main

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/csi-local/csi-local/bench/result"
	"github.com/csi-local/csi-local/test/nodeproc"
)

// callRounds: the kernel counts threads with the processes, and a Go process
// may start one at any time. The lowest of a few rounds is what calls cost.
const callRounds = 5

// measureMany fills the node with volumes and looks at what reading costs then.
func measureMany(ctx context.Context, bed *testbed, results *result.Set) error {
	volumes := make([]nodeproc.Volume, 0, bed.opts.volumes)
	for i := range bed.opts.volumes {
		v, err := bed.Create(ctx, spec("thick", "", fmt.Sprintf("many-%d", i), 4*mib))
		if err != nil {
			return err
		}
		volumes = append(volumes, v)
		if (i+1)%100 == 0 {
			fmt.Fprintf(bed.log, "bench-lvm: %d of %d volumes\n", i+1, bed.opts.volumes)
		}
	}
	published, target, err := bed.publish(ctx)
	if err != nil {
		return err
	}
	for _, call := range []struct {
		metric string
		times  int
		do     func() error
	}{
		{"processes_per_stats", 100, func() error {
			_, err := bed.Node.Node.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: published.ID, VolumePath: target})
			return err
		}},
		{"processes_per_list_1000", 10, func() error { return bed.listAll(ctx, len(volumes)) }},
		{"processes_per_getcapacity", 100, func() error {
			_, err := bed.Controller.GetCapacity(ctx, &csi.GetCapacityRequest{Parameters: map[string]string{"pool": "thick"}})
			return err
		}},
	} {
		started, err := lowestProcessCount(call.times, call.do)
		if err != nil {
			return fmt.Errorf("%s: %w", call.metric, err)
		}
		results.AtMost(call.metric, float64(started)/float64(call.times), "count", 0)
	}
	peak, err := peakRSS(bed.PID())
	if err != nil {
		return err
	}
	results.Report("node_peak_rss_mib_1000_volumes", float64(peak)/float64(mib), "MiB")
	return bed.unpublish(ctx, published)
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
	volumes, err := b.List(ctx)
	if err != nil {
		return err
	}
	if len(volumes) < want {
		return fmt.Errorf("the list has %d volumes, want at least %d", len(volumes), want)
	}
	return nil
}

const statsPod = "bench"

// publish brings one filesystem volume to a pod's folder, for stats.
func (b *testbed) publish(ctx context.Context) (v nodeproc.Volume, target string, err error) {
	v, err = b.Create(ctx, spec("thick", "ext4", "stats", 64*mib))
	if err != nil {
		return v, "", err
	}
	if err := b.Stage(ctx, v); err != nil {
		return v, "", err
	}
	target, err = b.Publish(ctx, v, statsPod, false)
	return v, target, err
}

func (b *testbed) unpublish(ctx context.Context, v nodeproc.Volume) error {
	if err := b.Unpublish(ctx, v, statsPod); err != nil {
		return err
	}
	if err := b.Unstage(ctx, v); err != nil {
		return err
	}
	return b.Delete(ctx, v.ID)
}
