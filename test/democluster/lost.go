package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
)

// powerCut ends a node under its pods, and sees that nothing is deleted.
func (d *demo) powerCut(ctx context.Context) error {
	d.lost = d.c.Nodes()[1]
	d.moved = "db-1"
	if n, err := d.nodeOf(ctx, d.moved); err != nil {
		return err
	} else if n != d.lost {
		d.moved = "db-0"
	}
	began := time.Now()
	here := "nodeSelector: {kubernetes.io/hostname: " + d.lost.Name() + "}"
	if err := d.apply(ctx, "report.yaml", claimAndPod("report", 32*mib, here)+"---"+claimAndPod("scratch", 32*mib, here)); err != nil {
		return err
	}
	if err := d.ready(ctx, began, "report", "scratch"); err != nil {
		return err
	}
	if err := d.lost.PowerCut(); err != nil {
		return err
	}
	began = time.Now()
	d.p.Line("    %s is switched off", d.lost.Name())
	err := installed.Until(ctx, patience, "the node's condition", func(ctx context.Context) (string, error) {
		node, err := d.c.Client().CoreV1().Nodes().Get(ctx, d.lost.Name(), metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
				return "", nil
			}
		}
		return "is Ready", nil
	})
	if err != nil {
		return err
	}
	d.p.Timed("    the cluster has noticed", time.Since(began))
	if _, err := d.print(ctx, "get", "nodes"); err != nil {
		return err
	}
	long := 2 * lostDelay
	if err := d.nothingDeleted(ctx, long); err != nil {
		return err
	}
	d.p.Note("Nobody deletes anything because a node is silent: its data may come back. Seen for %v:", long)
	_, err = d.print(ctx, "get", "pvc")
	return err
}

