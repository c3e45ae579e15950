package doctor

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/inspect/inspecttest"
)

// does is a damage or a consequence that is one command.
func does(text string) func(*bed) { return func(b *bed) { b.shell(text) } }

// installSituations are [Situations], and those where somebody else's part is played.
func installSituations() (all []situation) {
	for _, s := range Situations() {
		all = append(all, situation{s.Name, does(s.Damage), s.Want, func(b *bed) {
			b.shell(s.After)
			b.settle()
		}})
	}
	return append(all,
		situation{"a controller that nobody leads", func(b *bed) { b.setLease("csi-local-controller-"+driver, time.Now().Add(-5*time.Minute)) },
			"controller-lease lease kube-system/csi-local-controller-" + driver, (*bed).settle},
		situation{"no scheduler runs", func(b *bed) {
			b.shell("kubectl scale -n kube-system deployment csi-local-scheduler --replicas=0")
			b.shell(`kubectl patch -n kube-system deployment csi-local-scheduler --subresource=status --type=merge -p '{"status":{"readyReplicas":0,"availableReplicas":0,"replicas":0}}'`)
		}, "scheduler-down deployment kube-system/csi-local-scheduler", (*bed).settle},
	)
}

func nodeSituations() []situation {
	pools, report := capacity.PoolsAnnotation(driver), capacity.ReportAnnotation(driver)
	// silently does something to n2 while its reporter does not run.
	silently := func(damage func(*bed)) func(*bed) {
		return func(b *bed) {
			b.stopReporter("n2")
			damage(b)
		}
	}
	reports := func(b *bed) { b.startReporter("n2") }
	restarts := func(b *bed) { b.restartDriver("n2") }
	annotates := func(key, value string) func(*bed) {
		return silently(does(fmt.Sprintf("kubectl annotate node n2 --overwrite %s='%s'", key, value)))
	}
	return []situation{
		{"a driver that crashes", does(`kubectl patch pod -n kube-system csi-local-node-n2 --subresource=status --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"False"}],` +
			`"containerStatuses":[{"name":"csi-local","image":"i","imageID":"i","ready":false,"restartCount":9,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}'`),
			"install-driver-pod pod kube-system/csi-local-node-n2", restarts},
		{"a driver that is not registered", silently(func(b *bed) { b.register("n2", nil) }), "node-unregistered node n2", restarts},
		{"no number of volumes", silently(func(b *bed) {
			b.register("n2", []storagev1.CSINodeDriver{{Name: driver, NodeID: "n2", TopologyKeys: []string{capacity.TopologyKey(driver)}}})
		}), "node-slots csinode n2", restarts},
		{"a node that the DaemonSet has left", func(b *bed) {
			b.stopDriver("n2")
			b.shell(`kubectl patch -n kube-system daemonset csi-local-node --subresource=status --type=merge -p '{"status":{"desiredNumberScheduled":2,"currentNumberScheduled":2}}'`)
		}, "node-without-driver node n2", func(b *bed) {
			b.settle()
			b.startDriver("n2")
		}},
		{"nothing published", silently(does("kubectl annotate node n2 " + pools + "- " + report + "-")), "published-nothing node n2", restarts},
		{"garbled figures", annotates(pools, `{"pool-ssd":100}`), "published-unreadable node n2", reports},
		{"somebody else's figures", annotates(pools, `{"pool-hdd":"1","pool-ssd":"999999999999"}`), "published-by-others node n2", reports},
		{"a garbled report", annotates(report, "{"), "published-report node n2", reports},
		{"a report of a newer version", annotates(report, `{"bootID":"b","changed":"2030-01-01T00:00:00Z","format":1,"generation":3,"writer":"v9.0.0"}`), "published-by-newer node n2", reports},
		{"a pause", does("kubectl annotate node n2 " + capacity.PauseAnnotation(driver) + "=yes"), "published-paused node n2", nil},
		{"a node that is not ready", does(`kubectl patch node n2 --subresource=status -p '{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}'`), "node-not-ready node n2",
			does(`kubectl patch node n2 --subresource=status -p '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'`)},
		{"an orphan", func(b *bed) {
			b.tell("OrphanQuarantined", "Volume vg/pvc-a of pool pool-ssd has no PersistentVolume pvc-a (retained)")
		}, "event-orphan node n2",
			func(b *bed) { b.tell("OrphanDeleted", "Volume vg/pvc-a of pool pool-ssd was deleted: by an operator") }},
	}
}

