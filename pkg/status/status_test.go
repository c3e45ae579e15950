package status

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/doctor"
	"github.com/csi-local/csi-local/pkg/inspect/inspecttest"
)

var update = flag.Bool("update", false, "write testdata instead of comparing it")

const (
	manifests = "../../deploy/manifests/second-scheduler"
	gib       = int64(1) << 30
)

func report(t testing.TB, c *inspecttest.Cluster) Report {
	t.Helper()
	s := c.Snapshot(t, inspecttest.Driver)
	return New(s, doctor.Examine(s))
}

// volume puts a volume of so many GiB onto the node.
func volume(c *inspecttest.Cluster, name, node string, size int64) {
	claim, volume, pod := inspecttest.Volume(name, node, size*gib)
	c.Put(claim, volume, pod)
}

// five is a cluster with a bit of everything.
func five(t testing.TB) *inspecttest.Cluster {
	c := inspecttest.Healthy(t, manifests, 5, 0)
	for i, name := range []string{"n1", "n1", "n2", "n2", "n4"} {
		volume(c, fmt.Sprintf("db-%d", i), name, []int64{30, 20, 60, 35, 60}[i])
	}
	inspecttest.Get[*v1.Node](t, c, "n4").Status.Conditions[0] = v1.NodeCondition{
		Type: v1.NodeReady, Status: v1.ConditionUnknown, LastTransitionTime: metav1.NewTime(c.Time.Add(-20 * time.Minute)),
	}
	inspecttest.Get[*v1.Node](t, c, "n5").Annotations[capacity.PoolsAnnotation(inspecttest.Driver)] = `{"pool-hdd":"107374182400","pool-ssd":"100Gi"}`
	volume(c, "db-5", "n9", 10)
	waits := func(name string, size int64) *v1.PersistentVolumeClaim {
		claim := inspecttest.Claim(name, size*gib)
		claim.CreationTimestamp = metav1.NewTime(c.Time.Add(-7 * time.Minute))
		c.Put(claim)
		return claim
	}
	waits("cache-0", 80)
	pod := inspecttest.UserPod("cache-0", "", "cache-0")
	pod.Status.Conditions = []v1.PodCondition{{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "0/5 nodes are available: 5 node(s) had not enough local volume capacity.",
	}}
	c.Put(pod)
	waits("logs-0", 1)
	waits("wal-0", 1).Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n3"}
	return c
}

// A pool is well again once its node says so, however young the event is that it was not.
func TestReport_PoolThatCanBeReadAgain(t *testing.T) {
	c := inspecttest.Healthy(t, manifests, 1, 0)
	says := func(reason, message string) {
		c.Put(&v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: reason},
			InvolvedObject: v1.ObjectReference{Kind: "Node", Name: "n1"}, Source: v1.EventSource{Component: "csi-local"},
			Reason: reason, Message: message, LastTimestamp: metav1.NewTime(c.Time.Add(-time.Minute)),
		})
	}
	for _, want := range []State{Fresh, Broken, Fresh} {
		for _, pool := range report(t, c).Pools {
			if got := pool.Nodes[0].State; pool.Name == "pool-ssd" && got != want {
				t.Errorf("state %s, want %s", got, want)
			}
		}
		if want == Fresh {
			says("PoolUnreadable", "Pool pool-ssd cannot be read: no such volume group. Its last figure counts for a while")
		} else {
			says("PoolReadable", "Pool pool-ssd can be read again")
		}
	}
}

func text(t testing.TB, r Report, style Style) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b, style); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite_Golden(t *testing.T) {
	r := report(t, five(t))
	inspecttest.Golden(t, "testdata/five.txt", text(t, r, Style{Width: 80}), *update)
	inspecttest.Golden(t, "testdata/five-colour.txt", text(t, r, Style{Width: 80, Ink: true}), *update)
	out, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	inspecttest.Golden(t, "testdata/five.json", string(out)+"\n", *update)
	inspecttest.Golden(t, "testdata/none.txt", text(t, report(t, inspecttest.Healthy(t, manifests, 0, 0)), Style{}), *update)
}

