package schedplugin

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// Reasons are part of what tests, dashboards and people hold on to.
func TestReasons_AreStableAndHoldNoFigures(t *testing.T) {
	seen := map[string]Reason{}
	for r := ReasonNone + 1; r < reasons; r++ {
		text, label := r.String(), r.Label()
		if text == "" || label == "none" || strings.ContainsAny(text+label, "0123456789%") {
			t.Errorf("reason %d: %q %q", r, text, label)
		}
		for _, s := range []string{text, label} {
			if before, ok := seen[s]; ok {
				t.Errorf("%q stands for %d and %d", s, before, r)
			}
			seen[s] = r
		}
	}
	for reason, want := range map[Reason]string{
		ReasonInsufficientCapacity: "node(s) had not enough local volume capacity",
		ReasonPoolMissing:          "node(s) had not the local volume pool",
		ReasonCapacityUnknown:      "node(s) had not published local volume capacity",
	} {
		if reason.String() != want {
			t.Errorf("%q, want %q", reason, want)
		}
	}
}

func TestShortage_Text(t *testing.T) {
	for _, tc := range []struct {
		short Shortage
		want  string
	}{
		{Shortage{Reason: ReasonInsufficientCapacity, Pool: "pool-ssd", Requested: 120 * gib, Left: 80 * gib, Allocatable: 1000 * gib, Ratio: 1},
			"pool pool-ssd: 120 GiB requested, 80 GiB left of 1000 GiB (oversell 1.0)"},
		{Shortage{Reason: ReasonInsufficientCapacity, Pool: "p", Requested: gib + gib/2, Left: -3 * mib, Allocatable: 0, Ratio: 1.25},
			"pool p: 1.5 GiB requested, -3 MiB left of 0 B (oversell 1.25)"},
		{Shortage{Reason: ReasonTooManyVolumes, Requested: 2, Left: 1, Allocatable: 10}, "2 volumes requested, 1 slots left of 10"},
		{Shortage{Reason: ReasonPoolMissing, Pool: "p"}, "pool p: node(s) had not the local volume pool"},
		{Shortage{Reason: ReasonDriverNotRegistered}, "node(s) had not the local volume driver"},
	} {
		if got := tc.short.String(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestAnnounce_OnlyWhatIsNewAndNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, makeNode("n1", "pool-ssd", gib), makeCSINode("n1"), makeNode("n2", "pool-ssd", 4*gib), makeCSINode("n2"),
			makeClass("ssd", "pool-ssd"), makeClaim("c", "ssd", 5*gib))
		recorder := events.NewFakeRecorder(10)
		f.plugin.handle.(*fakeHandle).recorder = recorder
		attempt := func() {
			state, _, _ := f.filter(makePod("p").claiming("c"))
			f.plugin.PostFilter(context.Background(), state, makePod("p").Pod, nil)
		}
		expect := func(when, want string) {
			t.Helper()
			got := ""
			select {
			case got = <-recorder.Events:
			default:
			}
			if got != want {
				t.Errorf("%s: event %q, want %q", when, got, want)
			}
		}
		attempt()
		expect("first", "Warning InsufficientLocalCapacity 2 nodes have no room for the pod's local volumes; nearest is node n2: pool pool-ssd: 5 GiB requested, 4 GiB left of 4 GiB (oversell 1.0)")
		attempt()
		expect("the same again", "")
		f.put(makeNode("n2", "pool-ssd", 3*gib))
		attempt()
		expect("other figures, but soon", "")
		time.Sleep(eventInterval)
		attempt()
		expect("other figures, later", "Warning InsufficientLocalCapacity 2 nodes have no room for the pod's local volumes; nearest is node n2: pool pool-ssd: 5 GiB requested, 3 GiB left of 3 GiB (oversell 1.0)")
	})
}

