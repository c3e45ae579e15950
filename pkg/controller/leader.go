package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLeaseLost: another process may be leading now. The process should end and
// be started again.
var ErrLeaseLost = errors.New("the leader's lease is lost")

// LeaseName is the Lease by which the controllers of one driver agree.
func LeaseName(driverName string) string { return "csi-local-controller-" + driverName }

// Election lets one of several processes work.
type Election struct {
	Kubernetes kubernetes.Interface
	Namespace  string
	// Name is the Lease's, see [LeaseName].
	Name string
	// Identity is another one for each process.
	Identity string
	// LeaseDuration is how long the others wait for a leader that is silent; a
	// leader that cannot renew for two thirds of it stops. At least 3 s.
	LeaseDuration time.Duration
	// Watchdog, if there is one, fails a health check when the lease has run out
	// and the process has not noticed.
	Watchdog *leaderelection.HealthzAdaptor
}

// Run waits for the lease and works until ctx ends. It returns what work
// returned, or ErrLeaseLost. The lease is given back when work has ended, and
// not before, so that the next leader need not wait.
func (e Election) Run(ctx context.Context, work func(context.Context) error) error {
	// The election must outlive ctx while work is ending.
	electing, giveBack := context.WithCancel(context.WithoutCancel(ctx))
	defer giveBack()
	leading, ended := make(chan struct{}), make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
			Client:     e.Kubernetes.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		},
		LeaseDuration:   e.LeaseDuration,
		RenewDeadline:   e.LeaseDuration * 2 / 3,
		RetryPeriod:     e.LeaseDuration * 2 / 15,
		ReleaseOnCancel: true,
		WatchDog:        e.Watchdog,
		Name:            e.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				close(leading)
				working, stop := context.WithCancel(held) // ends when the lease is lost
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				ended <- work(working)
				giveBack()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	defer context.AfterFunc(ctx, func() {
		select {
		case <-leading: // work gives the lease back
		default:
			giveBack()
		}
	})()
	elector.Run(electing)
	select {
	case <-leading:
	default:
		return nil // ctx ended while another process led
	}
	if err := <-ended; err != nil || ctx.Err() != nil {
		return err
	}
	return ErrLeaseLost
}
