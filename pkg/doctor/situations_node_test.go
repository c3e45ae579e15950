package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/inspect/inspecttest"
)

// annotated changes an annotation of node n2; "" removes it.
func annotated(key, value string) func(testing.TB, *inspecttest.Cluster) {
	return func(t testing.TB, c *inspecttest.Cluster) {
		n := inspecttest.Get[*v1.Node](t, c, "n2")
		if n.Annotations[key] = value; value == "" {
			delete(n.Annotations, key)
		}
	}
}

func nodeSituations() []situation {
	poolsKey, reportKey := capacity.PoolsAnnotation(driver), capacity.ReportAnnotation(driver)
	slots := func(count *int32) func(testing.TB, *inspecttest.Cluster) {
		return func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*storagev1.CSINode](t, c, "n2").Spec.Drivers[1].Allocatable = &storagev1.VolumeNodeResources{Count: count}
		}
	}
	const newer = `{"bootID":"b","changed":"2030-01-01T00:00:00Z","format":1,"generation":3,"writer":"v0.2.0"}`
	return []situation{
		{"a node that is not ready", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*v1.Node](t, c, "n2").Status.Conditions[0].Status = v1.ConditionUnknown
		}, []string{"node-not-ready node n2"}, "kubectl describe node n2"},
		{"a node that the DaemonSet has left", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*v1.Pod](t, c, "csi-local-node-n2")
		}, []string{"node-without-driver node n2"}, "kubectl annotate node n2 " + poolsKey + "- " + reportKey + "-"},
		{"a driver that is not registered", func(t testing.TB, c *inspecttest.Cluster) {
			n := inspecttest.Get[*storagev1.CSINode](t, c, "n2")
			n.Spec.Drivers = n.Spec.Drivers[:1]
		}, []string{"node-unregistered node n2"}, "kubectl delete pod -n kube-system csi-local-node-n2 --wait=false"},
		{"no count", slots(nil), []string{"node-slots csinode n2"}, ""},
		{"count 0", slots(new(int32(0))), []string{"node-slots csinode n2"}, ""},
		{"nothing published", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*v1.Node](t, c, "n2").Annotations = nil
		}, []string{"published-nothing node n2"}, ""},
		{"nothing published by a node that is not to publish", func(t testing.TB, c *inspecttest.Cluster) {
			containers := inspecttest.Get[*appsv1.DaemonSet](t, c, "csi-local-node").Spec.Template.Spec.Containers
			containers[0].Args = append(containers[0].Args, "--publish-selector=try=yes")
			inspecttest.Get[*v1.Node](t, c, "n2").Annotations = nil
		}, nil, ""},
		{"garbled figures", annotated(poolsKey, `{"pool-ssd":107374182400}`), []string{"published-unreadable node n2"}, "kubectl annotate node n2 " + poolsKey + "-"},
		{"garbage", annotated(poolsKey, `100Gi`), []string{"published-unreadable node n2"}, ""},
		{"another writer", func(t testing.TB, c *inspecttest.Cluster) {
			n := inspecttest.Get[*v1.Node](t, c, "n2")
			n.ManagedFields = append(n.ManagedFields, inspecttest.Wrote("kubectl-annotate", poolsKey, metav1.NewTime(c.Time)))
		}, []string{"published-by-others node n2"}, ""},
		{"no report", annotated(reportKey, ""), []string{"published-report node n2"}, ""},
		{"a garbled report", annotated(reportKey, "{"), []string{"published-report node n2"}, ""},
		{"a report of a newer version", annotated(reportKey, newer), []string{"published-by-newer node n2"}, "kubectl annotate node n2 " + reportKey + "-"},
		{"a report of a newer format", annotated(reportKey, `{"format":2,"writer":"v0.1.0","new":1}`), []string{"published-by-newer node n2"}, ""},
		{"a pause", annotated(capacity.PauseAnnotation(driver), "disk swap"), []string{"published-paused node n2"}, ""},
	}
}

func poolSituations() []situation {
	published := func(value string) func(testing.TB, *inspecttest.Cluster) {
		return annotated(capacity.PoolsAnnotation(driver), value)
	}
	return []situation{
		{"a pool at 0", published(`{"pool-hdd":"107374182400","pool-ssd":"0"}`), []string{"pool-zero node n2"},
			"kubectl exec -n kube-system csi-local-node-n2 -c csi-local -- lvm lvs -a -o +lv_tags,devices vg-ssd"},
		{"more used than there is", published(`{"pool-hdd":"107374182400","pool-ssd":"1073741824"}`), []string{"pool-overfull node n2"}, ""},
		{"a pool that is not published", published(`{"pool-ssd":"107374182400"}`), []string{"pool-unpublished node n2"}, ""},
	}
}