func TestAnnounce_AllPodsTogetherAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	w := newWaiting(nil, nil, func() time.Time { return now })
	allowed := 0
	for i := range 200 {
		pod := makePod("p" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		w.begin(pod.Pod, &cycle{})
		if w.allow(pod.Pod, "x") {
			allowed++
		}
	}
	if allowed != eventBurst {
		t.Errorf("%d events at once", allowed)
	}
	now = now.Add(time.Second)
	if w.allow(makePod("pzh").Pod, "y") {
		t.Error("a pod that was told already is told again within the interval or unknown")
	}
}

// B10: the whole sum, each volume with the running total.
func TestExplain_WritesTheWholeSum(t *testing.T) {
	bound := makeClaim("b", "ssd", 2*gib).bound("v")
	f := newFixture(t, baseObjects(makeClaim("a", "ssd-too", 3*gib).selected("n1"), bound, makeVolume("v", "pool-ssd", "n1", 2*gib).of(bound),
		makeVolume("w", "", "n1", gib), makeClaim("c", "ssd", 6*gib))...)
	var out bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(5), textlogger.Output(&out)))
	filterAll(klog.NewContext(context.Background(), logger), f.plugin, makePod("p").claiming("c").Pod, nodeInfo(ssdNode("n1")))
	for _, want := range []string{
		`"Volume counted" pod="default/p" node="n1" driver="kubernetes.io.csi.local" pool="pool-ssd" key="uid-a" volume="default/a" class="ssd-too" state="selected" bytes=3221225472 poolUnknown=false totalBytes=3221225472`,
		`key="uid-b" volume="v" class="ssd" state="provisioned" bytes=2147483648 poolUnknown=false totalBytes=5368709120`,
		`key="volume/w" volume="w" class="" state="provisioned" bytes=1073741824 poolUnknown=true totalBytes=6442450944`,
		`"Pool counted"`, `classes=["ssd","ssd-too"] volumes=3 usedBytes=6442450944 whatIfBytes=0 published=true allocatableBytes=10737418240 oversellRatio=1 limitBytes=10737418240 requestedBytes=6442450944 leftBytes=4294967296 fits=false`,
		`"Node decided"`, `accepted=false reason="insufficient_capacity" detail="pool pool-ssd: 6 GiB requested, 4 GiB left of 10 GiB (oversell 1.0)"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log has no %s\n%s", want, out.String())
		}
	}
	out.Reset()
	quiet := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(4), textlogger.Output(&out)))
	filterAll(klog.NewContext(context.Background(), quiet), f.plugin, makePod("p").claiming("c").Pod, nodeInfo(ssdNode("n1")))
	if strings.Contains(out.String(), "counted") {
		t.Errorf("written at level 4: %s", out.String())
	}
}

func TestMetrics(t *testing.T) {
	now := time.Unix(1000, 0)
	f := newFixture(t, baseObjects(makeClaim("a", "ssd", gib).selected("n1"), makePod("i").inline("pool-ssd", gib).on("n1"),
		makeVolume("v", "pool-ssd", "n2", 2*gib), makeClaim("c", "ssd", 3*gib), makeClaim("d", "ssd", 100*gib), annotate(makeNode("n3"), "x"))...)
	f.ledger.now = func() time.Time { return now }
	f.reserve(makePod("p").claiming("c"), "n1")
	f.filter(makePod("q").claiming("d"))
	now = now.Add(7 * time.Second)
	registry := metrics.NewKubeRegistry()
	if err := registry.CustomRegister(f.plugin.shared.metrics); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), metricsSubsystem+"_")
			for _, label := range m.GetLabel() {
				if label.GetName() != "driver" {
					name += " " + label.GetValue()
				}
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"pool_bytes allocatable pool-ssd": float64(20 * gib), "pool_bytes used pool-ssd": float64(4 * gib), "pool_bytes reserved pool-ssd": float64(3 * gib),
		"ledger_entries selected": 1, "ledger_entries inline": 1, "ledger_entries provisioned": 1, "ledger_entries reserved": 1, "ledger_entries idle": 1,
		"oldest_reservation_seconds": 7, "settling_reservations": 0, "unreadable_nodes": 1, "decisions_total reserved": 1, "decisions_total insufficient_capacity": 2,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}
