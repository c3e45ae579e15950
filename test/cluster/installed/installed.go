// Package installed is for what tests, demo and benchmark ask a cluster that has csi-local
// in it, under the names that the shipped manifests give.
package installed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// The parts' components, by their label.
const (
	ComponentNode      = "node"
	ComponentScheduler = "scheduler"
)

// Pods are those of a component, or all of csi-local if component is empty.
func Pods(ctx context.Context, c *cluster.Cluster, component string) ([]corev1.Pod, error) {
	selector := "app.kubernetes.io/name=csi-local"
	if component != "" {
		selector = "app.kubernetes.io/component=" + component
	}
	list, err := c.Client().CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Metrics is the text at the URL of a part's metrics. With https that part has a certificate
// which it made itself, and wants to know who asks.
func Metrics(ctx context.Context, c *cluster.Cluster, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if request.URL.Scheme == "https" {
		request.Header.Set("Authorization", "Bearer "+c.Admin().BearerToken)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return text, err
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