// fiveHundred are nodes with long names, of which two need eyes.
func fiveHundred(t testing.TB) *inspecttest.Cluster {
	c := inspecttest.Healthy(t, manifests, 500, 0)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	for i := range 500 {
		name := fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)
		c.Rename(t, fmt.Sprintf("n%d", i+1), name)
		volume(c, fmt.Sprintf("db-%d", i), name, random.Int64N(90)+1)
	}
	inspecttest.Get[*v1.Node](t, c, "ip-10-0-1-7.eu-central-1.compute.internal").Annotations[capacity.PoolsAnnotation(inspecttest.Driver)] = `{"pool-ssd":"0","pool-hdd":"0"}`
	inspecttest.Get[*v1.Node](t, c, "ip-10-0-0-99.eu-central-1.compute.internal").Annotations[capacity.PauseAnnotation(inspecttest.Driver)] = "true"
	return c
}

func TestWrite_FiveHundredNodes(t *testing.T) {
	r := report(t, fiveHundred(t))
	inspecttest.Golden(t, "testdata/five-hundred.txt", text(t, r, Style{Width: 80}), *update)
	if all := strings.Count(text(t, r, Style{All: true}), "compute.internal"); all != 1000 {
		t.Errorf("--all shows %d rows, want 1000", all)
	}
}

// Rows of pools fit the terminal, whatever the names and figures are.
func TestWrite_FitsEightyColumns(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		report := Report{TakenAt: time.Unix(1e9, 0)}
		for range rapid.IntRange(1, 3).Draw(r, "pools") {
			p := Pool{Name: "p", Type: capacity.PoolThick}
			for range rapid.IntRange(0, 30).Draw(r, "nodes") {
				n := NodePool{Node: rapid.StringMatching(`[a-z0-9.-]{1,253}`).Draw(r, "name"), State: rapid.SampledFrom([]State{Fresh, Stale, Broken, Lost}).Draw(r, "state")}
				n.UsedBytes, n.AllocatableBytes = rapid.Int64Range(0, 1<<60).Draw(r, "used"), rapid.Int64Range(0, 1<<60).Draw(r, "allocatable")
				n.NodeVolumes, n.NodeSlots = rapid.IntRange(0, 999).Draw(r, "volumes"), rapid.Int64Range(-1, 999).Draw(r, "slots")
				changed := time.Unix(rapid.Int64Range(0, 2e9).Draw(r, "changed"), 0)
				n.ChangedAt = &changed
				p.Nodes = append(p.Nodes, n)
			}
			report.Pools = append(report.Pools, p)
		}
		for line := range strings.Lines(text(t, report, Style{Width: 80})) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 80 && strings.ContainsAny(line, "█░") {
				r.Errorf("%d columns: %s", width, line)
			}
		}
	})
}

func TestReport_IsIndependentOfTheOrder(t *testing.T) {
	c := five(t)
	want := report(t, c)
	for seed := range uint64(20) {
		c.Shuffle(seed)
		if diff := cmp.Diff(want, report(t, c)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestBar(t *testing.T) {
	for fill, cells := range map[float64]int{0: 0, 0.0001: 1, 0.05: 1, 0.5: 10, 0.999: 19, 1: 20, 7: 20} {
		if got := bar(fill, false); strings.Count(got, "█") != cells || utf8.RuneCountInString(got) != barCells {
			t.Errorf("%g: %s", fill, got)
		}
	}
}

// The examples of the page are what the command prints.
func TestDocumentation(t *testing.T) {
	doc := doctest.Read(t, "../../docs/status.md")
	for _, name := range []string{"five.txt", "five.json"} {
		if golden := doctest.Read(t, "testdata/"+name); !strings.Contains(doc, excerpt(golden)) {
			t.Errorf("docs/status.md does not have %s", name)
		}
	}
	for _, state := range []State{Fresh, Stale, Broken, Lost} {
		if !strings.Contains(doc, "| `"+string(state)+"` |") {
			t.Errorf("docs/status.md does not explain %s", state)
		}
	}
}

// excerpt is what of the JSON stands in the page: up to the end of the first node.
func excerpt(golden string) string {
	if !strings.HasPrefix(golden, "{") {
		return golden
	}
	first, _, _ := strings.Cut(golden, "\n        },")
	return first
}
