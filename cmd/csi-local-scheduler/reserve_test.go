package main

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// breaker is a plugin that comes after ours and does not reserve.
type breaker struct{ panics bool }

func (breaker) Name() string { return "Breaker" }

func (b breaker) Reserve(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	if b.panics {
		panic("broken")
	}
	return framework.NewStatus(framework.Unschedulable, "broken")
}

func (breaker) Unreserve(context.Context, framework.CycleState, *v1.Pod, string) {}

// kubernetes/kubernetes#93830: a plugin that comes later fails, or panics. kube-scheduler calls
// Unreserve of all plugins after the one, and ends at the other, since it does not catch it.
func TestReserve_LaterPluginBreaks(t *testing.T) {
	for name, later := range map[string]breaker{"fails": {}, "panics": {panics: true}} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{pod: waitingPod("data"), later: later}
			other := waitingPod("other")
			ctx := t.Context()
			c.start(ctx, t, fake.NewClientset(append(c.objects(t, 1), claim("other", requestedBytes), other)...))
			state := schedulerframework.NewCycleState()
			if _, status, _ := c.profile.RunPreFilterPlugins(ctx, state, c.pod); !status.IsSuccess() {
				t.Fatal(status)
			}
			if !c.fits(ctx, t, other) {
				t.Fatal("the node has room for one of the two pods")
			}
			status, caught := c.runReserve(ctx, state)
			if caught != later.panics || !later.panics && status.Code() != framework.Unschedulable {
				t.Fatalf("Reserve: %v, panic: %v", status, caught)
			}
			if c.fits(ctx, t, other) {
				t.Error("the same bytes are promised twice before Unreserve")
			}
			c.profile.RunReservePluginsUnreserve(ctx, state, c.pod, c.nodes[0].Node().Name)
			if !c.fits(ctx, t, other) {
				t.Error("bytes are still charged after Unreserve")
			}
		})
	}
}

// runReserve tells whether a panic came through kube-scheduler's framework.
func (c *cluster) runReserve(ctx context.Context, state framework.CycleState) (status *framework.Status, caught bool) {
	defer func() { caught = recover() != nil }()
	return c.profile.RunReservePluginsReserve(ctx, state, c.pod, c.nodes[0].Node().Name), false
}

func (c *cluster) fits(ctx context.Context, t *testing.T, pod *v1.Pod) bool {
	t.Helper()
	state := schedulerframework.NewCycleState()
	if _, status := c.local.PreFilter(ctx, state, pod, c.nodes); !status.IsSuccess() {
		t.Fatal(status)
	}
	return c.local.Filter(ctx, state, pod, c.nodes[0]).IsSuccess()
}
