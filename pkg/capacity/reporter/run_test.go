package reporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/csi-local/csi-local/pkg/capacity"
)

const bothPools = `{"hdd":"2000","ssd":"1000"}`

// A fresh node is published with one write, and then there is nothing to write:
// not by time, not by restarts, not by a thousand volumes that come and go.
func TestRun_WritesOnceAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(10 * time.Second)
		b.want("after the start", bothPools)
		report, err := capacity.DecodeReport(server.annotation(capacity.ReportAnnotation(testDriver)))
		want := capacity.Report{
			Format: 1, Writer: "v1.2.3", BootID: "boot", Generation: 1, Changed: report.Changed,
			ExtentSizes: map[string]int64{"hdd": 4 << 20, "ssd": 4 << 20},
			Filesystems: map[string]capacity.Filesystem{"hdd": "xfs", "ssd": "xfs"},
		}
		if diff := cmp.Diff(want, report); diff != "" || err != nil || time.Since(report.Changed) > 10*time.Second {
			t.Errorf("report: %v\n%s", err, diff)
		}
		if server.annotation("other") != "kept" {
			t.Error("somebody else's annotation is gone")
		}
		for range 1000 { // LVM changes, the pools' figures do not
			b.lvm(func(*fakeSource) {})
			after(time.Second)
		}
		b.stop()
		newer := startBench(t, server, func(o *Options) { o.Version = "v1.3.0"; o.BootID = "another" })
		after(10 * time.Minute)
		newer.want("after an upgrade", bothPools)
		if n, c := server.tried(KindNode), server.tried(KindCSINode); n != 1 || c != 0 {
			t.Errorf("%d Node writes and %d CSINode writes, want 1 and 0", n, c)
		}
		want2 := map[string]bool{"nodes metadata.name=n1": true, "csinodes metadata.name=n1": true}
		if diff := cmp.Diff(want2, server.selectors); diff != "" {
			t.Errorf("lists and watches (-want +got)\n%s", diff)
		}
	})
}

func TestRun_FollowsThePools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBench(t, newFakeServer(), nil)
		after(10 * time.Second)
		b.lvm(func(s *fakeSource) { s.pools["ssd"] = 500 })
		after(DefaultSettings().UrgentSpread)
		b.want("a lower figure, at once", `{"hdd":"2000","ssd":"500"}`)
		b.lvm(func(s *fakeSource) { s.pools["ssd"] = 3000 })
		after(50 * time.Second)
		b.want("a higher figure, too soon", `{"hdd":"2000","ssd":"500"}`)
		after(20 * time.Second)
		b.want("a higher figure", `{"hdd":"2000","ssd":"3000"}`)
		b.lvm(func(s *fakeSource) { delete(s.pools, "hdd") })
		after(11 * time.Second)
		b.want("a pool less", `{"ssd":"3000"}`)
		b.lvm(func(s *fakeSource) { s.pools["nvme"] = 7 })
		after(30 * time.Second)
		b.want("a pool more", `{"nvme":"7","ssd":"3000"}`)
		b.lvm(func(s *fakeSource) { s.full["ssd"] = true; s.errs["nvme"] = errGone })
		after(2 * time.Minute)
		b.want("a pool that is gone", `{"nvme":"0","ssd":"3000"}`)
		if got := b.notices(); got != "PoolUnreadable PoolAtWatermark" {
			t.Errorf("notices: %s", got)
		}
		b.lvm(func(s *fakeSource) { s.errs["ssd"] = errGone }) // how full it is is not known then
		after(time.Minute)
		b.lvm(func(s *fakeSource) { clear(s.full); clear(s.errs) })
		after(time.Minute)
		if got := b.notices(); got != "PoolUnreadable PoolAtWatermark PoolUnreadable PoolReadable PoolReadable PoolBelowWatermark" {
			t.Errorf("notices: %s", got)
		}
	})
}

// On a node that boots LVM takes a while for its first answer, which is nothing to warn of.
func TestRun_SlowStartIsNoWarning(t *testing.T) {
	for name, tc := range map[string]struct {
		slow time.Duration
		want string
	}{
		"a node that boots":    {20 * time.Second, ""},
		"LVM that hangs":       {2 * time.Minute, "PoolUnreadable PoolUnreadable PoolReadable PoolReadable"}, // one for each pool
		"a pool that is wrong": {0, "PoolUnreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := startBench(t, newFakeServer(), func(o *Options) {
					source := o.Source.(*fakeSource)
					source.hangs = tc.slow > 0
					if tc.slow == 0 {
						source.errs["ssd"] = errGone
					}
				})
				after(max(tc.slow, time.Second))
				b.lvm(func(s *fakeSource) { s.hangs = false })
				after(5 * time.Minute)
				if got := b.notices(); got != tc.want {
					t.Errorf("notices %q, want %q", got, tc.want)
				}
			})
		})
	}
}

