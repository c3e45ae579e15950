package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/test/testbed"
)

// ThroughputOptions are for [Throughput].
type ThroughputOptions struct {
	Nodes int
	// Pods are for each scheduler, in each round.
	Pods     int
	Rounds   int
	Programs Programs
	Config   string
	Progress io.Writer
}

// ThroughputRecord has pods per second, round by round.
type ThroughputRecord struct {
	Nodes int       `json:"nodes"`
	Pods  int       `json:"pods"`
	Local []float64 `json:"localPodsPerSecond"`
	Stock []float64 `json:"stockPodsPerSecond"`
	// LocalCPU and StockCPU are the processor's seconds of the scheduler in each round,
	// its start included.
	LocalCPU []float64 `json:"localCPUSeconds"`
	StockCPU []float64 `json:"stockCPUSeconds"`
}

// stockName is the name that pods ask for which the stock scheduler is to place.
const stockName = "stock-scheduler"

// Throughput measures how fast each scheduler places pods without volumes that
// wait for it when it starts. In each round both place as many, in one cluster and
// at once: whatever else the machine does takes as much from the one as from the other.
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
	if err := createObjects(ctx, client, Options{Nodes: o.Nodes, Tracking: Local}, 1000*gib); err != nil {
		return ThroughputRecord{}, err
	}
	record = ThroughputRecord{Nodes: o.Nodes, Pods: o.Pods}
	for round := range o.Rounds {
		r := throughputRound{options: o, storm: storm{cluster: cluster, client: client, o: Options{WithoutVolumes: true}}}
		if err := r.run(ctx, round%2 == 1); err != nil {
			return ThroughputRecord{}, err
		}
		r.addTo(&record)
		_, _ = fmt.Fprintf(o.Progress, "storm: round %d of %d: local %.1f pods/s with %.2f s of CPU, stock %.1f pods/s with %.2f s\n",
			round+1, o.Rounds, record.Local[round], record.LocalCPU[round], record.Stock[round], record.StockCPU[round])
	}
	return record, nil
}

// throughputRound is both schedulers, each with pods of its own.
type throughputRound struct {
	storm
	options      ThroughputOptions
	local, stock *testbed.Process
}

// run creates the pods, starts the schedulers, and takes all away.
func (r *throughputRound) run(ctx context.Context, stockFirst bool) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range r.options.Pods {
		r.w.pods = append(r.w.pods, pod{name: fmt.Sprintf("local-%05d", i), bytes: gib, scheduler: schedulerName},
			pod{name: fmt.Sprintf("stock-%05d", i), bytes: gib, scheduler: stockName})
	}
	if err := r.createPods(ctx); err != nil {
		return err
	}
	if r.observer, err = newObserver(r.client, false); err != nil {
		return err
	}
	defer func() {
		cancel()
		r.observer.wait()
	}()
	if err := r.observer.start(ctx); err != nil {
		return err
	}
	local, err := newSchedulers(r.cluster, r.options.Programs.Local, schedulerConfig{shipped: r.options.Config, alone: true, unlimited: true}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.end()) }()
	stock, err := newSchedulers(r.cluster, r.options.Programs.Stock, schedulerConfig{shipped: r.options.Config, stock: true, name: stockName, alone: true, unlimited: true}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stock.end()) }()
	first, second := local, stock
	if stockFirst {
		first, second = stock, local
	}
	if err := errors.Join(first.start(1), second.start(1)); err != nil {
		return err
	}
	r.local, r.stock = local.members[0], stock.members[0]
	if err := r.waitBound(ctx); err != nil {
		return err
	}
	if err := errors.Join(local.stop(), stock.stop()); err != nil {
		return err
	}
	return r.deletePods(ctx)
}

func (r *throughputRound) waitBound(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, look, 10*time.Minute, true, func(context.Context) (bool, error) {
		for _, p := range []*testbed.Process{r.local, r.stock} {
			if ended(p) {
				return false, p.Ended()
			}
		}
		_, bound := r.observer.counts()
		return bound == len(r.w.pods), nil
	})
}

func (r *throughputRound) deletePods(ctx context.Context) error {
	now := int64(0)
	pods := r.client.CoreV1().Pods(namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, look, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && len(list.Items) == 0, err
	})
}

func (r *throughputRound) addTo(record *ThroughputRecord) {
	times := func(prefix string) []time.Time {
		return r.observer.boundTimes(func(pod string) bool { return strings.HasPrefix(pod, prefix) })
	}
	local, stock := paces(times("local-"), times("stock-"))
	record.Local, record.LocalCPU = append(record.Local, local), append(record.LocalCPU, r.local.CPUTime().Seconds())
	record.Stock, record.StockCPU = append(record.Stock, stock), append(record.StockCPU, r.stock.CPUTime().Seconds())
}

// paces are how many of a and of b there were in a second, while there were both;
// a and b are sorted, and not empty.
func paces(a, b []time.Time) (perSecondA, perSecondB float64) {
	begin, end := a[0], a[len(a)-1]
	if b[0].After(begin) {
		begin = b[0]
	}
	if last := b[len(b)-1]; last.Before(end) {
		end = last
	}
	seconds := end.Sub(begin).Seconds()
	if seconds <= 0 {
		return 0, 0
	}
	count := func(times []time.Time) (count float64) {
		for _, t := range times {
			if !t.Before(begin) && t.Before(end) {
				count++
			}
		}
		return count
	}
	return count(a) / seconds, count(b) / seconds
}
