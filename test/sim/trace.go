package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const gib = int64(1) << 30

// Options describe a load; [Generate] makes a trace of it. The zero value of a
// field that says so means its default.
type Options struct {
	Seed  uint64 `json:"seed"`
	Nodes int    `json:"nodes"`
	Pods  int    `json:"pods"`
	// SizesGiB are the sizes of claims, in GiB, each as likely as the others;
	// default 1.
	SizesGiB []int64 `json:"sizesGiB"`
	// MaxClaims is how many claims a pod has at most; default 1.
	MaxClaims int `json:"maxClaims"`
	// Demand is the bytes that are claimed, in parts of the pools' bytes; default
	// 1. The pools' sizes follow from it: with 1, there is a placement that fills
	// every pool to the last byte.
	Demand float64 `json:"demand"`
	// Rate is how many pods come in a second; 0: all at once.
	Rate float64 `json:"rate"`
	// Steady: the pods come at equal distances instead of at random (Poisson).
	Steady bool `json:"steady"`
	// ShortLived is the part of the pods, 0 to 1, that are deleted with their
	// claims, between half and one and a half Lifetime after they were bound.
	ShortLived float64       `json:"shortLived"`
	Lifetime   time.Duration `json:"lifetimeNanoseconds"`
	// Patience is for how long after the last pod came a run goes on; default 45
	// minutes, as the published measurements waited.
	Patience time.Duration `json:"patienceNanoseconds"`
	Timing   Timing        `json:"timing"`
	Platform Platform      `json:"platform"`
}

// Timing are mean latencies. Each single one is drawn between half and one and a
// half of it.
type Timing struct {
	// APIWrite is a request's, without the wait for the client's limiter; Watch
	// is the time until an informer's cache has the change.
	APIWrite time.Duration `json:"apiWriteNanoseconds"`
	Watch    time.Duration `json:"watchNanoseconds"`
	// Cycle is the scheduling cycle of one pod, and Extender what calling an
	// extender adds to it.
	Cycle    time.Duration `json:"cycleNanoseconds"`
	Extender time.Duration `json:"extenderNanoseconds"`
	// CreateVolume and DeleteVolume are done one at a time on each node.
	CreateVolume time.Duration `json:"createVolumeNanoseconds"`
	DeleteVolume time.Duration `json:"deleteVolumeNanoseconds"`
	GetCapacity  time.Duration `json:"getCapacityNanoseconds"`
}

// Platform is what can be chosen of Kubernetes.
type Platform struct {
	// ControllerQPS and ControllerBurst limit the client of each controller of
	// kube-controller-manager, SchedulerQPS and SchedulerBurst kube-scheduler's.
	ControllerQPS   float64 `json:"controllerQPS"`
	ControllerBurst float64 `json:"controllerBurst"`
	SchedulerQPS    float64 `json:"schedulerQPS"`
	SchedulerBurst  float64 `json:"schedulerBurst"`
	// NodeMilliCPU and NodeMemoryBytes are a node's allocatable, PodsPerNode the
	// kubelet's limit.
	NodeMilliCPU    int64 `json:"nodeMilliCPU"`
	NodeMemoryBytes int64 `json:"nodeMemoryBytes"`
	PodsPerNode     int   `json:"podsPerNode"`
	// CapacityScoring: VolumeBinding prefers nodes with more capacity, and pods in
	// backoff are taken early when nothing else waits: both from 1.33 on, the
	// first one by default from 1.37 on.
	CapacityScoring bool `json:"capacityScoring"`
	PopFromBackoff  bool `json:"popFromBackoff"`
}

// DefaultTiming is an assumption: a healthy API server, a driver like ours.
func DefaultTiming() Timing {
	return Timing{APIWrite: 10 * time.Millisecond, Watch: 10 * time.Millisecond, Cycle: 2 * time.Millisecond, Extender: 4 * time.Millisecond,
		CreateVolume: 100 * time.Millisecond, DeleteVolume: 100 * time.Millisecond, GetCapacity: 10 * time.Millisecond}
}