func (d *demo) nothingDeleted(ctx context.Context, long time.Duration) error {
	end := time.NewTimer(long)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		if err := d.wantClaims(ctx, 4); err != nil {
			return err
		}
		select {
		case <-end.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// giveUp deletes the Node. What its user had deleted goes, what may be made anew starts on
// the other node, and the rest is kept and spoken of.
func (d *demo) giveUp(ctx context.Context) error {
	scratch, err := d.c.Client().CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "scratch", metav1.GetOptions{})
	if err != nil {
		return err
	}
	d.p.Note("A user does not need one of them any more:")
	if _, err := d.kubectl(ctx, "delete", "pod", "scratch", "--force"); err != nil {
		return err
	}
	if _, err := d.kubectl(ctx, "delete", "pvc", "scratch", "--wait=false"); err != nil {
		return err
	}
	d.p.Note("An administrator decides that the machine is gone:")
	began := time.Now()
	if _, err := d.kubectl(ctx, "delete", "node", d.lost.Name()); err != nil {
		return err
	}
	err = installed.Until(ctx, patience, "the volume that the user has deleted", func(ctx context.Context) (string, error) {
		_, err := d.c.Client().CoreV1().PersistentVolumes().Get(ctx, scratch.Spec.VolumeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "is there", err
	})
	if err != nil {
		return err
	}
	d.p.Timed("    scratch: deleted by its user, and gone", time.Since(began))
	if err := d.keptIsSpokenOf(ctx, began); err != nil {
		return err
	}
	if err := d.startsElsewhere(ctx, began); err != nil {
		return err
	}
	if _, err := d.print(ctx, "get", "pods,pvc"); err != nil {
		return err
	}
	return d.status(ctx)
}

func (d *demo) keptIsSpokenOf(ctx context.Context, began time.Time) error {
	var message string
	err := installed.Until(ctx, patience, "the event", func(ctx context.Context) (string, error) {
		messages, err := d.events(ctx, "report", "VolumeOnLostNode")
		if err != nil || len(messages) == 0 {
			return "there is none", err
		}
		message = messages[0]
		return "", nil
	})
	if err != nil {
		return err
	}
	claim, err := d.c.Client().CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "report", metav1.GetOptions{})
	if err == nil && claim.DeletionTimestamp != nil {
		err = errors.New("the claim report is deleted, and nobody has said so")
	}
	d.p.Timed("    report: its class does not say that it may be made anew; it is kept", time.Since(began))
	d.p.Message(message)
	return err
}

func (d *demo) startsElsewhere(ctx context.Context, began time.Time) error {
	err := installed.Until(ctx, patience, "the claim of "+d.moved, func(ctx context.Context) (string, error) {
		claim, err := d.c.Client().CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "data-"+d.moved, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil || claim.CreationTimestamp.After(began) {
			return "", err
		}
		return "is there", nil
	})
	if err != nil {
		return err
	}
	d.p.Timed(fmt.Sprintf("    %s: its claim is deleted, as its class says", d.moved), time.Since(began))
	d.p.Note("Its StatefulSet looks again within five minutes; this is quicker:")
	if _, err := d.kubectl(ctx, "delete", "pod", d.moved, "--ignore-not-found"); err != nil {
		return err
	}
	if err := d.ready(ctx, began, d.moved); err != nil {
		return err
	}
	n, err := d.nodeOf(ctx, d.moved)
	if err == nil && n == d.lost {
		err = fmt.Errorf("%s is on %s", d.moved, n.Name())
	}
	return err
}

// uninstall is what docs/install.md says, and looks for what it leaves.
func (d *demo) uninstall(ctx context.Context) error {
	n := d.c.Nodes()[0]
	if err := d.deleteAll(ctx, n); err != nil {
		return err
	}
	if _, err := d.host(ctx, "helm", d.helm, "uninstall", "csi-local", "--namespace", "kube-system"); err != nil {
		return err
	}
	for _, args := range [][]string{
		// A driver that still ends would publish again what is removed next.
		{"-n", "kube-system", "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=csi-local", "--timeout=" + patience.String()},
		{"annotate", "nodes", "--all", "csi.volume.kubernetes.io/" + installed.Driver + "-", installed.Driver + "/capacity-report-"},
		{"label", "nodes", "--all", installed.Driver + "/node-"},
		{"-n", "kube-system", "delete", "leases", "csi-local-controller-" + installed.Driver, "external-resizer-kubernetes-io-csi-local", installed.Scheduler},
	} {
		if _, err := d.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	err := installed.Until(ctx, patience, "what is left", func(ctx context.Context) (string, error) {
		// Of a Node not its status, which lists the images that it still has.
		nodes, err := d.c.Kubectl(ctx, "get", "nodes", "-o", "jsonpath={.items[*].metadata}")
		if err != nil {
			return "", err
		}
		rest, err := d.c.Kubectl(ctx, "get", "-A", "-o", "yaml",
			"csinodes,csidrivers,storageclasses,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,configmaps,leases,"+
				"priorityclasses,validatingadmissionpolicies,validatingadmissionpolicybindings,customresourcedefinitions,pods,persistentvolumes")
		for line := range strings.Lines(nodes + "\n" + rest) {
			if strings.Contains(line, installed.Driver) || strings.Contains(line, "csi-local") {
				return strings.TrimSpace(line), err
			}
		}
		return "", err
	})
	if err != nil {
		return err
	}
	d.p.Note("Nothing in the cluster names it any more. The volume group is its owner's:")
	return d.onNode(ctx, n, "vgs", "--units", "m", "-o", "vg_name,lv_count,vg_size,vg_free", installed.VolumeGroup)
}

// deleteAll returns when the last volume is gone, on the disks and in the cluster.
func (d *demo) deleteAll(ctx context.Context, n *cluster.Node) error {
	for _, args := range [][]string{
		{"delete", "statefulset", "db"},
		{"delete", "pod,pvc", "--all", "--wait=false"},
		{"delete", "storageclass", "local-rebuilt"},
	} {
		if _, err := d.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return installed.Until(ctx, patience, "no volumes", func(ctx context.Context) (string, error) {
		left, err := d.c.Kubectl(ctx, "get", "pv,pvc", "-o", "name")
		if err != nil || left != "" {
			return left, err
		}
		volumes, err := installed.LogicalVolumes(ctx, n)
		if len(volumes) > 0 {
			return fmt.Sprintf("%s has %v", n.Name(), volumes), err
		}
		return "", err
	})
}

// linger waits until it is interrupted.
func (d *demo) linger(ctx context.Context) error {
	d.p.Line("    until Ctrl-C. From another terminal, as root:\n")
	d.p.Line("    nsenter --net=/proc/%d/ns/net %s --kubeconfig %s get pods -A\n", os.Getpid(), d.c.KubectlPath(), d.c.Kubeconfig())
	<-ctx.Done()
	return nil
}

func (d *demo) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.c.Stop() }()
	select {
	case err := <-ended:
		d.c = nil
		return err
	case <-ctx.Done():
		return fmt.Errorf("the cluster does not end: %w", ctx.Err())
	}
}
