package reporter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// The count is the one NodeGetInfo answers, and it comes by itself.
func TestRun_CountOfVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		for _, step := range []struct {
			volumes, want int64
		}{{100, 100}, {40, 40}, {41, 41}, {0, 1}, {-1, 1}, {1 << 40, 1<<31 - 1}, {25, 25}} {
			b.lvm(func(s *fakeSource) { s.volumes = step.volumes })
			after(time.Minute)
			if got := server.count(); got != step.want {
				t.Errorf("slots %d: count %d, want %d", step.volumes, got, step.want)
			}
		}
		if got := server.csiNode.Spec.Drivers[0]; got.Name != "other.example" || *got.Allocatable.Count != 7 {
			t.Errorf("somebody else's entry is %+v", got)
		}
		before := server.tried(KindCSINode)
		after(10 * time.Minute)
		if got := server.tried(KindCSINode); got != before {
			t.Errorf("%d writes though nothing changes", got-before)
		}
	})
}

// A driver pod restarts and its entry is gone for a while (kubernetes/kubernetes#126921).
// kubelet adds it, nobody else.
func TestRun_EntryIsKubelets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		server.setEntry(-1)
		b.lvm(func(s *fakeSource) { s.volumes = 5 })
		after(5 * time.Minute)
		if got := server.tried(KindCSINode); got != 0 || len(server.csiNode.Spec.Drivers) != 1 {
			t.Errorf("%d writes without an entry", got)
		}
		server.setEntry(100)
		after(15 * time.Second)
		if got := server.count(); got != 5 {
			t.Errorf("count %d after the entry came back", got)
		}
	})
}

// An entry without a count is one without a limit: it gets one, at once.
func TestRun_EntryWithoutCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.csiNode.Spec.Drivers[1].Allocatable = nil
		startBench(t, server, nil)
		after(DefaultSettings().UrgentSpread)
		if got := server.count(); got != 100 {
			t.Errorf("count %d", got)
		}
	})
}

// kubelet writes at the same time: three conflicts, then it stands.
func TestRun_CountAfterConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		conflicts := 0
		server.failWith(func(verb, _ string) error {
			if verb == "patch" && conflicts < 3 {
				conflicts++
				server.setEntryLocked(int32(90 + conflicts)) //nolint:gosec // three at most
			}
			return nil
		}, nil)
		b.lvm(func(s *fakeSource) { s.volumes = 5 })
		after(time.Minute)
		if got := server.count(); got != 5 || conflicts != 3 || server.blind != 0 {
			t.Errorf("count %d after %d conflicts, %d blind writes", got, conflicts, server.blind)
		}
	})
}

// An API server that does not let the count change is asked once an hour.
func TestRun_CountCannotBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		server.failWith(func(verb, resource string) error {
			if verb == "patch" && resource == "csinodes" {
				return apierrors.NewInvalid(schema.GroupKind{Group: "storage.k8s.io", Kind: "CSINode"}, testNode, nil)
			}
			return nil
		}, nil)
		b.lvm(func(s *fakeSource) { s.volumes = 5; s.pools["ssd"] = 1 })
		after(30 * time.Minute)
		if got := server.tried(KindCSINode); got != 1 || b.notices() != "CountNotMutable" {
			t.Errorf("%d tries, notices %q", got, b.notices())
		}
		b.want("the Node is written all the same", `{"hdd":"2000","ssd":"1"}`)
	})
}

// An event of the watch that is older than the answer of our own write is no foreign write.
func TestSlot_OldEventsAreLeftAlone(t *testing.T) {
	for _, tt := range []struct{ known, seen, want string }{
		{"10", "9", "10"}, {"10", "10", "10"}, {"10", "11", "11"}, {"9", "10", "10"}, {"abc", "9", "9"}, {"10", "x", "x"},
	} {
		s := &slot{known: Object{Found: true, ResourceVersion: tt.known}, loaded: true}
		s.observe(Object{Found: true, ResourceVersion: tt.seen})
		if s.known.ResourceVersion != tt.want {
			t.Errorf("known %s, seen %s: %s", tt.known, tt.seen, s.known.ResourceVersion)
		}
	}
}

