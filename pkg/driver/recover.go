package driver

import (
	"context"
	"fmt"
	"runtime/debug"

	"k8s.io/klog/v2"
)

// guard calls f and turns a panic into an error that matches errPanic, with the
// stack in the log: a bug that one request meets must not take the node's
// storage away from all the others.
func guard(ctx context.Context, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: %v", errPanic, cause)
			klog.FromContext(ctx).Error(err, "Recovered from a panic", "stack", string(debug.Stack()))
		}
	}()
	return f()
}
