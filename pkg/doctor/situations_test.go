package doctor

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/controller"
	"github.com/csi-local/csi-local/pkg/inspect/inspecttest"
)

const driver = inspecttest.Driver

func installSituations() []situation {
	daemonSet := "daemonset csi-local-node"
	return []situation{
		{"nothing is installed", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*appsv1.DaemonSet](t, c, "csi-local-node")
		}, []string{"install-missing " + daemonSet}, "kubectl apply -k deploy/manifests/second-scheduler"},
		{"no pools file", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*v1.ConfigMap](t, c, "csi-local-pools")
		}, []string{"install-pools-file configmap kube-system/csi-local-pools"}, ""},
		{"a pools file that cannot be read", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*v1.ConfigMap](t, c, "csi-local-pools").Data["pools.yaml"] = "pools: 1"
		}, []string{"install-pools-file configmap kube-system/csi-local-pools"}, ""},
		{"a pools file without pools", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*v1.ConfigMap](t, c, "csi-local-pools").Data["pools.yaml"] = "pools: []"
		}, []string{"install-pools-file configmap kube-system/csi-local-pools"}, ""},
		{"a driver that crashes", func(t testing.TB, c *inspecttest.Cluster) {
			p := inspecttest.Get[*v1.Pod](t, c, "csi-local-node-n2")
			p.Status.Conditions[0].Status = v1.ConditionFalse
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "csi-local", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
		}, []string{"install-driver-pod pod kube-system/csi-local-node-n2"}, "kubectl delete pod -n kube-system csi-local-node-n2 --wait=false"},
		{"a driver that was just started again", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*v1.Pod](t, c, "csi-local-node-n2").Status.Conditions[0] = v1.PodCondition{
				Type: v1.PodReady, Status: v1.ConditionFalse, LastTransitionTime: metav1.NewTime(c.Time.Add(-20 * time.Second)),
			}
		}, nil, ""},
		{"Helm's installation without a CSIDriver", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*appsv1.DaemonSet](t, c, "csi-local-node").Annotations = map[string]string{"meta.helm.sh/release-name": "csi-local"}
			inspecttest.Delete[*storagev1.CSIDriver](t, c, driver)
		}, []string{"csidriver-missing csidriver " + driver}, "helm upgrade csi-local deploy/chart/csi-local --namespace kube-system --reuse-values"},
	}
}

