package controller

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/controller"
)

const selectedNode = "volume.kubernetes.io/selected-node"

// One cluster and one story, because a cluster takes seconds to come up: a node
// breaks, is lost, and others follow it.
func TestController(t *testing.T) {
	b := newBed(t)
	for _, node := range []string{"n1", "n2", "n3", "n4"} {
		b.addNode(node)
	}
	b.addClass("ssd", driver, nil)
	b.addClass("elsewhere", driver, optIn)
	b.addClass("others", otherDriver, optIn)
	p := b.start()
	p.metric("csi_local_controller_leader 1")
	p.metric("csi_local_controller_known_nodes 4")

	b.addHopeless() // they get their events when they are some seconds old
	for _, chapter := range []struct {
		name  string
		check func(*bed, *process)
	}{
		{"the fence", (*bed).checkFence},
		{"selected node that is gone", (*bed).checkSelectedNode},
		{"lost node", (*bed).checkLostNode},
		{"hopeless claims", (*bed).checkHopeless},
		{"too many nodes", (*bed).checkBrake},
		{"several processes", (*bed).checkElection},
	} {
		if !t.Run(chapter.name, func(t *testing.T) { chapter.check(b.in(t), p) }) {
			break // the next begins where this should have ended
		}
	}
}

// in is the bed for a subtest.
func (b *bed) in(t *testing.T) *bed {
	copied := *b
	copied.t = t
	return &copied
}

func (b *bed) addHopeless() {
	b.t.Helper()
	immediate := storagev1.VolumeBindingImmediate
	b.addClass("immediate", driver, func(c *storagev1.StorageClass) { c.VolumeBindingMode = &immediate })
	b.addClass("misspelt", driver, func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"pol": "pool-ssd"} })
	b.addClass("nowhere", driver, func(c *storagev1.StorageClass) { c.Parameters[capacity.ParamPool] = "pool-sd" })
	for _, class := range []string{"immediate", "misspelt", "nowhere", "ssd"} {
		b.addClaim("hopeless-"+class, class, nil)
	}
}

func (b *bed) checkHopeless(p *process) {
	b.event("default", "hopeless-immediate", controller.ReasonImmediateBinding, "WaitForFirstConsumer")
	b.event("default", "hopeless-misspelt", controller.ReasonInvalidParameters, `"pol"`)
	b.event("default", "hopeless-nowhere", controller.ReasonUnknownPool, `pool "pool-sd"`, "(pool-ssd is meant?)")
	p.metric(`csi_local_controller_hopeless_claims{reason="UnknownPool"} 1`)
	b.deleteClaim("hopeless-nowhere")
	p.metric(`csi_local_controller_hopeless_claims{reason="UnknownPool"} 0`)
}

func (b *bed) checkSelectedNode(*process) {
	b.addClaim("waits", "ssd", map[string]string{selectedNode: "n9", "kept": "as it is"})
	b.addClaim("well", "ssd", map[string]string{selectedNode: "n1"})
	b.eventually("the choice is taken back", func() string {
		claim, err := b.claim("waits")
		if err == nil && claim.Annotations[selectedNode] != "" {
			return "it is there"
		}
		if err == nil && claim.Annotations["kept"] == "" {
			b.t.Error("the other annotation is gone, too")
		}
		return complain(err)
	})
	b.event("default", "waits", "SelectedNodeCleared", "Node n9 is gone")
	if claim, err := b.claim("well"); err != nil || claim.Annotations[selectedNode] != "n1" {
		b.t.Errorf("claim %v, error %v", claim.Annotations, err)
	}
}

func (b *bed) checkLostNode(p *process) {
	keeps := b.volumeOn("n1", "keeps", "ssd")
	released := b.volumeOn("n1", "released", "ssd")
	removed := b.volumeOn("n1", "removed", "ssd")
	others := b.volumeOn("n1", "others", "others")
	elsewhere := b.volumeOn("n2", "on-n2", "elsewhere")
	database := b.startDatabase("n1")
	for _, claim := range []string{"released", "removed", "others"} {
		b.deleteClaim(claim)
	}
	for _, volume := range []string{released, removed, others} {
		b.phase(volume, v1.VolumeReleased)
	}
	b.deleteVolume(removed)
	before := b.state()

	b.breakNode("n1")
	b.pass(delay + 2*time.Second)
	if now := b.state(); now != before {
		b.t.Fatalf("a node that is not ready is not lost; before:\n%s\nnow:\n%s", before, now)
	}
	b.removeNode("n1")
	b.volumeGoes(released)
	b.volumeGoes(removed)
	b.event("default", "keeps", "VolumeOnLostNode", "Node n1", keeps)
	p.metric("csi_local_controller_missing_nodes 1")
	b.databaseMoves(database)

	b.phase(keeps, v1.VolumeBound)
	b.phase(others, v1.VolumeReleased)
	b.phase(elsewhere, v1.VolumeBound)
	p.metric(`csi_local_controller_steps_total{result="done",step="delete_claim"} 1`)
	p.metric(`csi_local_controller_steps_total{result="done",step="delete_volume"} 2`)
	p.metric(`csi_local_controller_steps_total{result="done",step="finish_deletion"} 3`)
}

