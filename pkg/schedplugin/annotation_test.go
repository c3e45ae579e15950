package schedplugin

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// topolvm/topolvm#909: whatever stands in the annotation, the node is refused
// with a reason; one bad figure leaves the other pools usable.
func TestAnnotation_BadValuesRefuseTheNode(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		want        Reason
		hddUsable   bool
	}{
		{name: "empty object", value: `{}`, want: ReasonPoolMissing},
		{name: "another pool only", value: `{"pool-hdd":"107374182400"}`, want: ReasonPoolMissing, hddUsable: true},
		{name: "nothing", value: ``, want: ReasonCapacityUnreadable},
		{name: "no JSON", value: `abc`, want: ReasonCapacityUnreadable},
		{name: "a number instead of an object", value: `-1`, want: ReasonCapacityUnreadable},
		{name: "negative", value: `{"pool-hdd":"107374182400","pool-ssd":"-1"}`, want: ReasonCapacityUnreadable, hddUsable: true},
		{name: "exponent", value: `{"pool-hdd":"107374182400","pool-ssd":"1e9"}`, want: ReasonCapacityUnreadable, hddUsable: true},
		{name: "overflow", value: `{"pool-hdd":"107374182400","pool-ssd":"9223372036854775808"}`, want: ReasonCapacityUnreadable, hddUsable: true},
		{name: "a number without quotes", value: `{"pool-hdd":"107374182400","pool-ssd":107374182400}`, want: ReasonCapacityUnreadable, hddUsable: true},
		{name: "nested", value: `{"pool-hdd":"107374182400","pool-ssd":{"free":"1"}}`, want: ReasonCapacityUnreadable, hddUsable: true},
		{name: "the pool twice", value: `{"pool-ssd":"107374182400","pool-ssd":"107374182400"}`, want: ReasonCapacityUnreadable},
		{name: "too long", value: `{"pool-ssd":"107374182400","x":"` + strings.Repeat("1", 300<<10) + `"}`, want: ReasonCapacityUnreadable},
		{name: "byte order mark", value: "\ufeff" + `{"pool-ssd":"107374182400"}`, want: ReasonCapacityUnreadable},
		{name: "cut off", value: `{"pool-ssd":"107374182400"`, want: ReasonCapacityUnreadable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, annotate(ssdNode("n1"), tc.value), makeCSINode("n1"), makeNode("n2", "pool-ssd", gib, "pool-hdd", gib), makeCSINode("n2"),
				makeClass("ssd", "pool-ssd"), makeClass("hdd", "pool-hdd"), makeClaim("c", "ssd", gib), makeClaim("h", "hdd", gib))
			_, statuses, _ := f.filter(makePod("p").claiming("c"))
			if got := statuses["n1"]; got.Code() != framework.UnschedulableAndUnresolvable || got.Message() != tc.want.String() {
				t.Errorf("n1: %v %q, want %q", got.Code(), got.Message(), tc.want)
			}
			if got := f.plugin.shared.metrics.decisions[tc.want].Load(); got != 1 {
				t.Errorf("counted %d times", got)
			}
			if got := f.accepted(makePod("h").claiming("h"))["n1"]; got != tc.hddUsable {
				t.Errorf("the other pool: usable %v, want %v", got, tc.hddUsable)
			}
			if got, bad := f.ledger.Stats().UnreadableNodes, tc.want == ReasonCapacityUnreadable; (got == 1) != bad {
				t.Errorf("%d unreadable nodes", got)
			}
			f.put(ssdNode("n1"))
			if !f.accepted(makePod("p").claiming("c"))["n1"] || f.ledger.Stats().UnreadableNodes != 0 {
				t.Error("put right, and still refused")
			}
			f.put(makeNode("n1"))
			_, statuses, _ = f.filter(makePod("p").claiming("c"))
			if got := statuses["n1"].Message(); got != ReasonCapacityUnknown.String() {
				t.Errorf("annotation removed: %q", got)
			}
		})
	}
}

func TestAnnotation_HugeFiguresDoNotOverflow(t *testing.T) {
	objects := []metav1.Object{annotate(ssdNode("n1"), `{"pool-ssd":"9223372036854775807"}`), makeCSINode("n1"), makeClass("ssd", "pool-ssd"), makeClaim("c", "ssd", gib)}
	for i := range 40 {
		objects = append(objects, makeVolume(fmt.Sprintf("v%d", i), "pool-ssd", "n1", 1<<62))
	}
	f := newFixture(t, objects...)
	if used := f.used("n1", "pool-ssd"); used <= 0 {
		t.Errorf("used %d", used)
	}
	f.put(makeClaim("huge", "ssd", 1<<62), makeClaim("huger", "ssd", 1<<62))
	if got := f.accepted(makePod("p").claiming("huge", "huger")); got["n1"] {
		t.Error("two claims of 4 EiB fit nowhere")
	}
	for i := range 40 {
		f.remove(makeVolume(fmt.Sprintf("v%d", i), "pool-ssd", "n1", 1<<62))
	}
	f.wantUsed("all gone", "n1", "pool-ssd", 0)
}

// FuzzAnnotation: any bytes, no panic; and no node is accepted but for what the
// contract says.
func FuzzAnnotation(f *testing.F) {
	for _, seed := range []string{`{"pool-ssd":"107374182400"}`, `{}`, `{"pool-ssd":"-1"}`, `{"pool-ssd":"1e9"}`, "\x00", `{"pool-ssd":"107374182400"}{}`, `[]`, `null`} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, value, report string) {
		node := annotate(ssdNode("n1"), value)
		node.Annotations[capacity.ReportAnnotation(testDriver)] = report
		fx := newFixture(t, node, makeCSINode("n1"), ssdNode("n2"), makeCSINode("n2"), makeClass("ssd", "pool-ssd"), makeClaim("c", "ssd", gib))
		accepted := fx.accepted(makePod("p").claiming("c"))["n1"]
		pools, _, err := capacity.DecodePools(value)
		if accepted && (err != nil || pools["pool-ssd"] < gib) {
			t.Errorf("accepted by %q", value)
		}
		fx.remove(node)
		if fx.accepted(makePod("p").claiming("c"))["n1"] {
			t.Error("a node that is gone was accepted")
		}
	})
}
