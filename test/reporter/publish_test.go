package reporter

import (
	"slices"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/capacity/reporter"
)

// One node's life: what is true is published with the fewest writes, each on
// condition; what is true already is not written at all.
func TestReporter_WritesOnlyWhatChanged(t *testing.T) {
	b := newBed(t, 1)
	node := b.nodes[0]
	watch, err := b.admin.StorageV1().CSINodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", node).String()})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	s := &source{pools: map[string]int64{"hdd": 2 * gib, "ssd": gib}, slots: 100}
	if version, err := b.api(node, "a").ServerVersion(t.Context()); err != nil || !strings.HasPrefix(version, "v1.") {
		t.Errorf("the API server's version is %q, %v", version, err)
	}
	changed, stop := b.start(node, "a", s)
	b.published(node, 10*time.Second, `{"hdd":"2147483648","ssd":"1073741824"}`, 100)
	b.wantWrites(2, "the first figures")

	for range 1000 { // volumes come and go; what the pools can hold in total stays
		changed()
	}
	b.pass(3 * time.Second)
	b.wantWrites(2, "1,000 changes of volumes, and three looks by timer")

	s.set(map[string]int64{"ssd": gib / 2}, 50)
	changed()
	b.published(node, 10*time.Second, `{"ssd":"536870912"}`, 50)
	b.wantWrites(4, "lower figures, a pool fewer")
	s.set(map[string]int64{"ssd": gib}, 0)
	changed()
	b.published(node, 10*time.Second, `{"ssd":"1073741824"}`, 1) // 0 would mean no limit
	b.wantWrites(6, "a higher figure, no slot left")
	stop()

	_, stop = b.start(node, "a", s) // the program is started again
	b.pass(3 * time.Second)
	stop()
	b.wantWrites(6, "a new start with the same figures")
	v := judge(b.audit())
	if len(v.blind) > 0 || len(v.idle) > 0 || v.done != 6 {
		t.Errorf("verdict %+v", v)
	}
	checkWatch(t, watch.ResultChan())

	if err := reporter.Cleanup(t.Context(), b.api(node, "a"), driver); err != nil {
		t.Fatal(err)
	}
	object, err := b.admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{capacity.PoolsAnnotation(driver), capacity.ReportAnnotation(driver)} {
		if _, there := object.Annotations[key]; there {
			t.Errorf("%s is left after the clean-up", key)
		}
	}
}

func (b *bed) wantWrites(want int, after string) {
	b.t.Helper()
	if got := b.writes(); len(got) != want {
		b.t.Errorf("%d writes after %s, want %d: %+v", len(got), after, want, got)
	}
}

// checkWatch wants to have seen each count, as "kubectl get csinode -w" shows them.
func checkWatch(t *testing.T, events <-chan apiwatch.Event) {
	t.Helper()
	var got []int32
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	want := []int32{10, 100, 50, 1}
	for len(got) < len(want) {
		select {
		case event := <-events:
			csiNode, ok := event.Object.(*storagev1.CSINode)
			if !ok {
				t.Fatalf("event %+v", event)
			}
			got = append(got, count(csiNode, driver))
		case <-timeout.C:
			t.Fatalf("watched counts %v, want %v", got, want)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("watched counts %v, want %v", got, want)
	}
}
