// Package installed is for what tests, demo and benchmark ask a cluster that has csi-local
// in it, under the names that the shipped manifests give.
package installed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/cluster"
)

// Names of the shipped manifests.
const (
	Driver      = capacity.DefaultDriverName
	Namespace   = "kube-system"
	Scheduler   = "csi-local-scheduler"
	Class       = "local-dynamic-ssd"
	Pool        = "pool-ssd"
	VolumeGroup = "vg-ssd"
)

const (
	// ExtentBytes is what the size of every volume is a multiple of: LVM's default.
	ExtentBytes = int64(4) << 20
	// lookEvery is the time between two looks of [Until].
	lookEvery = 300 * time.Millisecond
)

// Parts are what the manifests run, as kubectl names it.
func Parts() []string {
	return []string{"daemonset/csi-local-node", "deployment/csi-local-controller", "deployment/csi-local-scheduler"}
}

// WaitRolledOut waits until all pods of each part are of its present revision and ready,
// for each at most as long as patience.
func WaitRolledOut(ctx context.Context, c *cluster.Cluster, patience time.Duration, parts ...string) error {
	for _, part := range parts {
		if _, err := c.Kubectl(ctx, "-n", Namespace, "rollout", "status", part, "--timeout="+patience.String()); err != nil {
			return err
		}
	}
	return nil
}

// PublishedBytes is how many bytes volumes of the pool may take on a node, those that exist
// included: its annotation. It is 0 if there is none.
func PublishedBytes(ctx context.Context, c *cluster.Cluster, n *cluster.Node) (int64, error) {
	node, err := c.Client().CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	text, there := node.Annotations[capacity.PoolsAnnotation(Driver)]
	if !there {
		return 0, nil
	}
	pools, bad, err := capacity.DecodePools(text)
	if err == nil && len(bad) > 0 {
		err = fmt.Errorf("%v", bad)
	}
	if err != nil {
		return 0, fmt.Errorf("annotation of %s: %w", n.Name(), err)
	}
	return pools[Pool], nil
}

// VolumeCount is how many volumes the node's CSINode promises; -1 if it has no entry.
func VolumeCount(ctx context.Context, c *cluster.Cluster, n *cluster.Node) (int32, error) {
	node, err := c.Client().StorageV1().CSINodes().Get(ctx, n.Name(), metav1.GetOptions{})
	if err != nil {
		return -1, err
	}
	for _, driver := range node.Spec.Drivers {
		if driver.Name == Driver && driver.Allocatable != nil && driver.Allocatable.Count != nil {
			return *driver.Allocatable.Count, nil
		}
	}
	return -1, nil
}

// LogicalVolumes are those of the pool's volume group on a node, whoever made them.
func LogicalVolumes(ctx context.Context, n *cluster.Node) ([]string, error) {
	text, err := n.Run(ctx, "lvs", "--noheadings", "-o", "lv_name", VolumeGroup)
	return strings.Fields(text), err
}

// FillBytes is the size of volumes of which count fit into so many bytes, and one more does
// not.
func FillBytes(bytes, count int64) (size int64, err error) {
	size = bytes / count / ExtentBytes * ExtentBytes
	if size == 0 || bytes-count*size >= size {
		return 0, fmt.Errorf("%d volumes of %d bytes do not fill %d bytes", count, size, bytes)
	}
	return size, nil
}

// Until waits until check has nothing to complain of and no error, at most as long as
// patience.
func Until(ctx context.Context, patience time.Duration, what string, check func(context.Context) (complaint string, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		complaint, err := check(ctx)
		if err == nil && complaint == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: %w: %s", what, context.Cause(ctx), complaint), err)
		case <-tick.C:
		}
	}
}
