package schedplugin

import (
	"context"
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// fakeState is a CycleState of this plugin alone.
type fakeState struct {
	framework.CycleState
	data map[framework.StateKey]framework.StateData
}

func newState() *fakeState { return &fakeState{data: map[framework.StateKey]framework.StateData{}} }

func (s *fakeState) Read(k framework.StateKey) (framework.StateData, error) {
	if d, ok := s.data[k]; ok {
		return d, nil
	}
	return nil, framework.ErrNotFound
}

func (s *fakeState) Write(k framework.StateKey, d framework.StateData) { s.data[k] = d }

func (s *fakeState) Clone() framework.CycleState {
	c := newState()
	for k, d := range s.data {
		c.data[k] = d.Clone()
	}
	return c
}

// fakeNodeInfo is a node with its pods.
type fakeNodeInfo struct {
	framework.NodeInfo
	node *v1.Node
	pods []framework.PodInfo
}

func (n *fakeNodeInfo) Node() *v1.Node               { return n.node }
func (n *fakeNodeInfo) GetPods() []framework.PodInfo { return n.pods }

type fakePodInfo struct {
	framework.PodInfo
	pod *v1.Pod
}

func (p fakePodInfo) GetPod() *v1.Pod { return p.pod }

func nodeInfo(node *v1.Node, pods ...*v1.Pod) *fakeNodeInfo {
	n := &fakeNodeInfo{node: node}
	for _, pod := range pods {
		n.pods = append(n.pods, fakePodInfo{pod: pod})
	}
	return n
}

// fakeHandle is what a plugin sees of the scheduler.
type fakeHandle struct {
	framework.Handle
	factory  informers.SharedInformerFactory
	client   clientset.Interface
	recorder *events.FakeRecorder

	mu        sync.Mutex
	activated map[string]*v1.Pod
	// woken is closed at the first activation, if it is set.
	woken chan struct{}
}

func (h *fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h *fakeHandle) ClientSet() clientset.Interface                         { return h.client }
func (h *fakeHandle) EventRecorder() events.EventRecorderLogger              { return h.recorder }
func (h *fakeHandle) ProfileName() string                                    { return "test" }

func (h *fakeHandle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.activated == nil {
		h.activated = map[string]*v1.Pod{}
	}
	maps.Copy(h.activated, pods)
	if h.woken != nil && len(pods) > 0 {
		close(h.woken)
		h.woken = nil
	}
}

// filterAll runs PreFilter and Filter and returns the status of each node.
func filterAll(ctx context.Context, p *LocalCapacity, pod *v1.Pod, nodes ...*fakeNodeInfo) (*fakeState, map[string]*framework.Status, *framework.Status) {
	state := newState()
	if _, status := p.PreFilter(ctx, state, pod, nil); !status.IsSuccess() {
		return state, nil, status
	}
	statuses := map[string]*framework.Status{}
	for _, n := range nodes {
		statuses[n.node.Name] = p.Filter(ctx, state, pod, n)
	}
	return state, statuses, nil
}
