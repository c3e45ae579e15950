package doctor

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/inspect/inspecttest"
)

const manifests = "../../deploy/manifests/"

func healthy(t testing.TB) *inspecttest.Cluster {
	return inspecttest.Healthy(t, manifests+"second-scheduler", 3, 2)
}

func examine(t testing.TB, c *inspecttest.Cluster) []Finding {
	t.Helper()
	return Examine(c.Snapshot(t, inspecttest.Driver))
}

// A healthy cluster has no finding, however large it is, in whatever order it is read
// and in whatever pages.
func TestExamine_HealthyHasNoFinding(t *testing.T) {
	for _, mode := range []string{"second-scheduler", "replace-scheduler", "storage-capacity"} {
		t.Run(mode, func(t *testing.T) {
			objects := inspecttest.Manifests(t, manifests+mode)
			rapid.Check(t, func(r *rapid.T) {
				nodes, volumes := rapid.IntRange(1, 30).Draw(r, "nodes"), rapid.IntRange(0, 5).Draw(r, "volumes")
				c := inspecttest.Filled(t, objects, nodes, volumes)
				adapt(c, mode)
				c.PageSize = rapid.IntRange(1, 40).Draw(r, "page")
				c.Shuffle(rapid.Uint64().Draw(r, "seed"))
				for _, f := range examine(t, c) {
					r.Errorf("%s: %s: %s", f.Check, f.Object, f.Wrong)
				}
			})
		})
	}
}

// adapt makes the users' pods ask for the scheduler of the mode.
func adapt(c *inspecttest.Cluster, mode string) {
	switch mode {
	case "replace-scheduler":
		c.Put(inspecttest.Lease("kube-scheduler", c.Time))
		fallthrough
	case "storage-capacity":
		c.EachPod(func(p *v1.Pod) { p.Spec.SchedulerName = v1.DefaultSchedulerName })
	}
}

// Each broken situation has exactly its findings, in whatever order the objects are read.
func TestExamine_EachSituationHasItsFindings(t *testing.T) {
	seen := map[string]bool{}
	for _, tt := range situations() {
		t.Run(tt.name, func(t *testing.T) {
			c := healthy(t)
			tt.damage(t, c)
			found := examine(t, c)
			var got []string
			for _, f := range found {
				got = append(got, f.Check+" "+f.Object.String())
				seen[f.Check] = true
				if f.Wrong == "" || f.Matters == "" || f.Command == "" {
					t.Errorf("incomplete: %+v", f)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if tt.command != "" && (len(found) == 0 || found[0].Command != tt.command) {
				t.Errorf("command\n%s\nwant\n%s", found[0].Command, tt.command)
			}
			c.Shuffle(uint64(len(tt.name)))
			c.PageSize = 2
			if diff := cmp.Diff(found, examine(t, c)); diff != "" {
				t.Errorf("another order finds something else:\n%s", diff)
			}
		})
	}
	for _, c := range Checks() {
		if !seen[c.Name] {
			t.Errorf("no situation shows %s", c.Name)
		}
	}
}

func TestChecks_Names(t *testing.T) {
	var names []string
	for _, c := range Checks() {
		names = append(names, c.Name)
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%q", names)
	}
}

// situation is one way in which a healthy cluster is broken.
type situation struct {
	name   string
	damage func(t testing.TB, c *inspecttest.Cluster)
	// want are check and object of each finding, errors first.
	want []string
	// command of the first finding, if it is worth comparing.
	command string
}

func situations() []situation {
	return slices.Concat(installSituations(), driverSituations(), nodeSituations(), poolSituations(), volumeSituations(), claimSituations(), partSituations(), eventSituations())
}

func old(c *inspecttest.Cluster) metav1.Time { return metav1.NewTime(c.Time.Add(-time.Hour)) }
