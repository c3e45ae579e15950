package main

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
)

const (
	mib = int64(1) << 20
	// patience bounds a round; the goals are far below it.
	patience = 5 * time.Minute
	// provisionerPort is where csi-provisioner counts its calls: node.metricsPort + 1.
	provisionerPort = "9809"
)

// bed is the cluster of one node.
type bed struct {
	*cluster.Cluster
	spaces int // namespaces used so far
}

func (b *bed) node() *cluster.Node { return b.Nodes()[0] }

// install is what docs/install.md says.
func (b *bed) install(ctx context.Context) error {
	if _, err := b.Kubectl(ctx, "apply", "-k", b.Manifests("second-scheduler")); err != nil {
		return err
	}
	if err := installed.WaitRolledOut(ctx, b.Cluster, patience, installed.Parts()...); err != nil {
		return err
	}
	return installed.Until(ctx, patience, "what the node publishes", func(ctx context.Context) (string, error) {
		bytes, err := installed.PublishedBytes(ctx, b.Cluster, b.node())
		if err == nil && bytes == 0 {
			return "nothing", nil
		}
		return "", err
	})
}

// exactFit is the size of volumes of which so many fit, and one more does not.
func (b *bed) exactFit(ctx context.Context, count int64) (int64, error) {
	bytes, err := installed.PublishedBytes(ctx, b.Cluster, b.node())
	if err != nil {
		return 0, err
	}
	return installed.FillBytes(bytes, count)
}

// inNamespace gives do a namespace, and deletes it with all volumes.
func (b *bed) inNamespace(ctx context.Context, do func(name string) error) error {
	b.spaces++
	name := fmt.Sprintf("bench-%d", b.spaces)
	if _, err := b.Kubectl(ctx, "create", "namespace", name); err != nil {
		return err
	}
	// A pod without its service account is refused.
	err := installed.Until(ctx, patience, "service account", func(ctx context.Context) (string, error) {
		_, err := b.Client().CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return "", err
	})
	if err == nil {
		err = do(name)
	}
	if err != nil {
		return err
	}
	if _, err := b.Kubectl(ctx, "delete", "namespace", name, "--timeout="+patience.String()); err != nil {
		return err
	}
	return b.noVolumes(ctx)
}

func (b *bed) noVolumes(ctx context.Context) error {
	return installed.Until(ctx, patience, "no volumes", func(ctx context.Context) (string, error) {
		left, err := b.leftVolumes(ctx)
		if err != nil || left == 0 {
			return "", err
		}
		return fmt.Sprintf("%d are left", left), nil
	})
}

// leftVolumes counts logical volumes and PersistentVolumes.
func (b *bed) leftVolumes(ctx context.Context) (int, error) {
	logical, err := installed.LogicalVolumes(ctx, b.node())
	if err != nil {
		return 0, err
	}
	volumes, err := b.Client().CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return max(len(logical), len(volumes.Items)), nil
}

// driverPod is the DaemonSet's.
func (b *bed) driverPod(ctx context.Context) (corev1.Pod, error) {
	pods, err := installed.Pods(ctx, b.Cluster, installed.ComponentNode)
	if err != nil {
		return corev1.Pod{}, err
	}
	if len(pods) != 1 {
		return corev1.Pod{}, fmt.Errorf("the DaemonSet has %d pods", len(pods))
	}
	return pods[0], nil
}

// failedCreates counts CreateVolume calls with any other answer than OK since csi-provisioner
// was started, as it counts them itself: events are series and may be dropped.
func (b *bed) failedCreates(ctx context.Context) (int, error) {
	pod, err := b.driverPod(ctx)
	if err != nil {
		return 0, err
	}
	text, err := installed.Metrics(ctx, b.Cluster, "http://"+net.JoinHostPort(pod.Status.PodIP, provisionerPort)+"/metrics")
	if err != nil {
		return 0, err
	}
	return countFailedCreates(string(text))
}

func countFailedCreates(metrics string) (int, error) {
	line := regexp.MustCompile(`^csi_sidecar_operations_seconds_count\{(.*)\} (\S+)$`)
	failed := 0
	for text := range strings.Lines(metrics) {
		match := line.FindStringSubmatch(strings.TrimSpace(text))
		if match == nil || !strings.Contains(match[1], `method_name="/csi.v1.Controller/CreateVolume"`) || strings.Contains(match[1], `grpc_status_code="OK"`) {
			continue
		}
		count, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return 0, fmt.Errorf("csi-provisioner's metrics: %w", err)
		}
		failed += int(count)
	}
	return failed, nil
}

func claim(name string, bytes int64) *corev1.PersistentVolumeClaim {
	class := installed.Class
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)}},
		},
	}
}

// pod has a volume if claimed.
func pod(name string, claimed bool) *corev1.Pod {
	grace := int64(1) // with 0 it would be gone from the API server before kubelet has unmounted its volume
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		SchedulerName: installed.Scheduler, TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{Name: "main", Image: cluster.TestImage, Command: []string{"sleep", "1000000"}}},
	}}
	if claimed {
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
	}
	return p
}