func volumeSituations() []situation {
	volume := func(change func(*inspecttest.Cluster, *v1.PersistentVolume)) func(testing.TB, *inspecttest.Cluster) {
		return func(t testing.TB, c *inspecttest.Cluster) {
			change(c, inspecttest.Get[*v1.PersistentVolume](t, c, "pvc-uid-n1-0"))
		}
	}
	released := func(v *v1.PersistentVolume, since metav1.Time, policy v1.PersistentVolumeReclaimPolicy) {
		v.Status.Phase, v.Status.LastPhaseTransitionTime, v.Spec.PersistentVolumeReclaimPolicy = v1.VolumeReleased, &since, policy
	}
	elsewhere := func(v *v1.PersistentVolume) {
		v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "n9"
	}
	const volumeName = "persistentvolume pvc-uid-n1-0"
	return []situation{
		{"a bound volume of a node that is gone", volume(func(_ *inspecttest.Cluster, v *v1.PersistentVolume) { elsewhere(v) }),
			[]string{"volume-node-gone " + volumeName}, "kubectl delete persistentvolumeclaim -n shop n1-0 --wait=false"},
		{"a released volume of a node that is gone", volume(func(c *inspecttest.Cluster, v *v1.PersistentVolume) {
			elsewhere(v)
			released(v, old(c), v1.PersistentVolumeReclaimDelete)
		}), []string{"volume-node-gone " + volumeName}, "kubectl delete persistentvolume pvc-uid-n1-0 --wait=false"},
		{"a volume that is nowhere", volume(func(_ *inspecttest.Cluster, v *v1.PersistentVolume) { v.Spec.NodeAffinity = nil }),
			[]string{"volume-without-node " + volumeName}, ""},
		{"a failed volume", volume(func(_ *inspecttest.Cluster, v *v1.PersistentVolume) {
			v.Status.Phase, v.Status.Message = v1.VolumeFailed, "in use"
		}),
			[]string{"volume-failed " + volumeName}, ""},
		{"a volume that is not deleted", volume(func(c *inspecttest.Cluster, v *v1.PersistentVolume) {
			released(v, old(c), v1.PersistentVolumeReclaimDelete)
		}),
			[]string{"volume-not-deleted " + volumeName}, "kubectl delete pod -n kube-system csi-local-node-n1 --wait=false"},
		{"a volume that terminates for an hour", volume(func(c *inspecttest.Cluster, v *v1.PersistentVolume) {
			at := old(c)
			v.DeletionTimestamp, v.Finalizers, v.Status.Phase = &at, []string{"example.com/x"}, v1.VolumeReleased
		}), []string{"volume-not-deleted " + volumeName}, ""},
		{"a retained volume", volume(func(c *inspecttest.Cluster, v *v1.PersistentVolume) {
			released(v, old(c), v1.PersistentVolumeReclaimRetain)
		}),
			[]string{"volume-retained " + volumeName}, `kubectl patch persistentvolume pvc-uid-n1-0 --type=json -p '[{"op":"remove","path":"/spec/claimRef"}]'`},
		{"an attachment", func(_ testing.TB, c *inspecttest.Cluster) {
			c.Put(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "n1"}})
		}, []string{"volume-attachment volumeattachment a"}, ""},
	}
}

