package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
)

// step is one step of the demo. do fails if anything is not as it should be.
type step struct {
	title string
	do    func(d *demo, ctx context.Context) error
	// waits tells that it takes as long as its reader likes.
	waits bool
}

// steps are all in their order. keep leaves out those that remove what was made.
func steps(keep bool) []step {
	all := []step{
		{title: "A control plane and two nodes", do: (*demo).start},
		{title: "Helm installs csi-local", do: (*demo).install},
		{title: "What each node says it has", do: (*demo).look},
		{title: "A StatefulSet of two, each with a volume", do: (*demo).statefulSet},
		{title: "A pod is deleted: its data is there when it is back", do: (*demo).restart},
		{title: "A storm of pods, whose volumes fill both nodes", do: (*demo).storm},
		{title: "One pod too many waits, and says for what", do: (*demo).tooMany},
		{title: "A volume group grows, while somebody watches", do: (*demo).grow},
		{title: "The storm is over: its space is free again", do: (*demo).calm},
		{title: "A node loses its power", do: (*demo).powerCut},
		{title: "The node is given up", do: (*demo).giveUp},
	}
	if keep {
		return append(all, step{title: "Everything is left as it is", do: (*demo).linger, waits: true}, step{title: "The cluster is removed", do: (*demo).remove})
	}
	return append(all, step{title: "csi-local is uninstalled", do: (*demo).uninstall}, step{title: "The cluster is removed", do: (*demo).remove})
}

const (
	stormPerNode = 8
	// lostDelay is what the controller waits here; a quarter of an hour is its default.
	lostDelay = 20 * time.Second
	// maxVolumes is more than LVM's usual metadata area has room for.
	maxVolumes = 1000
	dbBytes    = 64 * mib
)

func (d *demo) start(ctx context.Context) error {
	began := time.Now()
	var err error
	d.c, err = cluster.Start(ctx, cluster.Options{
		Nodes: 2,
		Disks: []cluster.Disk{{SizeBytes: 1024 * mib, VolumeGroup: installed.VolumeGroup}, {SizeBytes: 512 * mib}},
		// A node that is silent is NotReady after 40 s in a usual cluster.
		ManagerFlags: []string{"--node-monitor-grace-period=20s"},
	})
	if err != nil {
		return err
	}
	d.p.Timed("    both nodes Ready", time.Since(began))
	if _, err := d.print(ctx, "get", "nodes"); err != nil {
		return err
	}
	// What docs/install.md asks of an administrator was done at the first boot.
	n := d.c.Nodes()[0]
	return d.onNode(ctx, n, "vgs", "--units", "m", "-o", "vg_name,vg_size,vg_free", installed.VolumeGroup)
}

func (d *demo) install(ctx context.Context) error {
	text, err := d.host(ctx, "helm", d.helm, "install", "csi-local", "deploy/chart/csi-local", "--namespace", "kube-system",
		"--set-json", `pools=[{"name":"pool-ssd","volumeGroup":"vg-ssd","type":"thick"}]`,
		"--set-json", `storageClasses=[{"name":"local-dynamic-ssd","parameters":{"pool":"pool-ssd"}}]`,
		"--set", fmt.Sprintf("node.maxVolumes=%d", maxVolumes),
		"--set-json", fmt.Sprintf(`controller.extraArgs=["--lost-node-delay=%s"]`, lostDelay))
	if err != nil {
		return err
	}
	if !strings.Contains(text, "STATUS: deployed") {
		return fmt.Errorf("helm says\n%s", text)
	}
	for _, what := range installed.Parts() {
		if _, err := d.kubectl(ctx, "-n", installed.Namespace, "rollout", "status", what, "--timeout="+patience.String()); err != nil {
			return err
		}
	}
	if _, err := d.print(ctx, "-n", "kube-system", "get", "pods"); err != nil {
		return err
	}
	text, err = d.print(ctx, "get", "storageclasses")
	if err == nil && !strings.Contains(text, "local-dynamic-ssd") {
		err = errors.New("there is no StorageClass local-dynamic-ssd")
	}
	return err
}

