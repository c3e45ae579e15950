package schedplugin

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
)

const (
	// settleDelay is given to a write that was under way when its cycle failed.
	settleDelay = time.Second
	// volumeDelay is given to a provisioner that may be making a volume for a
	// claim that was deleted.
	volumeDelay = 10 * time.Second
	// settleTimeout bounds one question to the API.
	settleTimeout = 10 * time.Second
	// After an error, the API is asked again after settleBackoff, twice that, and
	// so on up to maxSettleBackoff.
	settleBackoff    = 500 * time.Millisecond
	maxSettleBackoff = time.Minute
)

// settler asks the API what became of claims whose scheduling cycle failed
// after it may have written to them. Nothing else in the plugin reads the API.
type settler struct {
	client  clientset.Interface
	waiting *waiting
	queue   workqueue.TypedRateLimitingInterface[question]
}

type question struct {
	ledger *Ledger
	open   Unsettled
}

func newSettler(client clientset.Interface, w *waiting) *settler {
	return &settler{client: client, waiting: w, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[question](settleBackoff, maxSettleBackoff))}
}

func (s *settler) add(l *Ledger, u Unsettled) {
	delay := settleDelay
	if u.Volume != "" {
		delay = volumeDelay
	}
	s.queue.AddAfter(question{l, u}, delay)
}

// run works one question at a time, which bounds the load on the API, until the
// context ends.
func (s *settler) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.queue.ShutDown)
	defer stop()
	for {
		q, down := s.queue.Get()
		if down {
			return
		}
		s.answer(ctx, q)
		s.queue.Done(q)
	}
}

func (s *settler) answer(ctx context.Context, q question) {
	log := klog.FromContext(ctx)
	written, err := s.written(ctx, q.open)
	if err != nil {
		log.V(2).Info("Not known yet whether a claim names a node; asking again", "plugin", Name, "object", q.open.Name, "err", err)
		s.queue.AddRateLimited(q)
		return
	}
	s.queue.Forget(q)
	if written {
		return // its event books it
	}
	released, err := q.ledger.Settle(q.open)
	if err != nil {
		log.Error(err, "A reservation could not be settled", "object", q.open.Name)
	}
	if released {
		log.V(4).Info("Reservation released: nothing was written", "plugin", Name, "object", q.open.Name)
		s.waiting.wake(log)
	}
}

// written asks the API whether there is, or will be, an event that tells the
// ledger more: the claim or the pod names a node, the volume exists.
func (s *settler) written(ctx context.Context, u Unsettled) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if u.Volume != "" {
		_, err := s.client.CoreV1().PersistentVolumes().Get(ctx, u.Volume, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return true, err
	}
	if u.Claim != "" {
		claim, err := s.client.CoreV1().PersistentVolumeClaims(u.Name.Namespace).Get(ctx, u.Name.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			// It may have been written, and a volume made, before it was deleted: the
			// ledger sees to that when the cache shows the deletion.
			return true, nil
		}
		if err != nil {
			return false, err
		}
		return claim.UID != u.Claim || claim.Annotations[storagehelpers.AnnSelectedNode] != "" || claim.Spec.VolumeName != "", nil
	}
	pod, err := s.client.CoreV1().Pods(u.Name.Namespace).Get(ctx, u.Name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return pod.UID == u.Pod && pod.Spec.NodeName != "", nil
}
