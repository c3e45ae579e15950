package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/testbed"
)

func TestMain(m *testing.M) { Main(m) }

// namesScheduler is a line of claimAndPod.
const namesScheduler = "  schedulerName: csi-local-scheduler\n"

// claimAndPod is deploy/examples/pod.yaml, but smaller, quicker to end, and with a word to find again.
const claimAndPod = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: local-dynamic-ssd
  accessModes: [ReadWriteOncePod]
  resources: {requests: {storage: 100Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
` + namesScheduler + `  terminationGracePeriodSeconds: 0
  containers:
  - name: writer
    image: ` + TestImage + `
    command: [sh, -c, "echo written >> /data/log; sync; exec sleep 100000"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes:
  - name: data
    persistentVolumeClaim: {claimName: data}
`

// Without csi-local-scheduler, or with it in place of the cluster's own, a pod need not name
// its scheduler.
func TestOverlays_PodsThatNameNoScheduler(t *testing.T) {
	for _, overlay := range []string{"storage-capacity", "replace-scheduler"} {
		t.Run(overlay, func(t *testing.T) {
			c := New(t, Options{})
			c.Must(t, "apply", "-k", c.Manifests(overlay))
			c.Must(t, "-n", "kube-system", "rollout", "status", "daemonset/csi-local-node", "--timeout=120s")
			if overlay == "replace-scheduler" {
				// The cluster's own has placed its successor, which waits for its lease.
				c.Must(t, "-n", "kube-system", "rollout", "status", "deployment/csi-local-scheduler", "--timeout=120s")
				if err := c.ControlPlane.StopScheduler(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.KubectlInput(t.Context(), strings.Replace(claimAndPod, namesScheduler, "", 1), "apply", "-f", "-"); err != nil {
				t.Fatal(err)
			}
			c.Must(t, "wait", "--for=condition=Ready", "--timeout=120s", "pod/writer")
			if overlay == "replace-scheduler" {
				leads := c.Must(t, "-n", "kube-system", "get", "lease", "kube-scheduler", "-o", "jsonpath={.spec.holderIdentity}")
				if !strings.HasPrefix(leads, "csi-local-scheduler-") {
					t.Errorf("%s has placed the pod", leads)
				}
			}
		})
	}
}

// TestCluster takes one cluster through what the package promises, in this order.
func TestCluster(t *testing.T) {
	began := time.Now()
	c := New(t, Options{Nodes: 2, ManagerFlags: []string{"--node-monitor-grace-period=20s"}})
	t.Logf("2 nodes Ready after %v", time.Since(began).Round(time.Second))
	t.Run("a pod on each node", func(t *testing.T) { testPods(t, c) })
	t.Run("commands in the kernel", func(t *testing.T) { testRun(t, c) })
	t.Run("manifests as they ship", func(t *testing.T) { testManifests(t, c) })
	t.Run("network cut", func(t *testing.T) { testNetworkCut(t, c) })
	t.Run("power cut", func(t *testing.T) { testPowerCut(t, c) })
	t.Run("replace", func(t *testing.T) { testReplace(t, c) })
}

func testPods(t *testing.T, c *Cluster) {
	for _, n := range c.Nodes() {
		c.Must(t, "run", "on-"+n.Name(), "--image="+TestImage, "--restart=Never",
			`--overrides={"spec":{"nodeSelector":{"kubernetes.io/hostname":"`+n.Name()+`"}}}`, "--", "sh", "-c", "hostname; sleep 100000")
	}
	for _, n := range c.Nodes() {
		c.Must(t, "wait", "--for=condition=Ready", "--timeout=60s", "pod/on-"+n.Name())
		testbed.Eventually(t, 10*time.Second, "the pod's log", func() string {
			if got := c.Must(t, "logs", "on-"+n.Name()); strings.TrimSpace(got) != "on-"+n.Name() {
				return got
			}
			return ""
		})
	}
	// From one node's pod to another's, without a Service.
	address := c.Must(t, "get", "pod", "on-node-2", "-o", "jsonpath={.status.podIP}")
	c.Must(t, "exec", "on-node-1", "--", "ping", "-c", "1", "-W", "5", address)
}

func testRun(t *testing.T, c *Cluster) {
	n := c.Nodes()[0]
	out, err := n.RunWithInput(t.Context(), []byte("in"), "sh", "-c", "cat; echo error >&2; exit 3")
	var failed *CommandError
	if !errors.As(err, &failed) || failed.Status != 3 || failed.Stderr != "error\n" || out != "in" {
		t.Errorf("printed %q, error %v", out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := n.Run(ctx, "sh", "-c", "sleep 7654 & sleep 7654"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that takes too long: %v", err)
	}
	testbed.Eventually(t, 10*time.Second, "the end of what was not waited for", func() string {
		if out, err := n.Run(t.Context(), "pgrep", "-f", "sleep 7654"); err == nil {
			return out
		}
		return ""
	})
	if got := n.MustRun(t, "vgs", "--noheadings", "-o", "vg_name"); strings.TrimSpace(got) != "vg-ssd" {
		t.Errorf("volume groups %q", got)
	}
}

func testManifests(t *testing.T, c *Cluster) {
	c.Must(t, "apply", "-k", c.Manifests("second-scheduler"))
	for _, what := range []string{"daemonset/csi-local-node", "deployment/csi-local-controller", "deployment/csi-local-scheduler"} {
		c.Must(t, "-n", "kube-system", "rollout", "status", what, "--timeout=120s")
	}
	if _, err := c.KubectlInput(t.Context(), claimAndPod, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	c.Must(t, "wait", "--for=condition=Ready", "--timeout=60s", "pod/writer")
}

// nodeOf is where the pod with the volume is.
func nodeOf(t *testing.T, c *Cluster) *Node {
	name := c.Must(t, "get", "pod", "writer", "-o", "jsonpath={.spec.nodeName}")
	for _, n := range c.Nodes() {
		if n.Name() == name {
			return n
		}
	}
	t.Fatalf("the pod is on node %q", name)
	return nil
}

func testNetworkCut(t *testing.T, c *Cluster) {
	n := nodeOf(t, c)
	if err := n.CutNetwork(); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, c, n, "Unknown")
	// It can be looked into all the same, and goes on.
	n.MustRun(t, "lvs")
	if err := n.RestoreNetwork(); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, c, n, "True")
}

func waitCondition(t *testing.T, c *Cluster, n *Node, want string) {
	t.Helper()
	testbed.Eventually(t, 90*time.Second, n.Name()+" Ready="+want, func() string {
		got := c.Must(t, "get", "node", n.Name(), "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if got != want {
			return "is " + got
		}
		return ""
	})
}

func testPowerCut(t *testing.T, c *Cluster) {
	n := nodeOf(t, c)
	before := n.MustRun(t, "lvs", "--noheadings", "-o", "lv_uuid")
	if err := n.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := n.MustRun(t, "lvs", "--noheadings", "-o", "lv_uuid"); after != before || after == "" {
		t.Errorf("logical volumes %q, were %q", after, before)
	}
	// The container is started again, and its first words are still there. While no driver
	// runs, kubelet doubles the time between its tries, up to two minutes.
	testbed.Eventually(t, 5*time.Minute, "the pod writes again", func() string {
		got, err := c.Kubectl(t.Context(), "exec", "writer", "--", "cat", "/data/log")
		if err != nil {
			return err.Error()
		}
		if got != "written\nwritten\n" {
			return got
		}
		return ""
	})
}

func testReplace(t *testing.T, c *Cluster) {
	n := nodeOf(t, c)
	if err := errors.Join(n.Replace(t.Context()), n.WaitReady(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := n.MustRun(t, "lvs", "--noheadings"); strings.TrimSpace(got) != "" {
		t.Errorf("new disks have volumes: %s", got)
	}
	if got := n.MustRun(t, "vgs", "--noheadings", "-o", "vg_name"); strings.TrimSpace(got) != "vg-ssd" {
		t.Errorf("volume groups %q", got)
	}
}
