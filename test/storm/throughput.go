package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/test/testbed"
)

// ThroughputOptions are for [Throughput].
type ThroughputOptions struct {
	Nodes, Pods int
	// Rounds are for each scheduler.
	Rounds   int
	Programs Programs
	Config   string
	Progress io.Writer
}

// ThroughputRecord has pods per second, round by round: the rounds of the two
// schedulers alternate, and the first of a pair does so too.
type ThroughputRecord struct {
	Nodes int       `json:"nodes"`
	Pods  int       `json:"pods"`
	Local []float64 `json:"localPodsPerSecond"`
	Stock []float64 `json:"stockPodsPerSecond"`
	// LocalCPU and StockCPU are the processor's seconds of the scheduler in each round,
	// its start included. Other load on the machine changes them little.
	LocalCPU []float64 `json:"localCPUSeconds"`
	StockCPU []float64 `json:"stockCPUSeconds"`
}

// Throughput measures how fast each scheduler places pods without volumes that
// wait for it when it starts: bindings per second from the first to the last.
func Throughput(ctx context.Context, o ThroughputOptions) (record ThroughputRecord, err error) {
	cluster, err := startCluster(ctx, o.Progress)
	if err != nil {
		return ThroughputRecord{}, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	client, err := kubernetes.NewForConfig(cluster.Admin())
	if err != nil {
		return ThroughputRecord{}, err
	}
	objects := Options{Nodes: o.Nodes, Tracking: Local}
	if err := createObjects(ctx, client, objects, 1000*gib); err != nil {
		return ThroughputRecord{}, err
	}
	record = ThroughputRecord{Nodes: o.Nodes, Pods: o.Pods}
	// One round that does not count warms the API server up.
	if _, _, err := throughputRound(ctx, cluster, client, o, false); err != nil {
		return ThroughputRecord{}, err
	}
	for round := range o.Rounds {
		for turn := range 2 {
			stock := turn == round%2
			pods, cpu, err := throughputRound(ctx, cluster, client, o, stock)
			if err != nil {
				return ThroughputRecord{}, err
			}
			if stock {
				record.Stock, record.StockCPU = append(record.Stock, pods), append(record.StockCPU, cpu)
			} else {
				record.Local, record.LocalCPU = append(record.Local, pods), append(record.LocalCPU, cpu)
			}
		}
		_, _ = fmt.Fprintf(o.Progress, "storm: round %d of %d: local %.1f pods/s with %.2f s of CPU, stock %.1f pods/s with %.2f s\n",
			round+1, o.Rounds, record.Local[round], record.LocalCPU[round], record.Stock[round], record.StockCPU[round])
	}
	return record, nil
}

// throughputRound creates the pods, starts the scheduler, and takes both away.
func throughputRound(ctx context.Context, cluster *testbed.Cluster, client kubernetes.Interface, o ThroughputOptions, stock bool) (perSecond, cpuSeconds float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &storm{client: client, o: Options{WithoutVolumes: true}}
	for i := range o.Pods {
		s.w.pods = append(s.w.pods, pod{name: fmt.Sprintf("pod-%05d", i), bytes: gib})
	}
	if err := s.createPods(ctx); err != nil {
		return 0, 0, err
	}
	if s.observer, err = newObserver(client, false); err != nil {
		return 0, 0, err
	}
	defer func() {
		cancel()
		s.observer.wait()
	}()
	if err := s.observer.start(ctx); err != nil {
		return 0, 0, err
	}
	program := o.Programs.Local
	if stock {
		program = o.Programs.Stock
	}
	scheduler, err := newSchedulers(cluster, program, schedulerConfig{shipped: o.Config, stock: stock, alone: true, unlimited: true}, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, scheduler.end()) }()
	if err := scheduler.start(1); err != nil {
		return 0, 0, err
	}
	if err := s.waitBound(ctx, scheduler); err != nil {
		return 0, 0, err
	}
	process := scheduler.members[0]
	if err := scheduler.stop(); err != nil {
		return 0, 0, err
	}
	return pace(s.observer.boundTimes()), process.CPUTime().Seconds(), s.deletePods(ctx)
}

func (s *storm) waitBound(ctx context.Context, scheduler *schedulers) error {
	return wait.PollUntilContextTimeout(ctx, look, 10*time.Minute, true, func(context.Context) (bool, error) {
		if ended(scheduler.members[0]) {
			return false, scheduler.members[0].Ended()
		}
		_, bound := s.observer.counts()
		return bound == len(s.w.pods), nil
	})
}

func (s *storm) deletePods(ctx context.Context) error {
	now := int64(0)
	pods := s.client.CoreV1().Pods(namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, look, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && len(list.Items) == 0, err
	})
}
