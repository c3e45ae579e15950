package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// nowhere is a class with a pool that no node has.
const nowhere = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: e2e-nowhere}
provisioner: kubernetes.io.csi.local
parameters: {pool: pool-sdd}
volumeBindingMode: WaitForFirstConsumer
`

// testRefused asks for what cannot be, one of each kind of docs/wrong-input.md, and waits
// for what is said of it.
func testRefused(t *testing.T, b bed) {
	if _, err := b.KubectlInput(t.Context(), strings.ReplaceAll(nowhere, "WaitForFirstConsumer", "Immediate"), "apply", "-f", "-"); err == nil || !strings.Contains(err.Error(), "has to be WaitForFirstConsumer") {
		t.Errorf("a class that binds immediately: %v", err)
	}
	b.apply(t, nowhere)
	t.Cleanup(func() { b.system(t, "delete", "storageclass", "e2e-nowhere") })
	n := b.Nodes()[0]
	noSize := map[string]string{"scratch": inline("pool: pool-ssd")}
	b.apply(t, claim("everywhere", class, 8*mib, "accessModes: [ReadWriteMany]"), claim("chosen", class, 8*mib, "selector: {matchLabels: {a: b}}"),
		claim("nowhere", "e2e-nowhere", 8*mib), pod("nowhere-user", forever, map[string]string{"data": ofClaim("nowhere")}),
		pod("no-size", forever, noSize), pod("no-size-placed", forever, noSize, "nodeName: "+n.Name()),
		pod("too-large", forever, map[string]string{"scratch": inline("pool: pool-ssd, size: 2Gi")}))
	b.wantEvent(t, "everywhere", "UnsupportedAccessMode", "with ReadWriteOnce")
	b.wantEvent(t, "chosen", "UnsupportedSelector", "without the selector")
	b.wantEvent(t, "nowhere", "UnknownPool", "There are: "+pool)
	b.wantEvent(t, "nowhere-user", "FailedScheduling", "no node has the local volume pool: pool-sdd")
	const missing = `parameter "size": is missing; want a quantity such as 10Gi`
	b.wantEvent(t, "no-size", "FailedScheduling", missing)
	b.wantEvent(t, "no-size-placed", "FailedMount", missing)
	b.wantEvent(t, "too-large", "FailedMount", "is more than the pool allows for one inline volume; want at most 1 GiB")
	testOwnNodeOnly(t, b)
}

// testOwnNodeOnly takes the token of each node's driver: it is good for its own Node only.
func testOwnNodeOnly(t *testing.T, b bed) {
	pods := b.driverPods(t)
	if len(pods) != len(b.Nodes()) {
		t.Fatalf("%d pods", len(pods))
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"{}"}}}`, capacity.PoolsAnnotation(driver))
	for _, p := range pods {
		config := rest.AnonymousClientConfig(b.Admin())
		config.BearerToken = b.Must(t, "-n", p.Namespace, "exec", p.Name, "-c", "csi-local", "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range b.Nodes() {
			own := n.Name() == p.Spec.NodeName
			_, err := client.CoreV1().Nodes().Patch(t.Context(), n.Name(), types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			if own && err != nil || !own && (err == nil || !strings.Contains(err.Error(), "may change only the Node it runs on")) {
				t.Errorf("with the token of %s, to write %s: %v", p.Spec.NodeName, n.Name(), err)
			}
		}
	}
}
