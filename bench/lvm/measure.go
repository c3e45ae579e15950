package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/csi-local/csi-local/bench/result"
	"github.com/csi-local/csi-local/test/nodeproc"
)

// goals are the highest ratios to the plain command that a thick or thin volume may cost.
type goals struct{ create, remove float64 }

func measureThick(ctx context.Context, bed *testbed, results *result.Set) error {
	return measurePool(ctx, bed, results, "thick", goals{create: 0.3, remove: 0.3},
		"lvcreate", "-y", "-L", "1G", "-n", "plain", thickGroup)
}

func measureThin(ctx context.Context, bed *testbed, results *result.Set) error {
	return measurePool(ctx, bed, results, "thin", goals{create: 0.55, remove: 0.55},
		"lvcreate", "-y", "-V", "1G", "--thinpool", thinPool, "-n", "plain", thinGroup)
}

// samples are the durations of one pool's operations, a value a round.
type samples struct {
	plainCreate, plainRemove   []time.Duration
	createBlock, createFS      []time.Duration
	removeUnused, removeUsed   []time.Duration
	wipe                       []time.Duration
	mutatingPerCreate, reports float64
}

func measurePool(ctx context.Context, bed *testbed, results *result.Set, pool string, goal goals, create ...string) error {
	group := create[len(create)-1]
	var s samples
	for round := range bed.opts.rounds {
		if err := s.plainRound(ctx, create, group+"/plain"); err != nil {
			return err
		}
		if err := s.driverRound(ctx, bed, pool, round); err != nil {
			return err
		}
	}
	plainCreate, plainRemove := median(s.plainCreate), median(s.plainRemove)
	results.AtMost("create_"+pool+"_block_p50_ratio", ratio(median(s.createBlock), plainCreate), "ratio", goal.create)
	results.AtMost("create_"+pool+"_fs_p50_ratio", ratio(median(s.createFS), plainCreate), "ratio", goal.create)
	results.AtMost("delete_"+pool+"_p50_ratio", ratio(median(s.removeUsed), plainRemove), "ratio", goal.remove)
	results.Report("delete_"+pool+"_unused_p50_ratio", ratio(median(s.removeUnused), plainRemove), "ratio")
	results.Report("wipe_"+pool+"_1gib_p50_seconds", median(s.wipe).Seconds(), "s")
	results.Report("plain_lvcreate_"+pool+"_p50_ms", float64(plainCreate.Milliseconds()), "ms")
	results.Report("plain_lvremove_"+pool+"_p50_ms", float64(plainRemove.Milliseconds()), "ms")
	if pool == "thick" {
		creates := float64(2 * bed.opts.rounds)
		results.AtMost("lvm_commands_per_create", s.mutatingPerCreate/creates, "count", 1)
		results.Report("lvm_reports_per_create", s.reports/creates, "count")
	}
	return nil
}

func (s *samples) plainRound(ctx context.Context, create []string, volume string) error {
	took, err := plain(ctx, create...)
	if err != nil {
		return err
	}
	s.plainCreate = append(s.plainCreate, took)
	took, err = plain(ctx, "lvremove", "-y", volume)
	s.plainRemove = append(s.plainRemove, took)
	return err
}

func (s *samples) driverRound(ctx context.Context, bed *testbed, pool string, round int) error {
	mutating, reports, err := bed.lvmCommands(ctx)
	if err != nil {
		return err
	}
	used, took, err := bed.timedCreate(ctx, spec(pool, "", fmt.Sprintf("%s-block-%d", pool, round), gib))
	if err != nil {
		return err
	}
	s.createBlock = append(s.createBlock, took)
	unused, took, err := bed.timedCreate(ctx, spec(pool, "ext4", fmt.Sprintf("%s-fs-%d", pool, round), gib))
	if err != nil {
		return err
	}
	s.createFS = append(s.createFS, took)
	mutatingAfter, reportsAfter, err := bed.lvmCommands(ctx)
	if err != nil {
		return err
	}
	s.mutatingPerCreate += mutatingAfter - mutating
	s.reports += reportsAfter - reports

	if err := bed.use(ctx, used); err != nil {
		return err
	}
	total, wipe, err := bed.timedDelete(ctx, used)
	if err != nil {
		return err
	}
	s.removeUsed = append(s.removeUsed, total-wipe)
	s.wipe = append(s.wipe, wipe)
	total, _, err = bed.timedDelete(ctx, unused)
	s.removeUnused = append(s.removeUnused, total)
	return err
}

// measureConcurrent makes 100 volumes at once; the yardstick is as many plain
// lvcreate one after the other, which is how LVM's lock lets them run.
func measureConcurrent(ctx context.Context, bed *testbed, results *result.Set) error {
	const count = 100
	var plainCreate []time.Duration
	for range 10 {
		took, err := plain(ctx, "lvcreate", "-y", "-L", "32M", "-n", "plain", thickGroup)
		if err != nil {
			return err
		}
		plainCreate = append(plainCreate, took)
		if _, err := plain(ctx, "lvremove", "-y", thickGroup+"/plain"); err != nil {
			return err
		}
	}
	var (
		wait    sync.WaitGroup
		volumes [count]nodeproc.Volume
		errs    [count]error
	)
	began := time.Now()
	for i := range count {
		wait.Go(func() {
			volumes[i], errs[i] = bed.Create(ctx, spec("thick", "", fmt.Sprintf("at-once-%d", i), 32*mib))
		})
	}
	wait.Wait()
	took := time.Since(began)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	results.AtMost("create_100_concurrent_ratio", ratio(took, count*median(plainCreate)), "ratio", 0.3)
	for _, v := range volumes {
		if err := bed.Delete(ctx, v.ID); err != nil {
			return err
		}
	}
	return nil
}
