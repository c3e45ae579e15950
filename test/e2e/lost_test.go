package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/testbed"
)

const (
	// lostDelay is what the controller waits here; a quarter of an hour is its default.
	lostDelay = 20 * time.Second
	// lostVolumes are those that a user deletes while their node is off.
	lostVolumes = 10
)

// optedIn is a class whose users can build their data again, and one of them.
const optedIn = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: e2e-rebuilt
  annotations: {kubernetes.io.csi.local/on-lost-node: delete-claim}
provisioner: kubernetes.io.csi.local
parameters: {pool: pool-ssd}
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: replica}
spec:
  selector: {matchLabels: {app: replica}}
  template:
    metadata: {labels: {app: replica}}
    spec:
      schedulerName: csi-local-scheduler
      containers:
      - {name: main, image: %s, command: [sh, -c, %q], volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: e2e-rebuilt, accessModes: [ReadWriteOnce], resources: {requests: {storage: 32Mi}}}
`

// testLostNode switches a node off for good. As long as it is only NotReady, nothing
// happens to its volumes, and what waits there keeps nobody waiting on other nodes. When its
// Node object is deleted, what the user had deleted goes, what may be rebuilt comes up
// elsewhere, and the rest is left and spoken of.
func testLostNode(t *testing.T, b bed) {
	b.system(t, "patch", "deployment", "csi-local-controller", "--type=json", "--patch",
		fmt.Sprintf(`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--lost-node-delay=%s"}]`, lostDelay))
	b.wantRolledOut(t, "deployment/csi-local-controller")
	t.Cleanup(func() { b.system(t, "rollout", "undo", "deployment/csi-local-controller") })

	b.apply(t, fmt.Sprintf(optedIn, cluster.TestImage, forever))
	t.Cleanup(func() { b.system(t, "delete", "storageclass", "e2e-rebuilt") })
	b.wantReady(t, "replica-0")
	lost := b.nodeOf(t, "replica-0")
	deleted := b.useBothNodes(t, lost)
	gone := b.volumesOf(t, deleted...)
	if err := lost.PowerCut(); err != nil {
		t.Fatal(err)
	}
	b.wantReadyCondition(t, lost.Name(), corev1.ConditionUnknown)
	b.wantNothingDeleted(t, lostVolumes+3, 2*lostDelay)

	b.kubectl(t, "delete", "pod", "user", "--force")
	b.kubectl(t, append([]string{"delete", "persistentvolumeclaim", "--wait=false"}, deleted...)...)
	testbed.Eventually(t, patience, "the volumes that the user deleted", func() string {
		phases := b.Must(t, append([]string{"get", "persistentvolume", "-o", "jsonpath={.items[*].status.phase}"}, gone...)...)
		if strings.Count(phases, "Released") != lostVolumes {
			return phases
		}
		return ""
	})
	elsewhere := b.volumesOf(t, "neighbour")
	b.kubectl(t, "delete", "pod,persistentvolumeclaim", "neighbour")
	b.wantGone(t, 30*time.Second, "persistentvolume", elsewhere...)
	b.Must(t, "delete", "node", lost.Name())
	b.wantGone(t, patience, "persistentvolume", gone...)
	b.wantGone(t, patience, "csinode", lost.Name())
	b.wantEvent(t, "kept", "VolumeOnLostNode")
	b.wantElsewhere(t, "replica-0", lost.Name())

	// The same machine with new disks; the claim that was kept has lost its bytes.
	if err := errors.Join(lost.Replace(t.Context()), lost.WaitReady(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.wantRolledOut(t, "daemonset/csi-local-node")
}

// useBothNodes has pods with volumes on the node that will be lost, whose claims but "kept"
// are returned, and on the other one.
func (b bed) useBothNodes(t *testing.T, lost *cluster.Node) (claims []string) {
	t.Helper()
	other := b.Nodes()[0]
	if other == lost {
		other = b.Nodes()[1]
	}
	volumes := map[string]string{"kept": ofClaim("kept")}
	objects := []string{claim("kept", class, 32*mib)}
	for i := range lostVolumes {
		name := fmt.Sprintf("gone-%d", i)
		claims, objects = append(claims, name), append(objects, claim(name, class, 8*mib))
		volumes[name] = ofClaim(name)
	}
	b.apply(t, append(objects, pod("user", forever, volumes, on(lost)), claim("neighbour", class, 8*mib),
		pod("neighbour", forever, map[string]string{"data": ofClaim("neighbour")}, on(other)))...)
	b.wantReady(t, "user", "neighbour")
	return claims
}

// volumesOf are the PersistentVolumes of claims.
func (b bed) volumesOf(t *testing.T, claims ...string) (volumes []string) {
	t.Helper()
	for _, name := range claims {
		volumes = append(volumes, b.kubectl(t, "get", "persistentvolumeclaim", name, "-o", "jsonpath={.spec.volumeName}"))
	}
	return volumes
}

// wantGone waits until objects are deleted.
func (b bed) wantGone(t *testing.T, within time.Duration, kind string, names ...string) {
	t.Helper()
	testbed.Eventually(t, within, fmt.Sprintf("%s %v", kind, names), func() string {
		out, err := b.Kubectl(t.Context(), append([]string{"get", kind, "--ignore-not-found", "-o", "name"}, names...)...)
		if err != nil {
			return err.Error()
		}
		return out
	})
}

func (b bed) wantReadyCondition(t *testing.T, node string, want corev1.ConditionStatus) {
	t.Helper()
	testbed.Eventually(t, patience, node+" Ready="+string(want), func() string {
		object, err := b.Client().CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range object.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == want {
				return ""
			}
		}
		return fmt.Sprint(object.Status.Conditions)
	})
}

// wantNothingDeleted looks for so long that all claims and their volumes stay.
func (b bed) wantNothingDeleted(t *testing.T, claims int, long time.Duration) {
	t.Helper()
	end := time.NewTimer(long)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		for _, kind := range []string{"persistentvolume", "persistentvolumeclaim"} {
			out := b.kubectl(t, "get", kind, "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.deletionTimestamp}{"\n"}{end}`)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			for _, line := range lines {
				if len(lines) != claims || strings.Contains(strings.TrimSpace(line), " ") {
					t.Fatalf("of %d %ss, there are\n%s", claims, kind, out)
				}
			}
		}
		select {
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}

// wantElsewhere waits until a StatefulSet's pod runs on another node. Its controller looks
// at a pending pod again after five minutes at the latest; deleting the pod is quicker.
func (b bed) wantElsewhere(t *testing.T, pod, lost string) {
	t.Helper()
	testbed.Eventually(t, patience, "the claim of "+pod, func() string {
		out, err := b.Kubectl(t.Context(), "-n", b.namespace, "get", "persistentvolumeclaim", "data-"+pod, "--ignore-not-found", "-o", "jsonpath={.spec.volumeName}")
		if err != nil {
			return err.Error()
		}
		if out == "" {
			return ""
		}
		node := b.Must(t, "get", "persistentvolume", out, "--ignore-not-found", "-o", "jsonpath={.spec.nodeAffinity}")
		if node != "" && !strings.Contains(node, lost) {
			return ""
		}
		return "is bound to " + out
	})
	b.kubectl(t, "delete", "pod", pod, "--ignore-not-found")
	b.wantReady(t, pod)
	if n := b.nodeOf(t, pod); n.Name() == lost {
		t.Errorf("%s is on %s", pod, lost)
	}
}