// state is everything that a controller could have done to volumes and claims.
func (b *bed) state() string {
	b.t.Helper()
	volumes, err := b.admin.CoreV1().PersistentVolumes().List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	claims, err := b.admin.CoreV1().PersistentVolumeClaims("").List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var lines []string
	for _, v := range volumes.Items {
		lines = append(lines, fmt.Sprintf("%s %s deleted=%v finalizer=%v", v.Name, v.Status.Phase, v.DeletionTimestamp != nil, slices.Contains(v.Finalizers, finalizer)))
	}
	for _, c := range claims.Items {
		lines = append(lines, fmt.Sprintf("%s deleted=%v %s", c.Name, c.DeletionTimestamp != nil, c.Spec.VolumeName))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// database is a StatefulSet's one claim.
type database struct {
	claim  *v1.PersistentVolumeClaim
	volume string
}

// startDatabase makes a StatefulSet whose pod runs on the node.
func (b *bed) startDatabase(node string) database {
	b.t.Helper()
	labels := map[string]string{"app": "db"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}},
		VolumeClaimTemplates: []v1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimSpec("elsewhere"),
		}},
	}}
	if _, err := b.admin.AppsV1().StatefulSets("default").Create(b.t.Context(), set, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	var d database
	b.eventually("the claim of the StatefulSet", func() string {
		var err error
		d.claim, err = b.claim("data-db-0")
		return complain(err)
	})
	d.volume = b.provision(d.claim, node)
	b.eventually("its pod has a node", func() string {
		binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "db-0"}, Target: v1.ObjectReference{Kind: "Node", Name: node}}
		return complain(b.admin.CoreV1().Pods("default").Bind(b.t.Context(), binding, metav1.CreateOptions{}))
	})
	return d
}

// databaseMoves waits for a claim that is free to go anywhere.
func (b *bed) databaseMoves(before database) {
	b.t.Helper()
	b.eventually("the claim is deleted", func() string {
		claim, err := b.claim("data-db-0")
		if err == nil && claim.DeletionTimestamp == nil {
			return "it is not"
		}
		return complain(err)
	})
	b.event("default", "data-db-0", "LostNodeClaimDeleted", "Node n1", "StorageClass elsewhere says delete-claim")
	// The pod still holds it. The controller manager's pod collector would take
	// the pod away after about a minute; the test does not wait for it.
	if err := b.admin.CoreV1().Pods("default").Delete(b.t.Context(), "db-0", *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
		b.t.Fatal(err)
	}
	b.volumeGoes(before.volume)
	b.eventually("the StatefulSet has a new claim", func() string {
		claim, err := b.claim("data-db-0")
		if err == nil && (claim.UID == before.claim.UID || claim.Spec.VolumeName != "") {
			return "it is the old one"
		}
		return complain(err)
	})
}

// checkBrake loses a second node of four; n1 counts, since the claim "keeps" is there.
func (b *bed) checkBrake(p *process) {
	waits := b.volumeOn("n3", "waits-on-n3", "ssd")
	b.deleteClaim("waits-on-n3")
	b.phase(waits, v1.VolumeReleased)
	b.removeNode("n3")
	b.event("default", waits, "TooManyNodesMissing", "2 of 4 nodes")
	p.metric("csi_local_controller_brake 1")
	b.pass(delay)
	if v, err := b.volume(waits); err != nil || v.DeletionTimestamp != nil {
		b.t.Errorf("volume %v, error %v", v, err)
	}
	b.addNode("n1") // it is back, and so are its volumes
	p.metric("csi_local_controller_brake 0")
}

// checkElection has others wait while one leads, and take over when it goes,
// killed or in peace. What the first had to leave the last finds done.
func (b *bed) checkElection(first *process) {
	second := b.start()
	second.metric("csi_local_controller_leader 0")
	if body, err := second.get("/readyz"); err != nil {
		b.t.Errorf("a process that waits is not ready: %v %s", err, body)
	}
	first.stop(syscall.SIGKILL)
	second.metric("csi_local_controller_leader 1")
	third := b.start()
	third.metric("csi_local_controller_leader 0")
	start := time.Now()
	second.stop(syscall.SIGTERM)
	if code := second.cmd.ProcessState.ExitCode(); code != 0 {
		b.t.Errorf("exit code %d", code)
	}
	third.metric("csi_local_controller_leader 1")
	b.t.Logf("the lease changes hands %v after SIGTERM", time.Since(start).Round(time.Millisecond))
	b.eventually("the volume that the brake held is gone", func() string {
		volumes, err := b.admin.CoreV1().PersistentVolumes().List(b.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		others := 0
		for _, v := range volumes.Items {
			switch {
			case v.Status.Phase != v1.VolumeReleased:
			case v.Spec.CSI.Driver == otherDriver:
				others++
			default:
				return fmt.Sprintf("%s is there, deleted %v", v.Name, v.DeletionTimestamp != nil)
			}
		}
		if others != 1 {
			b.t.Errorf("%d released volumes of another driver, want the one of n1", others)
		}
		return ""
	})
}
