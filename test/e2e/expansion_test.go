package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster/installed"
	"github.com/csi-local/csi-local/test/testbed"
)

// writer writes numbers, one after the other, and none before the last is on the disk.
const writer = `i=$(tail -n 1 /data/log 2>/dev/null || echo 0); while i=$((i+1)); do echo $i >> /data/log && sync && sleep 0.05 || exit 1; done`

// written is how many numbers a writer has written; that none is missing is looked at.
func (b bed) written(ctx context.Context, pod string) (int, error) {
	out, err := b.exec(ctx, pod, "wc -l < /data/log; tail -n 1 /data/log")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(out)
	if len(fields) != 2 || fields[0] != fields[1] {
		return 0, fmt.Errorf("lines and last number are %v", fields)
	}
	return strconv.Atoi(fields[0])
}

// wantProgress waits until a writer has written more than it had, and returns how much.
func (b bed) wantProgress(t *testing.T, pod string, before int) (now int) {
	t.Helper()
	testbed.Eventually(t, patience, pod+" writes on", func() string {
		var err error
		if now, err = b.written(t.Context(), pod); err != nil || now <= before {
			return fmt.Sprintf("%d numbers, error %v", now, err)
		}
		return ""
	})
	return now
}

// testExpansion grows a volume under a writer, when its snapshot is gone; then it asks for
// more than there is, and takes that back.
func testExpansion(t *testing.T, b bed) {
	b.apply(t, claim("data", class, 128*mib), pod("writer", writer, map[string]string{"data": ofClaim("data")}))
	b.wantReady(t, "writer")
	count := b.wantProgress(t, "writer", 0)

	n := b.nodeOf(t, "writer")
	n.MustRun(t, "lvcreate", "-y", "-s", "-n", "by-hand", "-L", "8m", group+"/"+b.logicalVolumes(t, n)[0])
	b.resize(t, "writer", "data", 512*mib)
	b.wantEvent(t, "writer", "VolumeResizeFailed", "snapshot", "by-hand")
	n.MustRun(t, "lvremove", "-y", group+"/by-hand")
	b.wantCapacity(t, "data", 512*mib)
	if kib, err := strconv.Atoi(b.mustExec(t, "writer", "df -Pk /data | tail -n 1 | awk '{print $2}'")); err != nil || int64(kib)<<10 < 400*mib {
		t.Errorf("the file system has %d KiB, error %v", kib, err)
	}
	count = b.wantProgress(t, "writer", count)

	b.resize(t, "writer", "data", 10<<40)
	b.wantEvent(t, "writer", "VolumeResizeFailed", "OutOfRange", "10 TiB", pool, "left; at most")
	testbed.Eventually(t, patience, "what the claim says", func() string {
		got := b.kubectl(t, "get", "persistentvolumeclaim", "data", "-o", "jsonpath={.status.allocatedResourceStatuses.storage}")
		if got != string(corev1.PersistentVolumeClaimNodeResizeInfeasible) {
			return got
		}
		return ""
	})
	count = b.wantProgress(t, "writer", count)
	b.resize(t, "writer", "data", 640*mib)
	b.wantCapacity(t, "data", 640*mib)
	b.wantProgress(t, "writer", count)
	if restarts := b.kubectl(t, "get", "pod", "writer", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("the writer was restarted %s times", restarts)
	}
	b.wantQuickLVM(t)
}

// wantQuickLVM wants no LVM command that has made or grown a device to have waited for a
// udevd that there is not in the drivers' containers. A node with one busy processor can
// take seconds without that.
func (b bed) wantQuickLVM(t *testing.T) {
	t.Helper()
	pods := b.driverPods(t)
	seen := map[string]bool{"lvcreate": false, "lvextend": false}
	for _, p := range pods {
		for _, m := range b.metricsOf(t, p.Status.PodIP)["csi_local_lvm_command_seconds"].GetMetric() {
			command := m.GetLabel()[0].GetValue()
			if _, asked := seen[command]; !asked {
				continue
			}
			seen[command] = true
			for _, bucket := range m.GetHistogram().GetBucket() {
				if slow := m.GetHistogram().GetSampleCount() - bucket.GetCumulativeCount(); bucket.GetUpperBound() == 30 && slow > 0 {
					t.Errorf("%s took more than 30 s on %s, %d times", command, p.Spec.NodeName, slow)
				}
			}
		}
	}
	for command, was := range seen {
		if !was {
			t.Errorf("%s was never run", command)
		}
	}
}

// metricsOf are those of a driver.
func (b bed) metricsOf(t *testing.T, address string) map[string]*dto.MetricFamily {
	t.Helper()
	text, err := installed.Metrics(t.Context(), b.Cluster, "http://"+address+":9808/metrics")
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// resize asks for another size, and has kubelet look at the claim as soon as csi-resizer has
// done its part: it does so when the pod has changed, and else about once a minute.
func (b bed) resize(t *testing.T, pod, claim string, bytes int64) {
	t.Helper()
	b.kubectl(t, "patch", "persistentvolumeclaim", claim, "--patch", fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":"%d"}}}}`, bytes))
	volume := b.volumesOf(t, claim)[0]
	testbed.Eventually(t, patience, "size of the PersistentVolume", func() string {
		object, err := b.Client().CoreV1().PersistentVolumes().Get(t.Context(), volume, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if size := object.Spec.Capacity.Storage(); size.Value() != bytes {
			return size.String() + "\n" + strings.Join(b.events(t, claim), "\n")
		}
		return ""
	})
	b.kubectl(t, "annotate", "pod", pod, "--overwrite", fmt.Sprintf("e2e/asked=%d", bytes))
}

// wantCapacity waits until a claim has its size, in the node's file system too.
func (b bed) wantCapacity(t *testing.T, claim string, bytes int64) {
	t.Helper()
	testbed.Eventually(t, patience, "size of claim "+claim, func() string {
		got := b.kubectl(t, "get", "persistentvolumeclaim", claim, "-o", "jsonpath={.status.capacity.storage}")
		if got == strconv.FormatInt(bytes, 10) || got == fmt.Sprintf("%dMi", bytes/mib) {
			return ""
		}
		return got + "\n" + strings.Join(b.events(t, claim), "\n")
	})
}