func TestClient_RefusesToWriteBlindly(t *testing.T) {
	server := newFakeServer()
	for kind, read := range map[Kind]Object{KindNode: {Found: true}, KindCSINode: {ResourceVersion: "1"}} {
		if _, err := server.client().Write(t.Context(), kind, read, Change{Count: 1}); err == nil {
			t.Errorf("%s: written without a resourceVersion", kind)
		}
	}
	if _, err := server.client().Write(t.Context(), KindCSINode, Object{Found: true, ResourceVersion: "1"}, Change{Count: 1}); err == nil {
		t.Error("an entry that was not there was written")
	}
	if got := server.tried(KindNode) + server.tried(KindCSINode); got != 0 {
		t.Errorf("%d requests", got)
	}
}

func TestCleanup(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		none, gone     bool
		conflicts      int
		err            error
		wantErr        bool
		tries          int
		stillPublished bool
	}{
		"both annotations": {tries: 1},
		"nothing there":    {none: true},
		"no Node":          {gone: true},
		"conflicts":        {conflicts: 3, tries: 4},
		"only conflicts":   {conflicts: 1000, tries: cleanupTries, wantErr: true, stillPublished: true},
		"no answer":        {err: boom, wantErr: true, stillPublished: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newFakeServer()
				if !c.none {
					server.annotate(capacity.PoolsAnnotation(testDriver), bothPools)
					server.annotate(capacity.ReportAnnotation(testDriver), "garbage")
				}
				if c.gone {
					server.node = nil
				}
				server.failWith(func(verb, _ string) error {
					if verb == "patch" && c.conflicts > 0 {
						c.conflicts--
						server.changeNode(func(*v1.Node) {})
					}
					return c.err
				}, nil)
				err := Cleanup(t.Context(), server.client(), testDriver)
				if (err != nil) != c.wantErr || c.err != nil && !errors.Is(err, c.err) {
					t.Errorf("error %v", err)
				}
				if got := server.tried(KindNode); got != c.tries {
					t.Errorf("%d tries, want %d", got, c.tries)
				}
				left := server.pools() + server.annotation(capacity.ReportAnnotation(testDriver))
				if (left != "") != c.stillPublished || !c.gone && server.annotation("other") != "kept" {
					t.Errorf("annotations %v", server.node.Annotations)
				}
			})
		})
	}
}

// Each metric has a help text, and tells what happened.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		server.annotate(capacity.PoolsAnnotation(testDriver), `{"hdd":"1"}`)
		b.lvm(func(s *fakeSource) { s.errs["ssd"] = errGone; s.volumes = 5 })
		after(90 * time.Second)
		families, err := b.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if f.GetHelp() == "" || !strings.HasPrefix(f.GetName(), metricPrefix) {
				t.Errorf("metric %s: help %q", f.GetName(), f.GetHelp())
			}
			for _, m := range f.GetMetric() {
				got[strings.TrimPrefix(f.GetName(), metricPrefix)+labelText(m)] = value(m)
			}
		}
		delete(got, "confirmed_age_seconds hdd")
		if age := got["confirmed_age_seconds ssd"]; age < 60 || age > 120 {
			t.Errorf("the figure of ssd was confirmed %v s ago", age)
		}
		delete(got, "confirmed_age_seconds ssd")
		want := map[string]float64{
			"bytes hdd": 1, "bytes ssd": 0, "trusted hdd": 1, "trusted ssd": 0, "changes_total CSINode": 1, "changes_total Node": 2,
			"seconds CSINode success": 1, "seconds Node success": 2, "foreign_writes_total": 1, "paused": 0, "version_gate_closed": 0, "volumes": 5,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func labelText(m *dto.Metric) string {
	var out string
	for _, l := range m.GetLabel() {
		out += " " + l.GetValue()
	}
	return out
}

// value is a gauge's, a counter's, or how often a histogram was told something.
func value(m *dto.Metric) float64 {
	switch {
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	default:
		return m.GetGauge().GetValue()
	}
}

func TestNew_RefusesIncompleteOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "Source is nil") || !strings.Contains(err.Error(), "Interval") {
		t.Errorf("error %v", err)
	}
}

// result must know an error however it is wrapped by the client.
func TestResult(t *testing.T) {
	for want, err := range map[string]error{
		"success": nil, "conflict": apierrors.NewConflict(resourceOf(KindCSINode), testNode, nil), "throttled": apierrors.NewTooManyRequests("", 1),
		"forbidden": apierrors.NewUnauthorized("who"), "invalid": apierrors.NewInvalid(schema.GroupKind{Group: "storage.k8s.io", Kind: "CSINode"}, testNode, nil),
		"missing": apierrors.NewNotFound(resourceOf(KindCSINode), testNode), "timeout": context.DeadlineExceeded, "error": errGone,
	} {
		if got := result(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
