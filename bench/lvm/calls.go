package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/csi-local/csi-local/test/nodeproc"
)

// Names of the node's metrics that this benchmark reads.
const (
	metricCommands = "csi_local_lvm_command_seconds"
	metricWipe     = "csi_local_wipe_seconds"
)

func spec(pool, fsType, name string, sizeBytes int64) nodeproc.Spec {
	return nodeproc.Spec{Name: name, SizeBytes: sizeBytes, FSType: fsType, Parameters: map[string]string{"pool": pool}}
}

func (b *testbed) timedCreate(ctx context.Context, spec nodeproc.Spec) (nodeproc.Volume, time.Duration, error) {
	began := time.Now()
	v, err := b.Create(ctx, spec)
	return v, time.Since(began), err
}

// timedDelete deletes a volume and says how long the call took, of which how
// much was the wipe.
func (b *testbed) timedDelete(ctx context.Context, v nodeproc.Volume) (total, wipe time.Duration, err error) {
	before, err := b.wipeTime(ctx)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	err = b.Delete(ctx, v.ID)
	total = time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	after, err := b.wipeTime(ctx)
	return total, after - before, err
}

// use stages and unstages a volume, after which it counts as handed out: its
// deletion has to wipe it.
func (b *testbed) use(ctx context.Context, v nodeproc.Volume) error {
	if err := b.Stage(ctx, v); err != nil {
		return err
	}
	return b.Unstage(ctx, v)
}

// wipeTime is the time that the node has spent on wiping so far.
func (b *testbed) wipeTime(ctx context.Context) (time.Duration, error) {
	families, err := b.Metrics(ctx)
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
	families, err := b.Metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	family, ok := families[metricCommands]
	if !ok {
		return 0, 0, fmt.Errorf("the node exports no %s", metricCommands)
	}
	for _, metric := range family.GetMetric() {
		command := ""
		for _, pair := range metric.GetLabel() {
			if pair.GetName() == "command" {
				command = pair.GetValue()
			}
		}
		count := float64(metric.GetHistogram().GetSampleCount())
		switch command {
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