func claimSituations() []situation {
	waits := func(bytes int64, change func(*v1.PersistentVolumeClaim)) func(testing.TB, *inspecttest.Cluster) {
		return func(_ testing.TB, c *inspecttest.Cluster) {
			claim := inspecttest.Claim("new", bytes)
			change(claim)
			c.Put(claim)
		}
	}
	const claim = " persistentvolumeclaim shop/new"
	return []situation{
		{"a claim that just waits", waits(1, func(*v1.PersistentVolumeClaim) {}), nil, ""},
		{"a node that is gone was chosen", waits(1, func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n9"}
		}), []string{"claim-node-gone" + claim}, "kubectl annotate persistentvolumeclaim -n shop new volume.kubernetes.io/selected-node-"},
		{"a lost claim", waits(1, func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName, c.Status.Phase = "gone", v1.ClaimLost }),
			[]string{"claim-lost" + claim}, ""},
		{"ReadWriteMany", waits(1, func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		}),
			[]string{"claim-access-mode" + claim}, "kubectl get persistentvolumeclaim -n shop new -o yaml | sed -e 's/^  - ReadWriteMany$/  - ReadWriteOnce/' -e '/^  creationTimestamp: /d' -e '/^  resourceVersion: /d' -e '/^  uid: /d' | kubectl replace --force -f -"},
		{"a selector", waits(1, func(c *v1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }), []string{"claim-selector" + claim}, ""},
		{"more than any pool", waits(inspecttest.PoolBytes+1, func(*v1.PersistentVolumeClaim) {}), []string{"claim-too-large" + claim}, ""},
		{"a claim that is not deleted", func(t testing.TB, c *inspecttest.Cluster) {
			claim, at := inspecttest.Get[*v1.PersistentVolumeClaim](t, c, "n1-0"), old(c)
			claim.DeletionTimestamp, claim.Finalizers = &at, []string{"kubernetes.io/pvc-protection"}
		}, []string{"claim-not-deleted persistentvolumeclaim shop/n1-0"}, "kubectl delete pod -n shop n1-0 --wait=false"},
	}
}

func eventSituations() []situation {
	event := func(c *inspecttest.Cluster, name, reason, message string, before time.Duration) {
		c.Put(&v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: name},
			InvolvedObject: v1.ObjectReference{Kind: "Node", Name: "n2"}, Source: v1.EventSource{Component: "csi-local", Host: "n2"},
			Reason: reason, Message: message, LastTimestamp: metav1.NewTime(c.Time.Add(-before)),
		})
	}
	told := func(reason, message string) func(testing.TB, *inspecttest.Cluster) {
		return func(_ testing.TB, c *inspecttest.Cluster) { event(c, "e", reason, message, time.Minute) }
	}
	const orphan = "Volume vg/pvc-a of pool pool-ssd has no PersistentVolume pvc-a (retained)"
	return slices.Concat(endedSituations(event), []situation{
		{"an orphan", told("OrphanQuarantined", orphan), []string{"event-orphan node n2"},
			"kubectl exec -n kube-system csi-local-node-n2 -c csi-local -- csi-local orphans list"},
		{"an orphan that returned", func(_ testing.TB, c *inspecttest.Cluster) {
			event(c, "e2", "OrphanReturned", "Volume vg/pvc-a has its PersistentVolume pvc-a again, and counts again", time.Minute)
			event(c, "e1", "OrphanQuarantined", orphan, time.Hour)
		}, nil, ""},
		{"an orphan that was deleted in the same second", func(_ testing.TB, c *inspecttest.Cluster) {
			event(c, "e1", "OrphanDeleted", "Volume vg/pvc-a of pool pool-ssd was deleted: by an operator", time.Minute)
			event(c, "e2", "OrphanQuarantined", orphan, time.Minute)
		}, nil, ""},
		{"orphans held", told("OrphansHeld", "PersistentVolumes are missing"), []string{"event-orphans-held node n2"}, ""},
		{"a full thin pool", func(_ testing.TB, c *inspecttest.Cluster) {
			event(c, "e1", "PoolAtWatermark", full, time.Hour)
			event(c, "e2", "PoolAtWatermark", full, time.Minute)
		}, []string{"event-watermark node n2"}, "kubectl exec -n kube-system csi-local-node-n2 -c csi-local -- lvm lvextend -l +10%FREE vg-hdd/tp0"},
		{"a pool that cannot be read", told("PoolUnreadable", unreadable), []string{"event-unreadable node n2"}, ""},
		{"a pool that could not be read is well again", func(_ testing.TB, c *inspecttest.Cluster) {
			event(c, "e", "PoolUnreadable", unreadable, time.Hour)
		}, nil, ""},
		{"a pool that is at 0 because it cannot be read", func(t testing.TB, c *inspecttest.Cluster) {
			event(c, "e", "PoolUnreadable", unreadable, time.Hour)
			annotated(capacity.PoolsAnnotation(driver), `{"pool-hdd":"107374182400","pool-ssd":"0"}`)(t, c)
		}, []string{"event-unreadable node n2"}, ""},
		{"a node that may not write", told("PublishForbidden", "forbidden"), []string{"event-forbidden node n2"}, "kubectl apply -k deploy/manifests/second-scheduler"},
		{"somebody else's event", func(_ testing.TB, c *inspecttest.Cluster) {
			c.Put(&v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, InvolvedObject: v1.ObjectReference{Kind: "Node", Name: "n2"}, Reason: "PoolAtWatermark"})
		}, nil, ""},
	})
}

