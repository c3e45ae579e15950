package schedplugin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestSettler asks a fake API what became of a claim (pod, volume) after a
// cycle failed, on a fake clock.
func TestSettler(t *testing.T) {
	a := makeClaim("a", "ssd", 6*gib)
	inline := makePod("p").inline("pool-ssd", 6*gib)
	for _, tc := range []struct {
		name     string
		pod      podBuilder
		api      []metav1.Object
		failures int
		after    time.Duration
		used     int64
		woken    bool
	}{
		{name: "not asked at once: the write may be under way", pod: makePod("p").claiming("a"), api: []metav1.Object{a}, after: settleDelay / 2, used: 6 * gib},
		{name: "nothing was written", pod: makePod("p").claiming("a"), api: []metav1.Object{a}, after: time.Minute, woken: true},
		{name: "it was written", pod: makePod("p").claiming("a"), api: []metav1.Object{a.selected("n1")}, after: time.Hour, used: 6 * gib},
		{name: "the claim is gone: its deletion will be seen", pod: makePod("p").claiming("a"), after: time.Hour, used: 6 * gib},
		{name: "another claim of that name", pod: makePod("p").claiming("a"), api: []metav1.Object{a.uid("new")}, after: time.Hour, used: 6 * gib},
		{name: "the API fails for a while", pod: makePod("p").claiming("a"), api: []metav1.Object{a}, failures: 8, after: 2 * time.Second, used: 6 * gib},
		{name: "the API fails for a while, and answers", pod: makePod("p").claiming("a"), api: []metav1.Object{a}, failures: 8, after: 10 * time.Minute, woken: true},
		{name: "inline, not bound", pod: inline, api: []metav1.Object{inline}, after: time.Minute, woken: true},
		{name: "inline, bound", pod: inline, api: []metav1.Object{inline.on("n1")}, after: time.Hour, used: 6 * gib},
		{name: "inline, gone", pod: inline, after: time.Minute, woken: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, baseObjects(a, inline, makePod("w"), makeClaim("b", "ssd", 6*gib))...)
				f.settleWith(t, tc.api, tc.failures)
				state := f.reserve(tc.pod, "n1")
				f.permit(state, tc.pod, "n1")
				f.filter(makePod("w").claiming("b")) // waits for n1
				f.unreserve(state, tc.pod, "n1")
				time.Sleep(tc.after)
				synctest.Wait()
				f.wantUsed("in the end", "n1", "pool-ssd", tc.used)
				handle := f.plugin.handle.(*fakeHandle)
				handle.mu.Lock()
				defer handle.mu.Unlock()
				if _, woken := handle.activated["uid-w"]; woken != tc.woken {
					t.Errorf("the pod that waited was woken: %v", woken)
				}
			})
		})
	}
}

// settleWith runs the real settler against a fake API that fails a few times.
func (f *fixture) settleWith(t *testing.T, api []metav1.Object, failures int) {
	var objects []runtime.Object
	for _, o := range api {
		objects = append(objects, bare(o).(runtime.Object))
	}
	client := fake.NewClientset(objects...)
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		failures--
		return failures >= 0, nil, errors.New("the API is away")
	})
	s := newSettler(client, f.plugin.shared.waiting)
	f.plugin.shared.settle = s.add
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestSettler_VolumeOfADeletedClaim(t *testing.T) {
	a := makeClaim("a", "ssd", 6*gib).selected("n1")
	volume := makeVolume("pvc-uid-a", "pool-ssd", "n1", 6*gib).of(a)
	for _, tc := range []struct {
		name  string
		api   []metav1.Object
		after time.Duration
		used  int64
	}{
		{"the provisioner has its time", nil, volumeDelay / 2, 6 * gib},
		{"none was made", nil, time.Minute, 0},
		{"one was made, and will be seen", []metav1.Object{volume}, time.Hour, 6 * gib},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, baseObjects(a)...)
				f.settleWith(t, tc.api, 0)
				f.remove(a)
				time.Sleep(tc.after)
				synctest.Wait()
				f.wantUsed("in the end", "n1", "pool-ssd", tc.used)
			})
		})
	}
}

func TestWaiting_ForgetsPodsThatAreGone(t *testing.T) {
	f := newFixture(t, baseObjects(makePod("there"))...)
	w := f.plugin.shared.waiting
	w.begin(makePod("there").Pod, &cycle{})
	for i := range minPrune - 1 {
		pod := makePod("gone").copied()
		pod.Name = "gone-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		pod.UID = types.UID("uid-" + pod.Name)
		w.begin(pod.Pod, &cycle{})
	}
	if w.last("uid-there") == nil || len(w.attempts) > 1 {
		t.Errorf("%d pods are remembered", len(w.attempts))
	}
	h := podHandler{byName(t.Context(), f.ledger.SyncPod), testDriver, w}
	h.OnDelete(makePod("there").Pod)
	if w.last("uid-there") != nil {
		t.Error("a pod that was deleted is remembered")
	}
}
