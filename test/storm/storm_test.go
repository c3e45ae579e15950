package storm

import (
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/testbed"
)

// A small storm with a tenth more than fits, in which the leader is killed once,
// and then all schedulers: every byte is promised, and none twice.
func TestRun_Local(t *testing.T) {
	scheduler, err := testbed.BuildLocalScheduler(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Nodes: 10, PodsPerNode: 20, Tracking: Local, FillPercent: 110, Seed: uint64(time.Now().UnixNano()), CreateLatency: 20 * time.Millisecond,
		Turns: 2, Quiet: 2 * time.Minute, Limit: 5 * time.Minute, Programs: Programs{Local: scheduler}, Config: shippedConfig, LogLevel: 4, Progress: t.Output(),
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if r.UsedBytes != r.CapacityBytes || r.Bound != r.Volumes || r.Bound != workloadOf(o).fitting {
		t.Errorf("%d of %d pods bound, %d volumes with %d of %d bytes", r.Bound, r.Pods, r.Volumes, r.UsedBytes, r.CapacityBytes)
	}
	if r.Turns != 2 || r.SchedulerKills != 3 || r.Takeovers == 0 {
		t.Errorf("%d turns, %d kills, %d takeovers", r.Turns, r.SchedulerKills, r.Takeovers)
	}
}

// What a storm shows is an error if, and only if, something promised was not kept.
func TestRecord_Err(t *testing.T) {
	for name, r := range map[string]Record{
		"failed creates": {FailedCreates: 1}, "stuck": {StuckThatFit: 1}, "misplaced": {Misplaced: 1},
	} {
		if r.Err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := (Record{Pods: 110, Bound: 100, Volumes: 100, SchedulerKills: 3}).Err(); err != nil {
		t.Error(err)
	}
}