func driverSituations() []situation {
	spec := func(change func(*storagev1.CSIDriverSpec)) func(testing.TB, *inspecttest.Cluster) {
		return func(t testing.TB, c *inspecttest.Cluster) {
			change(&inspecttest.Get[*storagev1.CSIDriver](t, c, driver).Spec)
		}
	}
	class := func(change func(*storagev1.StorageClass)) func(testing.TB, *inspecttest.Cluster) {
		return func(t testing.TB, c *inspecttest.Cluster) {
			change(inspecttest.Get[*storagev1.StorageClass](t, c, "local-dynamic-ssd"))
		}
	}
	asks := func(pool string) func(testing.TB, *inspecttest.Cluster) {
		return func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*storagev1.StorageClass](t, c, "local-dynamic-ssd").Parameters["pool"] = pool
			c.Put(inspecttest.Claim("new", 1))
		}
	}
	fields, ssd := []string{"csidriver-fields csidriver " + driver}, "storageclass local-dynamic-ssd"
	immediate := storagev1.VolumeBindingImmediate
	return []situation{
		{"attachRequired", spec(func(s *storagev1.CSIDriverSpec) { s.AttachRequired = new(true) }), fields,
			"kubectl get csidriver " + driver + " -o yaml | sed -e 's/^  attachRequired: .*/  attachRequired: false/' -e '/^  creationTimestamp: /d' -e '/^  resourceVersion: /d' -e '/^  uid: /d' | kubectl replace --force -f -"},
		{"no podInfoOnMount", spec(func(s *storagev1.CSIDriverSpec) { s.PodInfoOnMount = nil }), fields,
			`kubectl patch csidriver ` + driver + ` --type=merge -p '{"spec":{"podInfoOnMount":true}}'`},
		{"pods without the driver", spec(func(s *storagev1.CSIDriverSpec) { s.PreventPodSchedulingIfMissing = new(false) }), fields, ""},
		{"kubelet never asks again", spec(func(s *storagev1.CSIDriverSpec) { s.NodeAllocatableUpdatePeriodSeconds = nil }), fields, ""},
		{"fsGroupPolicy", spec(func(s *storagev1.CSIDriverSpec) { s.FSGroupPolicy = new(storagev1.NoneFSGroupPolicy) }), fields, ""},
		{"no inline volumes", spec(func(s *storagev1.CSIDriverSpec) { s.VolumeLifecycleModes = s.VolumeLifecycleModes[:1] }), fields, ""},
		{"storageCapacity that nobody makes", spec(func(s *storagev1.CSIDriverSpec) { s.StorageCapacity = new(true) }),
			[]string{"csidriver-storage-capacity csidriver " + driver}, ""},
		{"no class", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*storagev1.StorageClass](t, c, "local-dynamic-ssd", "local-dynamic-hdd")
		}, []string{"class-none " + ssd}, ""},
		{"immediate binding", class(func(c *storagev1.StorageClass) { c.VolumeBindingMode = &immediate }), []string{"class-immediate " + ssd},
			"kubectl get storageclass local-dynamic-ssd -o yaml | sed -e 's/^volumeBindingMode: .*/volumeBindingMode: WaitForFirstConsumer/' -e '/^  creationTimestamp: /d' -e '/^  resourceVersion: /d' -e '/^  uid: /d' | kubectl replace --force -f -"},
		{"a misspelt parameter", class(func(c *storagev1.StorageClass) { c.Parameters["mkfs-options"] = "-m 0" }), []string{"class-parameters " + ssd},
			"kubectl get storageclass local-dynamic-ssd -o yaml | sed -e 's|^  mkfs-options: |  mkfsOptions: |' -e '/^  creationTimestamp: /d' -e '/^  resourceVersion: /d' -e '/^  uid: /d' | kubectl replace --force -f -"},
		{"parameters that mean nothing", class(func(c *storagev1.StorageClass) { c.Parameters["colour"] = "red" }), []string{"class-parameters " + ssd},
			"kubectl get storageclass local-dynamic-ssd -o yaml | sed -e '/^  creationTimestamp: /d' -e '/^  resourceVersion: /d' -e '/^  uid: /d' > local-dynamic-ssd.yaml; vi local-dynamic-ssd.yaml; kubectl replace --force -f local-dynamic-ssd.yaml"},
		{"a pool nearly of that name", asks("pool-ssdd"), []string{"class-pool " + ssd},
			"kubectl get storageclass local-dynamic-ssd -o yaml | sed -e 's/^  pool: .*/  pool: pool-ssd/' -e '/^  creationTimestamp: /d' -e '/^  resourceVersion: /d' -e '/^  uid: /d' | kubectl replace --force -f -"},
		{"a pool that is none", asks("tape"), []string{"class-pool " + ssd}, ""},
		{"a class for hard disks where there are none", func(t testing.TB, c *inspecttest.Cluster) {
			noHardDisks(t, c)
			claim := inspecttest.Claim("new", 1)
			claim.Spec.StorageClassName = new("local-dynamic-hdd")
			c.Put(claim)
		}, []string{"class-pool storageclass local-dynamic-hdd"},
			"kubectl get storageclass local-dynamic-hdd -o yaml | sed -e '/^  creationTimestamp: /d' -e '/^  resourceVersion: /d' -e '/^  uid: /d' > local-dynamic-hdd.yaml; vi local-dynamic-hdd.yaml; kubectl replace --force -f local-dynamic-hdd.yaml"},
		{"a class for hard disks where there are none, and nobody asks for it", noHardDisks, nil, ""},
		{"a pool that is none, and nobody asks for", class(func(c *storagev1.StorageClass) { c.Parameters["pool"] = "tape" }), nil, ""},
		{"no policy for lost nodes", class(func(c *storagev1.StorageClass) {
			c.Annotations = map[string]string{controller.LostNodeAnnotation(driver): "delete"}
		}), []string{"class-on-lost-node " + ssd}, ""},
	}
}

// noHardDisks is what the manifests install as they are: two classes, and one pool.
func noHardDisks(t testing.TB, c *inspecttest.Cluster) {
	inspecttest.Get[*v1.ConfigMap](t, c, "csi-local-pools").Data["pools.yaml"] = "pools: [{name: pool-ssd, volumeGroup: vg-ssd, type: thick}]"
	c.EachNode(func(n *v1.Node) { n.Annotations[capacity.PoolsAnnotation(driver)] = `{"pool-ssd":"107374182400"}` })
}

