package reporter

import (
	"context"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// slot is one of the two objects: what is known of it, and when it may be
// written. It belongs to the goroutine that syncs.
type slot struct {
	kind    Kind
	api     API
	pacer   *pacer
	metrics *Metrics
	timeout time.Duration
	now     func() time.Duration

	// known is the object as it was seen last; loaded is false when it must be
	// read before anything is decided.
	known  Object
	loaded bool
}

// observe takes in what the watch saw, unless it is older than what is known.
func (s *slot) observe(seen Object) {
	if s.known.Found && seen.Found && olderThan(seen.ResourceVersion, s.known.ResourceVersion) {
		return
	}
	s.known, s.loaded = seen, true
}

// olderThan compares resourceVersions as Kubernetes allows since 1.35: as
// numbers. Others are never older.
func olderThan(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// load reads the object if it is not known.
func (s *slot) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	object, err := s.api.Get(callCtx, s.kind)
	if err != nil {
		s.fail(ctx, "read", err)
		return err
	}
	s.known, s.loaded = object, true
	return nil
}

// write tries a change once. After a failure of any kind the object is read
// again and everything is decided again: the write may or may not have happened.
func (s *slot) write(ctx context.Context, change Change) error {
	s.pacer.spend(s.now())
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	object, err := s.api.Write(callCtx, s.kind, s.known, change)
	s.metrics.attempt(s.kind, result(err), time.Since(start))
	if err != nil {
		s.fail(ctx, "write", err)
		return err
	}
	s.known = object
	s.pacer.succeeded()
	s.pacer.idle()
	return nil
}

// refused is how long a CSINode is left alone whose count the API server does
// not let anybody change: that takes a new API server.
const refused = time.Hour

func (s *slot) fail(ctx context.Context, what string, err error) {
	s.loaded = false
	now := s.now()
	var retryAfter time.Duration
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		retryAfter = time.Duration(seconds) * time.Second
	}
	if s.kind == KindCSINode && apierrors.IsInvalid(err) {
		retryAfter = refused
	}
	s.pacer.failed(now, retryAfter)
	logger := klog.FromContext(ctx)
	if apierrors.IsConflict(err) {
		logger.V(4).Info("The object has changed meanwhile; reading it again", "object", s.kind.String())
		return
	}
	logger.V(2).Info("The API server did not do what was asked; trying again", "request", what, "object", s.kind.String(),
		"result", result(err), "failures", s.pacer.failures, "wait", s.pacer.blocked(now), "reason", err.Error())
}

// result names the outcome of a request, for the metrics.
func result(err error) string {
	switch {
	case err == nil:
		return "success"
	case apierrors.IsConflict(err):
		return "conflict"
	case apierrors.IsTooManyRequests(err):
		return "throttled"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "forbidden"
	case apierrors.IsInvalid(err):
		return "invalid"
	case apierrors.IsNotFound(err):
		return "missing"
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), isDeadline(err):
		return "timeout"
	default:
		return "error"
	}
}
