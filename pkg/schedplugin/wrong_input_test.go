package schedplugin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/pkg/capacity"
)

// The page for users says what stands in the status of a pod with wrong input.
func TestWrongInput_TheSchedulersReasonsAreDocumented(t *testing.T) {
	type input struct {
		pod     podBuilder
		objects []metav1.Object
	}
	claiming := makePod("web").claiming("data")
	inline := func(change func(attributes map[string]string)) input {
		pod := makePod("web").inline("pool-ssd", gib)
		pod.Spec.Volumes[0].Name = "scratch"
		change(pod.Spec.Volumes[0].CSI.VolumeAttributes)
		return input{pod: pod}
	}
	without := func(key string) func(map[string]string) { return func(a map[string]string) { delete(a, key) } }
	with := func(key, value string) func(map[string]string) { return func(a map[string]string) { a[key] = value } }
	class := func(name, pool string, parameters ...string) input {
		return input{claiming, []metav1.Object{makeClass(name, pool, parameters...), makeClaim("data", name, gib)}}
	}
	now := class("local-now", "pool-ssd")
	now.objects[0] = immediate(makeClass("local-now", "pool-ssd"))
	tooLarge := input{claiming, []metav1.Object{makeClaim("data", "ssd", 2<<40)}}
	got := map[string]string{}
	for name, in := range map[string]input{
		"class with `volumeBindingMode: Immediate`":               now,
		"class with a misspelt parameter, `strips`":               class("local-odd", "pool-ssd", "strips", "2"),
		"class with a value that there is not, `layout: raid5`":   class("local-odd", "pool-ssd", capacity.ParamLayout, "raid5"),
		"class with a pool that no node has, `pool-nvme`":         class("local-nvme", "pool-nvme"),
		"claim of a class that there is not, `local-ssd`":         {claiming, []metav1.Object{makeClaim("data", "local-ssd", gib)}},
		"claim of 2Ti, which no node has left":                    tooLarge,
		"pod with a claim that there is not, `data`":              {pod: claiming},
		"inline volume without `size`":                            inline(without(capacity.ParamSize)),
		"inline volume with a `size` that cannot be read, `5 Gi`": inline(with(capacity.ParamSize, "5 Gi")),
		"inline volume without `pool`":                            inline(without(capacity.ParamPool)),
		"inline volume with a misspelt attribute, `siez`":         inline(with("siez", "1Gi")),
	} {
		_, statuses, refused := newFixture(t, baseObjects(in.objects...)...).filter(in.pod)
		if got[name] = refused.Message(); refused.IsSuccess() {
			got[name] = statuses["n1"].Message()
		}
	}
	f := newFixture(t, baseObjects(tooLarge.objects...)...)
	state, _, _ := f.filter(tooLarge.pod)
	got["the same, in the event `"+eventReason+"`"] = stateOf(state).summary()
	doc := doctest.Read(t, "../../docs/wrong-input.md")
	if diff := cmp.Diff(doctest.Column(t, doc, "## The scheduler, while the pod waits", 1), got); diff != "" {
		t.Errorf("(-docs +plugin)\n%s", diff)
	}
}