// look shows what the scheduler counts by.
func (d *demo) look(ctx context.Context) error {
	err := installed.Until(ctx, patience, "what the nodes publish", func(ctx context.Context) (string, error) {
		for _, n := range d.c.Nodes() {
			bytes, err := installed.PublishedBytes(ctx, d.c, n)
			if err != nil || bytes == 0 {
				return n.Name() + " publishes nothing", err
			}
			if count, err := installed.VolumeCount(ctx, d.c, n); err != nil || count != maxVolumes {
				return fmt.Sprintf("%s allows %d volumes, not %d", n.Name(), count, maxVolumes), err
			}
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	d.p.Note("Bytes that volumes of each pool may take, in an annotation of the Node:")
	if _, err := d.print(ctx, "get", "nodes", "-o", annotationColumns); err != nil {
		return err
	}
	d.p.Note("The number of volumes, in the CSINode:")
	if _, err := d.print(ctx, "get", "csinodes", "-o", countColumns); err != nil {
		return err
	}
	return d.status(ctx)
}

const (
	annotationColumns = `custom-columns=NAME:.metadata.name,POOLS:.metadata.annotations.csi\.volume\.kubernetes\.io/kubernetes\.io\.csi\.local`
	countColumns      = `custom-columns=NAME:.metadata.name,DRIVER:.spec.drivers[*].name,VOLUMES:.spec.drivers[*].allocatable.count`
)

// status is the command that people look with.
func (d *demo) status(ctx context.Context) error {
	text, err := d.host(ctx, "csi-local", d.csiLocal, "status")
	if err != nil {
		return err
	}
	d.output(text)
	for _, word := range []string{installed.Pool, d.c.Nodes()[0].Name()} {
		if !strings.Contains(text, word) {
			return fmt.Errorf("csi-local status does not name %s", word)
		}
	}
	return nil
}

func (d *demo) statefulSet(ctx context.Context) error {
	d.p.Note("Its class says that its data may be made anew when a node is lost:")
	d.output(strings.TrimSpace(rebuiltClass))
	began := time.Now()
	if err := d.apply(ctx, "db.yaml", rebuiltClass+"---"+statefulSet()); err != nil {
		return err
	}
	if err := d.ready(ctx, began, "db-0", "db-1"); err != nil {
		return err
	}
	if _, err := d.print(ctx, "get", "pods", "-o", "wide"); err != nil {
		return err
	}
	first, err := d.nodeOf(ctx, "db-0")
	if err != nil {
		return err
	}
	second, err := d.nodeOf(ctx, "db-1")
	if err == nil && first == second {
		err = fmt.Errorf("both pods are on %s", first.Name())
	}
	return err
}

func (d *demo) nodeOf(ctx context.Context, pod string) (*cluster.Node, error) {
	object, err := d.c.Client().CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range d.c.Nodes() {
		if n.Name() == object.Spec.NodeName {
			return n, nil
		}
	}
	return nil, fmt.Errorf("pod %s is on node %q", pod, object.Spec.NodeName)
}

// restart makes a pod anew, which reads what the one before has written.
func (d *demo) restart(ctx context.Context) error {
	read := []string{"exec", "db-0", "--", "cat", "/data/log"}
	before, err := d.print(ctx, read...)
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := d.kubectl(ctx, "delete", "pod", "db-0"); err != nil {
		return err
	}
	if err := d.ready(ctx, began, "db-0"); err != nil {
		return err
	}
	err = installed.Until(ctx, patience, "both pods' lines", func(ctx context.Context) (string, error) {
		after, err := d.c.Kubectl(ctx, read...)
		if before == "" || after != before+before {
			return fmt.Sprintf("the volume held %q and holds %q", before, after), err
		}
		return "", err
	})
	if err == nil {
		_, err = d.print(ctx, read...)
	}
	return err
}

// wantClaims checks what there is of claims and their volumes.
func (d *demo) wantClaims(ctx context.Context, bound int) error {
	claims, err := d.c.Client().CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	volumes, err := d.c.Client().CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	claimed := slices.DeleteFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
		return c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil
	})
	held := slices.DeleteFunc(volumes.Items, func(v corev1.PersistentVolume) bool {
		return v.Status.Phase != corev1.VolumeBound || v.DeletionTimestamp != nil
	})
	if len(claimed) != bound || len(held) != bound {
		return fmt.Errorf("%d claims and %d PersistentVolumes are Bound, want %d", len(claimed), len(held), bound)
	}
	return nil
}
