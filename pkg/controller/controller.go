package controller

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/clock"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Names of the caches' indexes.
const (
	byHost     = "host"     // volumes of the driver, by their node
	byClaim    = "claim"    // all volumes, by the UID in their claimRef
	byClass    = "class"    // pending claims, by class
	bySelected = "selected" // pending claims, by selected node
)

// Options are what a controller is made of.
type Options struct {
	DriverName string
	Settings   Settings
	Recorder   Recorder
	Metrics    *Metrics
	// Clock measures delays; nil is the machine's.
	Clock clock.PassiveClock
}

// Controller decides and acts; its caches are filled by [Run] from the API server.
// The two reconcile methods may run at the same time for different objects.
type Controller struct {
	driverName string
	settings   Settings
	reader     Reader
	writer     Writer
	notices    *notices
	metrics    *Metrics
	clock      clock.PassiveClock

	nodes   *nodeBook
	volumes cache.Indexer
	claims  cache.Indexer
	classes cache.Indexer
	// enqueueVolume and enqueueClaim take a cache key that is to be looked at.
	enqueueVolume, enqueueClaim func(key string)
}

// newController makes one that has no caches yet.
func newController(o Options, reader Reader, writer Writer, enqueueVolume, enqueueClaim func(key string)) (*Controller, error) {
	if o.DriverName == "" || o.Recorder == nil || o.Metrics == nil {
		return nil, errors.New("controller: DriverName, Recorder and Metrics are needed")
	}
	if err := o.Settings.Validate(); err != nil {
		return nil, err
	}
	c := &Controller{
		driverName: o.DriverName, settings: o.Settings, reader: reader, writer: writer, metrics: o.Metrics, clock: o.Clock,
		notices: newNotices(o.Recorder, o.Settings.EventInterval), nodes: newNodeBook(o.DriverName),
		enqueueVolume: enqueueVolume, enqueueClaim: enqueueClaim,
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	return c, nil
}

// volumeIndexers index PersistentVolumes.
func (c *Controller) volumeIndexers() cache.Indexers {
	return cache.Indexers{
		byHost: func(object any) ([]string, error) {
			v, ok := object.(*v1.PersistentVolume)
			if !ok || !isOurs(c.driverName, v) {
				return nil, nil
			}
			return nonEmpty(c.hostOf(v)), nil
		},
		byClaim: func(object any) ([]string, error) {
			v, ok := object.(*v1.PersistentVolume)
			if !ok || v.Spec.ClaimRef == nil {
				return nil, nil
			}
			return nonEmpty(string(v.Spec.ClaimRef.UID)), nil
		},
	}
}

// claimIndexers index claims.
func claimIndexers() cache.Indexers {
	ofPending := func(value func(*v1.PersistentVolumeClaim) string) cache.IndexFunc {
		return func(object any) ([]string, error) {
			claim, ok := object.(*v1.PersistentVolumeClaim)
			if !ok || !pending(claim) {
				return nil, nil
			}
			return nonEmpty(value(claim)), nil
		}
	}
	return cache.Indexers{
		byClass:    ofPending(storagehelpers.GetPersistentVolumeClaimClass),
		bySelected: ofPending(selectedNode),
	}
}

func nonEmpty(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

func (c *Controller) hostOf(v *v1.PersistentVolume) string {
	host, _ := capacity.VolumeHost(c.driverName, v)
	return host
}

// pending tells whether the claim waits for a volume. Its phase is not asked:
// it is written last.
func pending(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

func selectedNode(claim *v1.PersistentVolumeClaim) string {
	return claim.Annotations[storagehelpers.AnnSelectedNode]
}

func claimKey(namespace, name string) string { return namespace + "/" + name }

// cached returns the object of the key, nil if there is none.
func cached[T any](store cache.Indexer, key string) *T {
	object, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	typed, _ := object.(*T)
	return typed
}

// indexed returns the objects under the value of the index.
func indexed[T any](store cache.Indexer, index, value string) []*T {
	objects, err := store.ByIndex(index, value)
	if err != nil {
		return nil // there is no such index, which the first test of anything shows
	}
	typed := make([]*T, 0, len(objects))
	for _, object := range objects {
		if t, ok := object.(*T); ok {
			typed = append(typed, t)
		}
	}
	return typed
}

func (c *Controller) volumesOn(host string) []*v1.PersistentVolume {
	return indexed[v1.PersistentVolume](c.volumes, byHost, host)
}

// classNamed returns the driver's class of that name, nil if there is none.
func (c *Controller) classNamed(name string) *storagev1.StorageClass {
	class := cached[storagev1.StorageClass](c.classes, name)
	if class == nil || class.Provisioner != c.driverName {
		return nil
	}
	return class
}

// claimOf returns the claim of the name in the volume's claimRef.
func (c *Controller) claimOf(v *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	if v.Spec.ClaimRef == nil {
		return nil
	}
	return cached[v1.PersistentVolumeClaim](c.claims, claimKey(v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name))
}

// brakeRecheck is how often what the brake holds back is looked at again.
const brakeRecheck = time.Minute

// lost tells whether the host has been missing for the whole delay. If not, it
// says when to look again, 0 for a host that is there.
func (c *Controller) lost(host string) (since time.Time, isLost bool, again time.Duration) {
	now := c.clock.Now()
	since, missing := c.nodes.missingSince(host, now)
	if !missing {
		return time.Time{}, false, 0
	}
	if wait := c.settings.LostNodeDelay - now.Sub(since); wait > 0 {
		return since, false, wait
	}
	return since, true, 0
}

// missingFor says for people how long a node has been missing.
func (c *Controller) missingFor(host string, since time.Time) string {
	return fmt.Sprintf("Node %s has been missing for at least %v", host, c.clock.Since(since).Round(time.Second))
}