// DefaultPlatform is Kubernetes 1.37 with default flags, on nodes such as the
// published measurements had.
//
// Sources: kubernetes pkg/controller/apis/config/v1alpha1/defaults.go (20, 30);
// pkg/scheduler/apis/config/v1/defaults.go (50, 100); pkg/features/kube_features.go
// (StorageCapacityScoring, SchedulerPopFromBackoffQ); pkg/kubelet/apis/config/v1beta1/defaults.go
// (110 pods). The nodes: kubernetes-csi/csi-driver-host-path
// docs/storage-capacity-tracking.md, whose "kubectl top nodes" shows 546m as 28 %
// and 2244Mi as 49 %.
func DefaultPlatform() Platform {
	return Platform{ControllerQPS: 20, ControllerBurst: 30, SchedulerQPS: 50, SchedulerBurst: 100,
		NodeMilliCPU: 1900, NodeMemoryBytes: 4580 << 20, PodsPerNode: 110, CapacityScoring: true, PopFromBackoff: true}
}

// Trace is a load: the same for every variant that it is run with.
type Trace struct {
	Options Options
	// PoolBytes is the size of each node's pool.
	PoolBytes []int64
	Pods      []PodSpec
}

// PodSpec is one pod.
type PodSpec struct {
	// Arrives is when the pod and its claims are created, since the beginning.
	Arrives time.Duration
	// ClaimBytes are the sizes of its claims, CreateTimes how long making each
	// volume takes once the node has begun with it.
	ClaimBytes  []int64
	CreateTimes []time.Duration
	// Lifetime is how long after it was bound the pod is deleted with its claims;
	// 0: never.
	Lifetime time.Duration
}

// ErrOptions is returned for options that describe no load.
var ErrOptions = errors.New("senseless options")

// Generate makes the trace that the options describe; the same options give the
// same trace. The error is [ErrOptions].
func Generate(o Options) (Trace, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Trace{}, err
	}
	random := rand.New(rand.NewPCG(o.Seed, 0x74726163))
	t := Trace{Options: o, PoolBytes: make([]int64, o.Nodes), Pods: make([]PodSpec, o.Pods)}
	for i := range t.Pods {
		p := &t.Pods[i]
		// Each node gets its share of the pods, so that all of them fit.
		for range 1 + random.IntN(o.MaxClaims) {
			size := o.SizesGiB[random.IntN(len(o.SizesGiB))] * gib
			p.ClaimBytes = append(p.ClaimBytes, size)
			p.CreateTimes = append(p.CreateTimes, around(random, o.Timing.CreateVolume))
			t.PoolBytes[i%o.Nodes] += size
		}
		if random.Float64() < o.ShortLived {
			p.Lifetime = around(random, o.Lifetime)
		}
	}
	for i := range t.PoolBytes {
		t.PoolBytes[i] = int64(float64(t.PoolBytes[i])/o.Demand) / extentBytes * extentBytes
	}
	random.Shuffle(len(t.Pods), func(i, j int) { t.Pods[i], t.Pods[j] = t.Pods[j], t.Pods[i] })
	var now time.Duration
	for i := range t.Pods {
		t.Pods[i].Arrives = now
		if o.Rate > 0 {
			gap := float64(time.Second) / o.Rate
			if !o.Steady {
				gap *= random.ExpFloat64()
			}
			now += time.Duration(gap)
		}
	}
	return t, nil
}

func (o Options) withDefaults() (Options, error) {
	if len(o.SizesGiB) == 0 {
		o.SizesGiB = []int64{1}
	}
	if o.MaxClaims == 0 {
		o.MaxClaims = 1
	}
	if o.Demand == 0 {
		o.Demand = 1
	}
	if o.Patience == 0 {
		o.Patience = 45 * time.Minute
	}
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming()
	}
	if o.Platform == (Platform{}) {
		o.Platform = DefaultPlatform()
	}
	if o.Nodes < 1 || o.Pods < 1 || o.MaxClaims < 1 || o.Demand <= 0 || o.Rate < 0 || o.ShortLived < 0 || o.ShortLived > 1 || o.ShortLived > 0 && o.Lifetime <= 0 {
		return o, fmt.Errorf("%w: %+v", ErrOptions, o)
	}
	for _, size := range o.SizesGiB {
		if size < 1 || size > 1<<20 {
			return o, fmt.Errorf("%w: size %d GiB", ErrOptions, size)
		}
	}
	return o, nil
}

// around draws a latency about its mean.
func around(random *rand.Rand, mean time.Duration) time.Duration {
	return mean/2 + time.Duration(random.Float64()*float64(mean))
}
