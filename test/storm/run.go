package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/csi-local/csi-local/test/testbed"
)

const (
	// creators create pods side by side; the order of pods of one size does not matter.
	creators = 8
	// grace is how long a storm goes on in which no pod that waits fits anywhere.
	grace = 10 * time.Second
	look  = 200 * time.Millisecond
	tell  = 10 * time.Second
)

// storm is one that runs.
type storm struct {
	o          Options
	w          workload
	cluster    *testbed.Cluster
	client     kubernetes.Interface
	fleet      *fleet
	observer   *observer
	schedulers *schedulers

	turnsDone int
	begun     time.Time
	created   time.Time // when the last pod was, zero until then
}

// Run starts a cluster, has the storm, and ends the cluster. The record is of what
// happened, however bad; an error is of the storm's own.
func Run(ctx context.Context, o Options) (record Record, err error) {
	if err := o.validate(); err != nil {
		return Record{}, err
	}
	s := &storm{o: o, w: workloadOf(o)}
	if s.cluster, err = startCluster(ctx, o.Progress); err != nil {
		return Record{}, err
	}
	defer func() {
		stop := s.cluster.Stop
		if o.KeepLogs {
			_, _ = fmt.Fprintf(o.Progress, "storm: the logs are in %s\n", s.cluster.LogDir())
			stop = s.cluster.StopKeepingLogs
		}
		err = errors.Join(err, stop())
	}()
	return s.run(ctx)
}

// startCluster starts a control plane with those controllers that volumes need.
// Others would find that no kubelet reports, and take the pods away.
func startCluster(ctx context.Context, progress io.Writer) (*testbed.Cluster, error) {
	return testbed.Start(ctx, testbed.Options{ControllerManager: true, WithoutAudit: true, Progress: progress, ManagerFlags: []string{
		"--controllers=persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,persistentvolume-protection-controller,serviceaccount-controller",
		fmt.Sprintf("--kube-api-qps=%d", managerQPS), fmt.Sprintf("--kube-api-burst=%d", managerBurst),
	}})
}

func (s *storm) run(ctx context.Context) (record Record, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.client, err = kubernetes.NewForConfig(s.cluster.Admin()); err != nil {
		return Record{}, err
	}
	if err := createObjects(ctx, s.client, s.o, s.w.capacityBytes); err != nil {
		return Record{}, err
	}
	if s.fleet, err = newFleet(s.cluster.Admin(), s.o, s.w.capacityBytes); err != nil {
		return Record{}, err
	}
	if s.observer, err = newObserver(s.client, true); err != nil {
		return Record{}, err
	}
	defer func() {
		cancel()
		s.fleet.wait()
		s.observer.wait()
	}()
	if err := errors.Join(s.fleet.start(ctx), s.observer.start(ctx)); err != nil {
		return Record{}, err
	}
	program := s.o.Programs.Local
	if s.o.Tracking != Local {
		program = s.o.Programs.Stock
	}
	config := schedulerConfig{shipped: s.o.Config, stock: s.o.Tracking != Local, quickLease: s.o.Turns > 0}
	if s.schedulers, err = newSchedulers(s.cluster, program, config, s.o.LogLevel); err != nil {
		return Record{}, err
	}
	defer func() { err = errors.Join(err, s.schedulers.end()) }()
	if err := s.schedulers.startLeading(ctx, 1+min(1, s.o.Turns)); err != nil {
		return Record{}, err
	}
	if err := s.rage(ctx); err != nil {
		return Record{}, err
	}
	return s.record(), nil
}

// rage creates the pods and returns when nothing more is to be expected.
func (s *storm) rage(ctx context.Context) error {
	s.begun = time.Now()
	done := make(chan error, 1)
	go func() { done <- s.createPods(ctx) }()
	ticker, teller := time.NewTicker(look), time.NewTicker(tell)
	defer ticker.Stop()
	defer teller.Stop()
	var hopeless time.Time // since when no pod that waits fits anywhere
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-done:
			if err != nil {
				return fmt.Errorf("creating pods: %w", err)
			}
			s.created = time.Now()
		case <-teller.C:
			s.tell()
		case <-ticker.C:
			if err := s.tendSchedulers(); err != nil {
				return err
			}
			if s.created.IsZero() {
				continue
			}
			_, bound := s.observer.counts()
			if bound == len(s.w.pods) {
				s.tell()
				return nil
			}
			if s.anyFits() {
				hopeless = time.Time{}
			} else if hopeless.IsZero() {
				hopeless = time.Now()
			}
			quiet := time.Since(s.created)
			if last := s.observer.lastBound(); last.After(s.created) {
				quiet = time.Since(last)
			}
			if quiet > s.o.Quiet || time.Since(s.created) > s.o.Limit || !hopeless.IsZero() && min(quiet, time.Since(hopeless)) > grace {
				s.tell()
				return nil
			}
		}
	}
}

// createPods creates them in order of size, at the wanted speed.
func (s *storm) createPods(ctx context.Context) error {
	limiter := flowcontrol.NewFakeAlwaysRateLimiter()
	if s.o.PodsPerSecond > 0 {
		limiter = flowcontrol.NewTokenBucketRateLimiter(float32(s.o.PodsPerSecond), 1)
	}
	for begin := 0; begin < len(s.w.pods); {
		end := begin
		for end < len(s.w.pods) && s.w.pods[end].bytes == s.w.pods[begin].bytes {
			end++
		}
		todo := make(chan pod)
		problems := make([]error, creators)
		var work sync.WaitGroup
		for i := range creators {
			work.Go(func() {
				for p := range todo {
					if problems[i] == nil {
						problems[i] = createPod(ctx, s.client, p, !s.o.WithoutVolumes)
					}
				}
			})
		}
		var stopped error
		for _, p := range s.w.pods[begin:end] {
			if stopped = limiter.Wait(ctx); stopped != nil {
				break
			}
			todo <- p
		}
		close(todo)
		work.Wait()
		if err := errors.Join(append(problems, stopped)...); err != nil {
			return err
		}
		begin = end
	}
	return nil
}

// tendSchedulers kills schedulers when it is time to, and keeps them running.
func (s *storm) tendSchedulers() error {
	if err := s.schedulers.tend(); err != nil {
		return err
	}
	leading, err := s.schedulers.leading()
	if err != nil || !leading || s.turnsDone == s.o.Turns {
		return err
	}
	if _, bound := s.observer.counts(); bound < s.w.fitting*(s.turnsDone+1)/(s.o.Turns+1) {
		return nil
	}
	s.turnsDone++
	if s.turnsDone%2 == 1 {
		return s.schedulers.killLeader()
	}
	return s.schedulers.killAll()
}

func (s *storm) tell() {
	_, bound := s.observer.counts()
	volumes, refused := s.fleet.counts()
	_, _ = fmt.Fprintf(s.o.Progress, "storm: %s: %.0f s: %d of %d pods bound, %d volumes, %d failed creates\n",
		s.o.Name(), time.Since(s.begun).Seconds(), bound, len(s.w.pods), volumes, refused)
}