// tell is what a node says in an event.
func (b *bed) tell(reason, message string) {
	b.t.Helper()
	_, err := b.admin.CoreV1().Events(metav1.NamespaceDefault).Create(b.t.Context(), &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "n2."},
		InvolvedObject: v1.ObjectReference{Kind: "Node", Name: "n2"}, Source: v1.EventSource{Component: "csi-local", Host: "n2"},
		Type: v1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{})
	b.must(err)
}

func claimSituations() []situation {
	const waits = "persistentvolumeclaim default/waits"
	// without makes a claim that nobody protects: it is deleted at once.
	without := func(change func(*v1.PersistentVolumeClaim)) func(*bed) {
		return func(b *bed) {
			b.addClaim("waits", change)
			b.shell(`kubectl patch persistentvolumeclaim waits --type=merge -p '{"metadata":{"finalizers":null}}'`)
		}
	}
	purged := func(b *bed) { b.purge("persistentvolumeclaim", "waits") }
	return []situation{
		{"a claim for a node that is gone", without(func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n9"}
		}), "claim-node-gone " + waits, purged},
		{"ReadWriteMany", without(func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		}), "claim-access-mode " + waits, purged},
		{"a selector", without(func(c *v1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "new"}}
		}), "claim-selector " + waits, purged},
		{"more than any pool", without(func(c *v1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("1Ti")
		}), "claim-too-large " + waits, nil},
		{"a lost claim", func(b *bed) {
			without(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "gone" })(b)
			b.shell(`kubectl patch persistentvolumeclaim waits --subresource=status --type=merge -p '{"status":{"phase":"Lost"}}'`)
		}, "claim-lost " + waits, nil},
	}
}

func volumeSituations() []situation {
	// alone makes a volume that no claim has any more.
	alone := func(node string, policy v1.PersistentVolumeReclaimPolicy) func(*bed) {
		return func(b *bed) {
			_, volume, _ := inspecttest.Volume("alone", node, 1<<30)
			volume.Spec.PersistentVolumeReclaimPolicy = policy
			b.addPersistent(volume, v1.VolumeReleased)
		}
	}
	purged := func(b *bed) { b.purge("persistentvolume", "pvc-uid-alone") }
	return []situation{
		{"a volume of a node that is gone", func(b *bed) {
			b.addVolume("gone", "n9")
			b.shell("kubectl delete pod gone --force --grace-period=0")
		}, "volume-node-gone persistentvolume pvc-uid-gone", func(b *bed) {
			b.purge("persistentvolumeclaim", "gone")
			b.purge("persistentvolume", "pvc-uid-gone")
		}},
		{"a released volume of a node that is gone", alone("n9", v1.PersistentVolumeReclaimDelete), "volume-node-gone persistentvolume pvc-uid-alone", purged},
		{"a retained volume", alone("n1", v1.PersistentVolumeReclaimRetain), "volume-retained persistentvolume pvc-uid-alone", func(b *bed) {
			volume, err := b.admin.CoreV1().PersistentVolumes().Get(b.t.Context(), "pvc-uid-alone", metav1.GetOptions{})
			b.must(err)
			b.setPhase(volume, v1.VolumeAvailable)
			b.healthy()
			purged(b)
		}},
		{"an attachment", func(b *bed) {
			_, err := b.admin.StorageV1().VolumeAttachments().Create(b.t.Context(), &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: "stale"}, Spec: storagev1.VolumeAttachmentSpec{
					Attacher: driver, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pvc-uid-data")},
				},
			}, metav1.CreateOptions{})
			b.must(err)
		}, "volume-attachment volumeattachment stale", nil},
		{"a pod of another scheduler", func(b *bed) {
			b.addClaim("waits", func(*v1.PersistentVolumeClaim) {})
			pod := inspecttest.UserPod("waits", "", "waits")
			pod.Namespace, pod.Spec.SchedulerName = metav1.NamespaceDefault, v1.DefaultSchedulerName
			_, err := b.admin.CoreV1().Pods(pod.Namespace).Create(b.t.Context(), pod, metav1.CreateOptions{})
			b.must(err)
		}, "scheduler-of-pods pod default/waits", nil},
	}
}
