package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
	"github.com/csi-local/csi-local/test/testbed"
)

// maxVolumes is the manifests' --max-volumes; LVM takes more volumes here than that.
const maxVolumes = 256

// testLimits changes what a node has and how many volumes it takes, and looks at what it
// says and at who is woken.
func testLimits(t *testing.T, b bed) {
	n, other := b.Nodes()[0], b.Nodes()[1]
	args := b.driverArgs(t)
	b.renewDriver(t, append(slices.Clone(args), "--max-volumes=2", "--lvm-refresh-interval=5s"), func() { testNoDriver(t, b) })
	b.wantReady(t, "early")
	b.kubectl(t, "delete", "pod,persistentvolumeclaim", "early")
	b.wantCount(t, n, 2, 2)
	b.wantCount(t, other, 2, 2)

	testMoreRoom(t, b)
	b.apply(t, claim("one", class, 8*mib), claim("two", class, 8*mib), claim("three", class, 8*mib),
		pod("full", forever, map[string]string{"one": ofClaim("one"), "two": ofClaim("two")}))
	b.wantReady(t, "full")
	if at := b.nodeOf(t, "full"); at != other {
		t.Errorf("two more volumes are on %s, whose slots are taken", at.Name())
	}
	b.apply(t, pod("slotless", forever, map[string]string{"three": ofClaim("three")}))
	b.wantEvent(t, "slotless", "FailedScheduling", "max volume count")
	b.renewDriver(t, args, func() {})
	b.wantReady(t, "slotless")
	// The added disk holds little metadata, and so bounds how many volumes there can be.
	b.wantCount(t, n, 2, maxVolumes-1)
	b.wantCount(t, other, maxVolumes, maxVolumes)
	b.kubectl(t, "delete", "pod,persistentvolumeclaim", "--all")
	b.wantNoVolumes(t)
	b.wantBooks(t, 0)
	testByHand(t, b)
}

// testNoDriver has a pod with a volume while no driver runs.
func testNoDriver(t *testing.T, b bed) {
	b.apply(t, claim("early", class, 8*mib), pod("early", forever, map[string]string{"data": ofClaim("early")}))
	b.wantEvent(t, "early", "FailedScheduling", "driver")
}

// testMoreRoom has a pod with two generic ephemeral volumes. Each would fit on any node,
// both of them do on none (kubernetes/kubernetes#124907), until one node gets another disk.
func testMoreRoom(t *testing.T, b bed) {
	n := b.Nodes()[0]
	before, version := b.published(t, n), b.csiNode(t, n).ResourceVersion
	half := ephemeral((before + 512*mib) / 2 / installed.ExtentBytes * installed.ExtentBytes)
	b.apply(t, pod("large", forever, map[string]string{"one": half, "two": half}))
	b.wantEvent(t, "large", pool, "requested", "left of")
	n.MustRun(t, "vgextend", "--dataalignment", "64k", "--metadatasize", "32k", group, n.Disk(1))
	b.wantReady(t, "large")
	if at := b.nodeOf(t, "large"); at != n {
		t.Errorf("the pod is on %s, and the disk was added to %s", at.Name(), n.Name())
	}
	if grown := b.published(t, n); grown <= before {
		t.Errorf("%d bytes were published before vgextend, %d after", before, grown)
	}
	// kubelet has asked for the number meanwhile, and writes the CSINode, too.
	if now := b.csiNode(t, n).ResourceVersion; now != version {
		t.Errorf("the CSINode was written, though the number of volumes is the same")
	}
}

// testByHand takes the disk away again, and uses some of what is left without csi-local.
func testByHand(t *testing.T, b bed) {
	n := b.Nodes()[0]
	before := b.published(t, b.Nodes()[1]) // with the disk the nodes differ
	n.MustRun(t, "vgreduce", group, n.Disk(1))
	n.MustRun(t, "vgchange", "-l", "4", group)
	n.MustRun(t, "lvcreate", "-y", "-an", "-Zn", "-n", "foreign", "-L", "512m", group)
	// To make a volume is to look at LVM, which else is done once a minute.
	b.apply(t, claim("look", class, 8*mib), pod("look", forever, map[string]string{"data": ofClaim("look")}, on(n)))
	b.wantReady(t, "look")
	b.wantPublished(t, before-512*mib)
	b.wantCount(t, n, 3, 3)
	n.MustRun(t, "lvremove", "-y", group+"/foreign")
	n.MustRun(t, "vgchange", "-l", "0", group)
	b.kubectl(t, "delete", "pod,persistentvolumeclaim", "look")
	b.wantCount(t, n, maxVolumes, maxVolumes)
	b.wantPublished(t, before)
}

// wantPublished waits for what node-1 says.
func (b bed) wantPublished(t *testing.T, want int64) {
	t.Helper()
	testbed.Eventually(t, patience, "what the node publishes", func() string {
		if got := b.published(t, b.Nodes()[0]); got != want {
			return fmt.Sprintf("%d bytes, want %d", got, want)
		}
		return ""
	})
}

// wantCount waits until the node promises at least least and at most most volumes.
func (b bed) wantCount(t *testing.T, n *cluster.Node, least, most int32) {
	t.Helper()
	testbed.Eventually(t, patience, "volumes of "+n.Name(), func() string {
		if got := b.allocatable(t, n); got < least || got > most {
			return fmt.Sprintf("it takes %d volumes, want %d to %d", got, least, most)
		}
		return ""
	})
}

// driverArgs are those of the driver on the nodes.
func (b bed) driverArgs(t *testing.T) (args []string) {
	t.Helper()
	text := b.Must(t, "-n", "kube-system", "get", "daemonset", "csi-local-node", "-o", `jsonpath={.spec.template.spec.containers[?(@.name=="csi-local")].args}`)
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		t.Fatal(err)
	}
	return args
}

// renewDriver takes the driver from all nodes, and brings it back with other arguments
// when gone has returned. It is quicker than an update, which goes from node to node.
func (b bed) renewDriver(t *testing.T, args []string, gone func()) {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	patch := func(os, more string) {
		b.system(t, "patch", "daemonset", "csi-local-node", "--patch",
			fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/os":%q}%s}}}}`, os, more))
	}
	patch("none", "")
	for _, n := range b.Nodes() {
		b.wantCount(t, n, -1, -1)
	}
	gone()
	patch("linux", fmt.Sprintf(`,"containers":[{"name":"csi-local","args":%s}]`, text))
	b.wantRolledOut(t, "daemonset/csi-local-node")
}