// What nodes say in events.
const (
	unreadable = "Pool pool-ssd cannot be read: no such volume group. Its last figure counts for a while, then it is published as 0"
	full       = "Thin pool pool-hdd is so full that it takes no new volumes; extend it or delete volumes"
	forbidden  = "The API server forbids this node's %s to be changed; see the roles and policies in deploy/"
)

// endedSituations are about events that say what may be over by now.
func endedSituations(event func(c *inspecttest.Cluster, name, reason, message string, before time.Duration)) []situation {
	// then has one event, and another one in the same second.
	then := func(first, text, second, end string) func(testing.TB, *inspecttest.Cluster) {
		return func(_ testing.TB, c *inspecttest.Cluster) {
			event(c, "e2", first, text, time.Minute)
			event(c, "e1", second, end, time.Minute)
		}
	}
	// since has one event, and n2 has published something after it.
	since := func(reason, text, pools string) func(testing.TB, *inspecttest.Cluster) {
		return func(t testing.TB, c *inspecttest.Cluster) {
			event(c, "e", reason, text, time.Minute)
			annotated(capacity.PoolsAnnotation(driver), pools)(t, c)
			annotated(capacity.ReportAnnotation(driver), inspecttest.Node(t, "n2", metav1.NewTime(c.Time.Add(-30*time.Second))).Annotations[capacity.ReportAnnotation(driver)])(t, c)
		}
	}
	// before has one event, and the driver on n2 runs for that long.
	before := func(runs time.Duration) func(testing.TB, *inspecttest.Cluster) {
		return func(t testing.TB, c *inspecttest.Cluster) {
			event(c, "e", "PoolAtWatermark", full, 10*time.Minute)
			inspecttest.Get[*v1.Pod](t, c, "csi-local-node-n2").Status.ContainerStatuses = []v1.ContainerStatus{
				{Name: "csi-local", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(c.Time.Add(-runs))}}},
			}
		}
	}
	const both, none = `{"pool-hdd":"107374182400","pool-ssd":"107374182400"}`, `{"pool-hdd":"107374182400","pool-ssd":"0"}`
	watermark := []string{"event-watermark node n2"}
	return []situation{
		{"a pool that can be read again", then("PoolUnreadable", unreadable, "PoolReadable", "Pool pool-ssd can be read again"), nil, ""},
		{"another pool can be read again", then("PoolUnreadable", unreadable, "PoolReadable", "Pool pool-hdd can be read again"), []string{"event-unreadable node n2"}, ""},
		{"a pool that can be read again, and was published as 0", func(t testing.TB, c *inspecttest.Cluster) {
			then("PoolUnreadable", unreadable, "PoolReadable", "Pool pool-ssd can be read again")(t, c)
			annotated(capacity.PoolsAnnotation(driver), none)(t, c)
		}, []string{"pool-zero node n2"}, ""},
		{"a pool that was published since", since("PoolUnreadable", unreadable, both), nil, ""},
		{"a pool that was published since, as 0", since("PoolUnreadable", unreadable, none), []string{"event-unreadable node n2"}, ""},
		{"a pool that is in the pools file no more", func(_ testing.TB, c *inspecttest.Cluster) {
			event(c, "e", "PoolUnreadable", strings.ReplaceAll(unreadable, "pool-ssd", "pool-sdd"), time.Minute)
		}, nil, ""},
		{"a thin pool that has room again", then("PoolAtWatermark", full, "PoolBelowWatermark", "Thin pool pool-hdd takes new volumes again"), nil, ""},
		{"a process that has ended said so", before(3 * time.Minute), nil, ""},
		{"a process that has ended said so, and the next one has just begun", before(time.Minute), watermark, ""},
		{"the process that runs said so", before(time.Hour), watermark, ""},
		{"a node that may write again", then("PublishForbidden", fmt.Sprintf(forbidden, "Node"), "PublishAllowed", "The API server lets this node's Node be changed again"), nil, ""},
		{"a node that may read again", then("PublishForbidden", fmt.Sprintf(forbidden, "Node"), "PublishAllowed", "The API server lets this node's Node be read again"), []string{"event-forbidden node n2"}, ""},
		{"a node that has written since", since("PublishForbidden", fmt.Sprintf(forbidden, "Node"), both), nil, ""},
		{"a node that has written something else since", since("PublishForbidden", fmt.Sprintf(forbidden, "CSINode"), both), []string{"event-forbidden node n2"}, ""},
	}
}
