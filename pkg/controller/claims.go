package controller

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
)

const (
	stepClearSelectedNode     = "clear_selected_node"
	reasonSelectedNodeCleared = "SelectedNodeCleared"
)

// reconcileClaim looks at one claim that waits for a volume of the driver: it
// says why it waits for ever, and takes back the choice of a node that is lost.
// It returns when to look again, 0 for when something changes.
func (c *Controller) reconcileClaim(ctx context.Context, key string) (time.Duration, error) {
	claim := cached[v1.PersistentVolumeClaim](c.claims, key)
	if claim == nil || !pending(claim) {
		c.metrics.claim(key, nil)
		return 0, nil
	}
	class := c.classNamed(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if class == nil || len(indexed[v1.PersistentVolume](c.volumes, byClaim, string(claim.UID))) > 0 {
		c.metrics.claim(key, nil) // another driver's, or about to be bound
		return 0, nil
	}
	found := hopeless(claim, class, c.nodes)
	missing, isLost, again := c.selectedNodeMissing(claim)
	if missing != nil {
		found = append(found, *missing)
	}
	reasons := make([]string, 0, len(found))
	for _, f := range found {
		reasons = append(reasons, f.reason)
	}
	c.metrics.claim(key, reasons)
	toldAgain, err := c.tellHopeless(ctx, claim, found)
	if err != nil {
		return 0, err
	}
	if isLost {
		if again, err = c.clearSelectedNode(ctx, claim); err != nil {
			return 0, err
		}
	}
	return earlier(again, toldAgain), nil
}

// earlier returns the sooner of two times to look again; 0 is never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// selectedNodeMissing looks after the node that the scheduler has chosen. Only the
// provisioner of that node makes the volume or gives the choice back, so with the
// node gone nobody does.
func (c *Controller) selectedNodeMissing(claim *v1.PersistentVolumeClaim) (found *finding, isLost bool, again time.Duration) {
	node := selectedNode(claim)
	if node == "" {
		return nil, false, 0
	}
	_, isLost, again = c.lost(node)
	if !isLost && again == 0 {
		return nil, false, 0
	}
	return &finding{reason: ReasonSelectedNodeGone, message: fmt.Sprintf(
		"The scheduler has chosen node %s for the volume, and there is no such node any more. After it has been missing for %v the choice is "+
			"taken back, so that the scheduler chooses again. To do it now: kubectl annotate pvc -n %s %s %s-",
		node, c.settings.LostNodeDelay, claim.Namespace, claim.Name, storagehelpers.AnnSelectedNode)}, isLost, again
}

// tellHopeless makes the events that are due, if the API server agrees that the
// claim still waits.
func (c *Controller) tellHopeless(ctx context.Context, claim *v1.PersistentVolumeClaim, found []finding) (time.Duration, error) {
	if len(found) == 0 {
		return 0, nil
	}
	now := c.clock.Now()
	if wait := c.settings.ClaimGrace - now.Sub(claim.CreationTimestamp.Time); wait > 0 {
		return min(wait, c.settings.ClaimGrace), nil
	}
	var due []finding
	for _, f := range found {
		if c.notices.due(claim.UID, f.reason, now) {
			due = append(due, f)
		}
	}
	if len(due) == 0 {
		return c.settings.EventInterval, nil
	}
	live, waits, err := c.stillPending(ctx, claim)
	if err != nil || !waits {
		return 0, err
	}
	for _, f := range due {
		c.notices.say(live, live.UID, v1.EventTypeWarning, f.reason, f.message, now)
		klog.FromContext(ctx).V(2).Info("The claim can get no volume", "claim", klog.KObj(claim), "reason", f.reason)
	}
	return c.settings.EventInterval, nil
}

// stillPending reads the claim again. One that has changed comes back by its event.
func (c *Controller) stillPending(ctx context.Context, claim *v1.PersistentVolumeClaim) (live *v1.PersistentVolumeClaim, waits bool, err error) {
	live, err = c.reader.Claim(ctx, claim.Namespace, claim.Name)
	if err != nil {
		return nil, false, missingIsFine(err)
	}
	return live, live.UID == claim.UID && pending(live), nil
}

// clearSelectedNode takes back the choice of a lost node. No data is at stake: it
// is done only while there is no PersistentVolume for the claim.
func (c *Controller) clearSelectedNode(ctx context.Context, claim *v1.PersistentVolumeClaim) (time.Duration, error) {
	node := selectedNode(claim)
	logger := klog.FromContext(ctx).WithValues("step", stepClearSelectedNode, "claim", klog.KObj(claim), "node", node)
	now := c.clock.Now()
	if l := c.countLosses(); l.brake() {
		c.metrics.step(stepClearSelectedNode, resultBrake)
		c.notices.say(claim, claim.UID, v1.EventTypeWarning, reasonBrake, fmt.Sprintf("The choice of missing node %s is not taken back: %v", node, l), now)
		return brakeRecheck, nil
	}
	live, confirmed, err := c.confirmSelectedNode(ctx, claim, node)
	if err != nil {
		c.metrics.step(stepClearSelectedNode, resultError)
		return 0, fmt.Errorf("confirming that node %s of claim %s is lost: %w", node, klog.KObj(claim), err)
	}
	if !confirmed {
		return brakeRecheck, nil
	}
	message := fmt.Sprintf("Node %s is gone, and there is no PersistentVolume yet: the choice of the node is taken back, so that the scheduler chooses again", node)
	if c.settings.DryRun {
		logger.Info("Dry run: the step is left out")
		c.metrics.step(stepClearSelectedNode, resultDryRun)
		c.notices.say(live, live.UID, v1.EventTypeNormal, reasonSelectedNodeCleared, "Dry run, nothing is changed. Otherwise: "+message, now)
		return c.settings.EventInterval, nil
	}
	if err := missingIsFine(c.writer.ClearSelectedNode(ctx, live)); err != nil {
		return 0, c.failed(stepClearSelectedNode, fmt.Errorf("taking back node %s of claim %s: %w", node, klog.KObj(claim), err))
	}
	logger.Info("The step is made")
	c.metrics.step(stepClearSelectedNode, resultDone)
	c.notices.say(live, live.UID, v1.EventTypeNormal, reasonSelectedNodeCleared, message, now)
	return 0, nil
}

// volumeNamePrefix is the provisioner's default (--volume-name-prefix).
const volumeNamePrefix = "pvc-"

func (c *Controller) confirmSelectedNode(ctx context.Context, claim *v1.PersistentVolumeClaim, node string) (live *v1.PersistentVolumeClaim, confirmed bool, err error) {
	live, waits, err := c.stillPending(ctx, claim)
	if err != nil || !waits || selectedNode(live) != node {
		return live, false, err
	}
	// The provisioner may have made it a moment ago, before the node went.
	exists, err := c.volumeExists(ctx, live.UID)
	if err != nil || exists {
		return live, false, err
	}
	gone, err := c.reader.NodeGone(ctx, node)
	return live, gone, err
}

func (c *Controller) volumeExists(ctx context.Context, claim types.UID) (bool, error) {
	_, err := c.reader.Volume(ctx, volumeNamePrefix+string(claim))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
