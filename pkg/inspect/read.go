package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// reading is a snapshot in the making.
type reading struct {
	asker *asker
	s     *Snapshot
}

// Read takes a snapshot of what concerns the driver, with at most maxRequests
// requests. It fails if anything could not be read, and says all of what: what is
// concluded from half the objects would be wrong.
func Read(ctx context.Context, api API, driverName string, maxRequests int) (*Snapshot, error) {
	r := &reading{asker: &asker{api: api, remaining: maxRequests}, s: &Snapshot{Driver: driverName}}
	if err := r.asker.count(); err != nil {
		return nil, err
	}
	var err error
	if r.s.ServerVersion, err = api.ServerVersion(ctx); err != nil {
		return nil, fmt.Errorf("version: %w", err) // nobody answers, so all else would fail alike
	}
	err = errors.Join(r.readInstall(ctx), r.readNodes(ctx), r.readClasses(ctx), r.readVolumes(ctx), r.readPods(ctx), r.readPolicies(ctx))
	if err != nil {
		return nil, err
	}
	r.s.Requests, r.s.TakenAt = r.asker.asked, api.Now()
	r.s.sort()
	r.s.Install.findDriverPods()
	return r.s, nil
}

func (r *reading) readNodes(ctx context.Context) error {
	at, where := map[string]int{}, publishSelector(r.s.Install.DaemonSet)
	err := each(ctx, r.asker, selection{kind: Nodes}, func(n *v1.Node) {
		at[n.Name] = len(r.s.Nodes)
		r.s.Nodes = append(r.s.Nodes, newNode(r.s.Driver, where, n))
	})
	if err != nil {
		return err
	}
	err = each(ctx, r.asker, selection{kind: CSINodes}, func(c *storagev1.CSINode) {
		if i, ok := at[c.Name]; ok {
			r.s.Nodes[i].register(r.s.Driver, c)
		}
	})
	if err != nil {
		return err
	}
	ours := selection{kind: Events, namespace: metav1.NamespaceDefault, fields: "involvedObject.kind=Node,source=csi-local"}
	return each(ctx, r.asker, ours, func(e *v1.Event) { r.s.Events = append(r.s.Events, *e) })
}

func (r *reading) readClasses(ctx context.Context) (err error) {
	if r.s.CSIDriver, err = one[storagev1.CSIDriver](ctx, r.asker, CSIDrivers, "", r.s.Driver); err != nil {
		return err
	}
	return each(ctx, r.asker, selection{kind: StorageClasses}, func(c *storagev1.StorageClass) {
		if c.Provisioner == r.s.Driver {
			r.s.Classes = append(r.s.Classes, *c)
		}
	})
}

// readVolumes needs the classes.
func (r *reading) readVolumes(ctx context.Context) error {
	names := map[string]bool{}
	err := each(ctx, r.asker, selection{kind: Volumes}, func(v *v1.PersistentVolume) {
		if v.Spec.CSI != nil && v.Spec.CSI.Driver == r.s.Driver {
			names[v.Name] = true
			v.ManagedFields = nil
			r.s.Volumes = append(r.s.Volumes, *v)
		}
	})
	if err != nil {
		return err
	}
	err = each(ctx, r.asker, selection{kind: Claims}, func(c *v1.PersistentVolumeClaim) {
		unbound := c.Spec.VolumeName == ""
		if names[c.Spec.VolumeName] || r.asksUs(c) && (unbound || c.Status.Phase == v1.ClaimLost) {
			c.ManagedFields = nil
			r.s.Claims = append(r.s.Claims, *c)
		}
	})
	if err != nil {
		return err
	}
	return each(ctx, r.asker, selection{kind: Attachments}, func(a *storagev1.VolumeAttachment) {
		if a.Spec.Attacher == r.s.Driver {
			r.s.Attachments = append(r.s.Attachments, *a)
		}
	})
}

// asksUs tells a claim of a class of the driver's, or one whose class is gone and
// for which the driver was asked.
func (r *reading) asksUs(c *v1.PersistentVolumeClaim) bool {
	if r.s.Class(storagehelpers.GetPersistentVolumeClaimClass(c)) != nil {
		return true
	}
	return c.Annotations[storagehelpers.AnnStorageProvisioner] == r.s.Driver || c.Annotations[storagehelpers.AnnBetaStorageProvisioner] == r.s.Driver
}

// readPods needs the claims.
func (r *reading) readPods(ctx context.Context) error {
	claims := map[string]bool{}
	for i := range r.s.Claims {
		claims[r.s.Claims[i].Namespace+"/"+r.s.Claims[i].Name] = true
	}
	return each(ctx, r.asker, selection{kind: Pods}, func(p *v1.Pod) {
		uses := slices.ContainsFunc(claimsOf(p), func(claim string) bool { return claims[claim] })
		if finished := p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed; !finished && (uses || len(r.s.Inline(p)) > 0) {
			p.ManagedFields = nil
			r.s.Pods = append(r.s.Pods, *p)
		}
	})
}

func (r *reading) readPolicies(ctx context.Context) error {
	ours := installed
	if release := r.s.Install.Release; release != "" {
		ours += "," + labelInstance + "=" + release
	}
	return errors.Join(
		each(ctx, r.asker, selection{kind: Policies, label: ours}, func(p *admissionv1.ValidatingAdmissionPolicy) {
			r.s.Policies = append(r.s.Policies, *p)
		}),
		each(ctx, r.asker, selection{kind: PolicyBindings, label: ours}, func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
			r.s.Bindings = append(r.s.Bindings, *b)
		}),
	)
}