func TestRun_ServerAwayForFiveMinutes(t *testing.T) {
	for name, outage := range map[string]error{
		"no answer":   context.DeadlineExceeded,
		"throttled":   apierrors.NewTooManyRequests("later", 20),
		"forbidden":   apierrors.NewForbidden(resourceOf(KindNode), testNode, errors.New("no role")),
		"broken":      apierrors.NewInternalError(errors.New("etcd")),
		"unavailable": apierrors.NewServiceUnavailable("starting"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newFakeServer()
				b := startBench(t, server, nil)
				after(time.Minute)
				requests := 0
				server.failWith(func(verb, _ string) error {
					if verb != "list" && verb != "watch" {
						requests++
					}
					return outage
				}, nil)
				for i := range 300 { // every second another figure
					b.lvm(func(s *fakeSource) { s.pools["ssd"] = int64(900 - i); s.volumes = int64(100 + i) })
					after(time.Second)
				}
				// Two objects, each with a back-off that grows to a minute.
				if requests == 0 || requests > 30 {
					t.Errorf("%d requests while the server was away", requests)
				}
				before := server.tried(KindNode)
				server.failWith(nil, nil)
				after(90 * time.Second)
				b.want("afterwards", `{"hdd":"2000","ssd":"601"}`)
				if got := server.tried(KindNode) - before; got != 1 {
					t.Errorf("%d writes afterwards, want 1", got)
				}
				if got := b.notices(); name == "forbidden" && (!strings.Contains(got, "PublishForbidden") || !strings.HasSuffix(got, "PublishAllowed")) {
					t.Errorf("notices: %s", got)
				}
			})
		})
	}
}

// That nobody answers does not say that it is allowed by now.
func TestRun_ForbiddenUntilItIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		for _, c := range []struct {
			answer  error
			allowed bool
		}{
			{apierrors.NewForbidden(resourceOf(KindNode), testNode, errors.New("no role")), false},
			{apierrors.NewServiceUnavailable("starting"), false},
			{nil, true},
		} {
			server.failWith(func(string, string) error { return c.answer }, nil)
			b.lvm(func(s *fakeSource) { s.pools["ssd"]-- })
			after(3 * time.Minute)
			if got := b.notices(); !strings.HasPrefix(got, "PublishForbidden") || strings.Contains(got, "PublishAllowed") != c.allowed {
				t.Errorf("answer %v: notices %q", c.answer, got)
			}
		}
	})
}

// Others write the same objects: each write of ours rests on what was read.
func TestRun_ConflictsAreDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		conflicts := 0
		server.failWith(func(verb, resource string) error {
			if verb == "patch" && conflicts < 3 {
				conflicts++
				return apierrors.NewConflict(resourceOf(KindNode), resource, nil)
			}
			return nil
		}, nil)
		b.lvm(func(s *fakeSource) { s.pools["ssd"] = 10 })
		after(40 * time.Second)
		b.want("after three conflicts", `{"hdd":"2000","ssd":"10"}`)
		if conflicts != 3 || server.blind != 0 {
			t.Errorf("%d conflicts, %d blind writes", conflicts, server.blind)
		}
	})
}

// The answer of a write is lost: what is found then is not a foreign write.
func TestRun_LostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		server.failWith(nil, func(verb, _ string) error {
			if verb == "patch" {
				return context.DeadlineExceeded
			}
			return nil
		})
		b.lvm(func(s *fakeSource) { s.pools["ssd"] = 10 })
		after(3 * time.Minute)
		b.want("written, and nobody heard", `{"hdd":"2000","ssd":"10"}`)
		if n := server.tried(KindNode); n != 2 || b.notices() != "" {
			t.Errorf("%d writes, notices %q", n, b.notices())
		}
	})
}

func TestRun_ForeignWriteHoldsIncreasesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		key := capacity.PoolsAnnotation(testDriver)
		server.annotate(key, `{"hdd":"999999","ssd":"500"}`)
		after(2 * time.Second)
		b.want("too much is lowered at once, too little stays", `{"hdd":"2000","ssd":"500"}`)
		after(5 * time.Minute)
		b.want("during the hold-down", `{"hdd":"2000","ssd":"500"}`)
		after(70 * time.Second)
		b.want("then in steps", `{"hdd":"2000","ssd":"750"}`)
		after(70 * time.Second)
		b.want("then in steps", bothPools)
		server.annotate(key, "")
		after(30 * time.Second)
		b.want("removed by somebody", `{"hdd":"0","ssd":"0"}`)
		if got := b.notices(); got != "ForeignCapacityWriter ForeignCapacityWriter" {
			t.Errorf("notices: %s", got)
		}
		// Nothing of ours was touched: no notice, no wait.
		server.annotate("somebody/else", "x")
	})
}

// A Node that was deleted and made again is published again, at once.
func TestRun_NodeMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		server.mu.Lock()
		server.changeNode(func(n *v1.Node) { n.UID, n.Annotations = "u9", map[string]string{} })
		server.mu.Unlock()
		after(15 * time.Second)
		b.want("the new Node", bothPools)
		if b.notices() != "" {
			t.Errorf("notices: %s", b.notices())
		}
	})
}