// partSituations are about the controller, the scheduler, the policies and versions.
func partSituations() []situation {
	const scheduler, leader = "kube-system/csi-local-scheduler", "kube-system/csi-local-controller"
	return []situation{
		{"no scheduler", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*appsv1.Deployment](t, c, "csi-local-scheduler")
		}, []string{"scheduler-missing deployment " + scheduler}, ""},
		{"a scheduler with 0 replicas", func(t testing.TB, c *inspecttest.Cluster) {
			d := inspecttest.Get[*appsv1.Deployment](t, c, "csi-local-scheduler")
			d.Spec.Replicas, d.Status.ReadyReplicas = new(int32(0)), 0
		}, []string{"scheduler-down deployment " + scheduler}, "kubectl scale -n kube-system deployment csi-local-scheduler --replicas=2"},
		{"a scheduler without a configuration", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*v1.ConfigMap](t, c, "csi-local-scheduler")
		}, []string{"scheduler-config deployment " + scheduler}, ""},
		{"a scheduler without the plugin", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*v1.ConfigMap](t, c, "csi-local-scheduler").Data["config.yaml"] = "profiles: [{schedulerName: x}]"
		}, []string{"scheduler-config deployment " + scheduler}, ""},
		{"no scheduler leads", func(t testing.TB, c *inspecttest.Cluster) {
			at := metav1.NewMicroTime(c.Time.Add(-5 * time.Minute))
			inspecttest.Get[*coordinationv1.Lease](t, c, "csi-local-scheduler").Spec.RenewTime = &at
		}, []string{"scheduler-lease lease " + scheduler}, "kubectl rollout restart -n kube-system deployment csi-local-scheduler"},
		{"pods of another scheduler", func(t testing.TB, c *inspecttest.Cluster) {
			p := inspecttest.Get[*v1.Pod](t, c, "n1-0")
			p.Spec.SchedulerName, p.OwnerReferences = "default-scheduler", []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: new(true)}}
			q := inspecttest.Get[*v1.Pod](t, c, "n1-1")
			q.Spec.SchedulerName, q.OwnerReferences = "default-scheduler", p.OwnerReferences
			r := inspecttest.Get[*v1.Pod](t, c, "n2-0")
			r.Spec.SchedulerName, r.Labels = "default-scheduler", map[string]string{"pod-template-hash": "abc"}
			r.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-abc", Controller: new(true)}}
			inspecttest.Get[*v1.Pod](t, c, "n2-1").Spec.SchedulerName = "default-scheduler"
		}, []string{"scheduler-of-pods deployment shop/web", "scheduler-of-pods pod shop/n2-1", "scheduler-of-pods statefulset shop/db"},
			`kubectl patch -n shop deployment web --type=merge -p '{"spec":{"template":{"spec":{"schedulerName":"csi-local-scheduler"}}}}'`},
		{"no controller", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*appsv1.Deployment](t, c, "csi-local-controller")
		}, []string{"controller-missing deployment " + leader}, ""},
		{"a controller of which no pod is ready", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*appsv1.Deployment](t, c, "csi-local-controller").Status.ReadyReplicas = 0
		}, []string{"controller-down deployment " + leader}, "kubectl rollout restart -n kube-system deployment csi-local-controller"},
		{"no Lease of the controller", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*coordinationv1.Lease](t, c, "csi-local-controller-"+driver)
		}, []string{"controller-lease lease " + leader + "-" + driver}, ""},
		{"no policy", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*admissionv1.ValidatingAdmissionPolicy](t, c, "csi-local-classes")
		}, []string{"policy-missing validatingadmissionpolicy csi-local-classes"}, ""},
		{"a policy that is not bound, and one that only warns", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Delete[*admissionv1.ValidatingAdmissionPolicyBinding](t, c, "csi-local-fence-node")
			inspecttest.Get[*admissionv1.ValidatingAdmissionPolicyBinding](t, c, "csi-local-classes").Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
		}, []string{"policy-unbound validatingadmissionpolicy csi-local-classes", "policy-unbound validatingadmissionpolicy csi-local-fence-node"}, ""},
		{"an older controller", func(t testing.TB, c *inspecttest.Cluster) {
			d := inspecttest.Get[*appsv1.Deployment](t, c, "csi-local-controller")
			d.Spec.Template.Spec.Containers[0].Image = "registry.local:5000/csi-local:v0.0.9"
		}, []string{"version-skew deployment " + leader}, "kubectl set image -n kube-system deployment csi-local-controller csi-local=registry.local:5000/csi-local:v0.1.0"},
		{"an update that is not finished", func(t testing.TB, c *inspecttest.Cluster) {
			inspecttest.Get[*v1.Pod](t, c, "csi-local-node-n1").Spec.Containers[0].Image = "ghcr.io/csi-local/csi-local:v0.1.1"
		}, []string{"version-rollout daemonset kube-system/csi-local-node"}, ""},
		{"an old API server", func(_ testing.TB, c *inspecttest.Cluster) { c.Version = "v1.34.1" },
			[]string{"version-kubelet node n1", "version-kubelet node n2", "version-kubelet node n3", "version-server version v1.34.1"}, ""},
	}
}
