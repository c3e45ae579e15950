package reporter

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// cleanupTries bounds the conflicts that Cleanup takes.
const cleanupTries = 10

// Cleanup removes what the reporter wrote from the Node: both annotations. The
// driver's entry of the CSINode is kubelet's, which removes it when the driver
// is no longer registered; without a count it would promise volumes without
// limit. A Node that is gone is clean.
func Cleanup(ctx context.Context, api API, driverName string) error {
	keys := []string{capacity.PoolsAnnotation(driverName), capacity.ReportAnnotation(driverName)}
	var err error
	for range cleanupTries {
		var node Object
		if node, err = api.Get(ctx, KindNode); err != nil {
			return fmt.Errorf("reading the Node: %w", err)
		}
		var change Change
		for _, key := range keys {
			if _, there := node.Annotations[key]; there {
				change.Remove = append(change.Remove, key)
			}
		}
		if !node.Found || len(change.Remove) == 0 {
			return nil
		}
		if _, err = api.Write(ctx, KindNode, node, change); err == nil || errors.IsNotFound(err) {
			return nil
		}
		if !errors.IsConflict(err) {
			break
		}
		if waitErr := pause(ctx, time.Second); waitErr != nil {
			return waitErr
		}
	}
	return fmt.Errorf("removing the annotations from the Node: %w", err)
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