// reportBy is a report as that version of the program writes it.
func reportBy(version string, format int) string {
	return fmt.Sprintf(`{"bootID":"b","changed":"2030-01-01T00:00:00Z","extentSizes":{"hdd":"4194304","ssd":"4194304"},"filesystems":{"hdd":"xfs","ssd":"xfs"},"format":%d,"generation":5,"writer":%q}`, format, version)
}

// What a reporter finds when it starts, by C3 to C7 of its contract.
func TestRun_WhatItFinds(t *testing.T) {
	for name, c := range map[string]struct {
		pools, report, pause string
		paused, force        bool
		want                 string
		writes               int
		notices              string
	}{
		"nothing":                      {want: bothPools, writes: 1},
		"the same of an older version": {pools: bothPools, report: reportBy("v1.0.0", 1), want: bothPools},
		"an older version's figure":    {pools: `{"hdd":"9999","ssd":"1000"}`, report: reportBy("v1.0.0", 1), want: bothPools, writes: 1},
		"a newer version's figure": {
			pools: `{"hdd":"9999"}`, report: reportBy("v1.3.0", 1), want: `{"hdd":"9999"}`, notices: "CapacityVersionGate",
		},
		"a newer format": {pools: `{"hdd":"9999"}`, report: reportBy("v0.1.0", 2), want: `{"hdd":"9999"}`, notices: "CapacityVersionGate"},
		"a newer version's figure, forced": {
			pools: `{"hdd":"9999","ssd":"1000"}`, report: reportBy("v1.3.0", 1), force: true, want: bothPools, writes: 1,
		},
		"the same of a newer version, forced": {pools: bothPools, report: reportBy("v1.3.0", 2), force: true, want: bothPools, writes: 1},
		"garbage":                             {pools: "garbage", report: "garbage", want: bothPools, writes: 1},
		"garbage in the report":               {pools: bothPools, report: `{"writer":"v9.0.0"`, want: bothPools, writes: 1},
		"256 KiB from elsewhere":              {pools: `{"x":"` + strings.Repeat("1", capacity.MaxAnnotationBytes) + `"}`, want: bothPools, writes: 1},
		"one bad figure":                      {pools: `{"hdd":"-1","ssd":"1000"}`, report: reportBy("v1.2.3", 1), want: bothPools, writes: 1},
		"a pool that is not configured":       {pools: `{"hdd":"2000","old":"1","ssd":"1000"}`, report: reportBy("v1.2.3", 1), want: bothPools, writes: 1},
		"paused by the annotation":            {pools: `{"hdd":"9999"}`, pause: "true", want: `{"hdd":"9999"}`, notices: "CapacityPaused"},
		"paused by the flag":                  {pools: `{"hdd":"9999"}`, paused: true, want: `{"hdd":"9999"}`, notices: "CapacityPaused"},
		"paused and said not to be so":        {pause: "false", want: bothPools, writes: 1},
		"another file system in the report":   {pools: bothPools, report: strings.Replace(reportBy("v1.2.3", 1), "xfs", "ext4", 1), want: bothPools, writes: 1},
		"other extent sizes in the report":    {pools: bothPools, report: strings.Replace(reportBy("v1.2.3", 1), "4194304", "8388608", 1), want: bothPools, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newFakeServer()
				for key, value := range map[string]string{
					capacity.PoolsAnnotation(testDriver): c.pools, capacity.ReportAnnotation(testDriver): c.report, capacity.PauseAnnotation(testDriver): c.pause,
				} {
					server.annotate(key, value)
				}
				b := startBench(t, server, func(o *Options) { o.Settings.Paused, o.Settings.ForceTakeover = c.paused, c.force })
				after(10 * time.Minute)
				b.want("ten minutes later", c.want)
				if got := server.tried(KindNode); got != c.writes || b.notices() != c.notices {
					t.Errorf("%d writes, want %d; notices %q, want %q", got, c.writes, b.notices(), c.notices)
				}
			})
		})
	}
}

func TestRun_ResumesInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		server.annotate(capacity.PauseAnnotation(testDriver), "disk is being replaced")
		after(time.Second)
		b.lvm(func(s *fakeSource) { s.pools["ssd"] = 10 })
		after(5 * time.Minute)
		b.want("pinned", bothPools)
		b.lvm(func(s *fakeSource) { s.pools["ssd"] = 2000 })
		server.annotate(capacity.PauseAnnotation(testDriver), "")
		after(70 * time.Second)
		b.want("a step", `{"hdd":"2000","ssd":"1500"}`)
		after(70 * time.Second)
		b.want("a step", `{"hdd":"2000","ssd":"2000"}`)
	})
}

func TestRun_FailureForWantOfSpaceAsksLVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBench(t, newFakeServer(), nil)
		after(time.Minute)
		for range 100 { // in 10 seconds
			b.reporter.VolumeFailed()
			after(100 * time.Millisecond)
		}
		b.source.mu.Lock()
		defer b.source.mu.Unlock()
		if got := b.source.refreshes; got < 2 || got > 3 {
			t.Errorf("LVM was asked %d times in 10 seconds", got)
		}
	})
}
