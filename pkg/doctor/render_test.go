package doctor

import (
	"encoding/json"
	"flag"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/inspect/inspecttest"
)

var update = flag.Bool("update", false, "write testdata instead of comparing it")

func text(t testing.TB, r Report, ink Ink, all bool) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b, ink, all); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite_Golden(t *testing.T) {
	c := healthy(t)
	inspecttest.Golden(t, "testdata/healthy.txt", text(t, New(c.Snapshot(t, driver)), false, false), *update)
	immediate := storagev1.VolumeBindingImmediate
	inspecttest.Get[*storagev1.StorageClass](t, c, "local-dynamic-hdd").VolumeBindingMode = &immediate
	annotated(capacity.PoolsAnnotation(driver), `{"pool-hdd":"107374182400","pool-ssd":"0"}`)(t, c)
	r := New(c.Snapshot(t, driver))
	inspecttest.Golden(t, "testdata/findings.txt", text(t, r, false, false), *update)
	inspecttest.Golden(t, "testdata/findings-colour.txt", text(t, r, true, false), *update)
	out, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	inspecttest.Golden(t, "testdata/findings.json", string(out)+"\n", *update)
}

// What is alike on many nodes is told a few times, unless all of it is wanted.
func TestWrite_ManyAlike(t *testing.T) {
	c := inspecttest.Healthy(t, manifests+"second-scheduler", 40, 0)
	c.EachNode(func(n *v1.Node) { n.Annotations[capacity.PauseAnnotation(driver)] = "true" })
	r := New(c.Snapshot(t, driver))
	short, all := text(t, r, false, false), text(t, r, false, true)
	if strings.Count(short, "WARNING") != mostOfCheck || strings.Count(short, "35 more of published-paused; --all shows them\n") != 1 || strings.Count(all, "WARNING") != 40 {
		t.Errorf("short:\n%s\nall:\n%s", short, all)
	}
}

// The page has each check, with its severity and why it matters, and the examples.
func TestDocumentation(t *testing.T) {
	doc := doctest.Read(t, "../../docs/status.md")
	rows := doctest.Rows(t, doc, "## The checks")
	for _, c := range Checks() {
		if got := rows[c.Name]; len(got) != 2 || got[0] != string(c.Severity) || got[1] != c.Matters {
			t.Errorf("want this row:\n| `%s` | %s | %s |", c.Name, c.Severity, c.Matters)
		}
		delete(rows, c.Name)
	}
	for name := range rows {
		t.Errorf("there is no check %s", name)
	}
	for _, name := range []string{"healthy.txt", "findings.txt", "findings.json"} {
		if !strings.Contains(doc, doctest.Read(t, "testdata/"+name)) {
			t.Errorf("docs/status.md does not have %s", name)
		}
	}
}
