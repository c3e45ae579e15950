package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/capacity/reporter"
	"github.com/csi-local/csi-local/pkg/inspect/inspecttest"
)

const namespace = inspecttest.Namespace

// settle sets the state of DaemonSet and Deployments as controllers would.
func (b *bed) settle() {
	b.t.Helper()
	ctx, apps := b.t.Context(), b.admin.AppsV1()
	d, err := apps.DaemonSets(namespace).Get(ctx, "csi-local-node", metav1.GetOptions{})
	b.must(err)
	d.Status = appsv1.DaemonSetStatus{ObservedGeneration: d.Generation, DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, NumberReady: 3}
	_, err = apps.DaemonSets(namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
	b.must(err)
	for _, name := range []string{"csi-local-controller", "csi-local-scheduler"} {
		d, err := apps.Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		b.must(err)
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
		_, err = apps.Deployments(namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
		b.must(err)
	}
	b.renewLeases()
}

func leases() []string { return []string{"csi-local-scheduler", "csi-local-controller-" + driver} }

// renewLeases is what leaders do.
func (b *bed) renewLeases() {
	b.t.Helper()
	for _, name := range leases() {
		b.setLease(name, time.Now())
	}
}

func (b *bed) setLease(name string, renewed time.Time) {
	b.t.Helper()
	client := b.admin.CoordinationV1().Leases(namespace)
	lease := inspecttest.Lease(name, renewed)
	there, err := client.Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(b.t.Context(), lease, metav1.CreateOptions{})
		b.must(err)
		return
	}
	b.must(err)
	there.Spec = lease.Spec
	_, err = client.Update(b.t.Context(), there, metav1.UpdateOptions{})
	b.must(err)
}

// addNode is what kubelet, the DaemonSet's controller and the driver do.
func (b *bed) addNode(name string) {
	b.t.Helper()
	ctx := b.t.Context()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, capacity.TopologyKey(driver): name}}}
	node, err := b.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	b.must(err)
	node.Status.NodeInfo.KubeletVersion = "v1.37.2"
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	_, err = b.admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	b.must(err)
	_, err = b.admin.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	b.must(err)
	b.startDriver(name)
}

// startDriver makes the driver's pod, registers the driver, and reports for it.
func (b *bed) startDriver(node string) {
	b.t.Helper()
	ctx := b.t.Context()
	d, err := b.admin.AppsV1().DaemonSets(namespace).Get(ctx, "csi-local-node", metav1.GetOptions{})
	b.must(err)
	pod := inspecttest.DriverPod(node, d, metav1.Now())
	status := pod.Status
	status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	pod, err = b.admin.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	b.must(err)
	pod.Status = status
	_, err = b.admin.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	b.must(err)
	b.register(node, inspecttest.CSINode(node, 100).Spec.Drivers)
	b.startReporter(node)
}

// stopDriver takes the pod away at once, as kubelet does when it has ended.
func (b *bed) stopDriver(node string) {
	b.t.Helper()
	b.stopReporter(node)
	err := b.admin.CoreV1().Pods(namespace).Delete(b.t.Context(), "csi-local-node-"+node, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	if !apierrors.IsNotFound(err) {
		b.must(err)
	}
}

// restartDriver is what follows when the driver's pod was deleted.
func (b *bed) restartDriver(node string) {
	b.t.Helper()
	b.stopDriver(node)
	b.startDriver(node)
}

// register writes the drivers of a CSINode, as kubelet does.
func (b *bed) register(node string, drivers []storagev1.CSINodeDriver) {
	b.t.Helper()
	client := b.admin.StorageV1().CSINodes()
	csiNode, err := client.Get(b.t.Context(), node, metav1.GetOptions{})
	b.must(err)
	csiNode.Spec.Drivers = drivers
	_, err = client.Update(b.t.Context(), csiNode, metav1.UpdateOptions{})
	b.must(err)
}

// disks are the pools of a node.
type disks struct{}

func (disks) PoolReadings(context.Context) []capacity.PoolReading {
	return []capacity.PoolReading{
		{Pool: "pool-hdd", AllocatableBytes: inspecttest.PoolBytes, ExtentSizeBytes: 4 << 20},
		{Pool: "pool-ssd", AllocatableBytes: inspecttest.PoolBytes, ExtentSizeBytes: 4 << 20},
	}
}

func (disks) RefreshPools(context.Context) error { return nil }

func (disks) MaxVolumesPerNode() (int64, error) { return 100, nil }

// startReporter runs the reporter of a node until stopReporter, or the end of the test.
func (b *bed) startReporter(node string) {
	b.t.Helper()
	client, err := kubernetes.NewForConfig(b.cluster.Admin())
	b.must(err)
	s := reporter.DefaultSettings()
	s.Interval, s.Spread, s.UrgentSpread, s.RaiseDelay, s.HoldDown = time.Second, 50*time.Millisecond, 10*time.Millisecond, 0, 0
	s.StepPercent, s.StepInterval, s.Resync = 100, time.Second, time.Second
	api := reporter.Client{Kubernetes: client, NodeName: node, DriverName: driver}
	r, err := reporter.New(reporter.Options{
		DriverName: driver, Version: inspecttest.Version, BootID: "boot", Source: disks{}, API: api, Watch: api.Watch, Changes: make(chan struct{}),
		ServerVersion: api.ServerVersion, Settings: s, Metrics: reporter.NewMetrics(prometheus.NewRegistry()),
	})
	b.must(err)
	ctx, cancel := context.WithCancel(klog.NewContext(b.t.Context(), klog.Logger{}))
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	b.reporters[node] = func() {
		cancel()
		running.Wait()
	}
	b.t.Cleanup(b.reporters[node])
}

func (b *bed) stopReporter(node string) {
	b.t.Helper()
	b.reporters[node]()
}

// addVolume is what provisioner and volume controller do for a pod of a user.
func (b *bed) addVolume(name, node string) {
	b.t.Helper()
	ctx := b.t.Context()
	claim, volume, pod := inspecttest.Volume(name, node, 1<<30)
	claim.Namespace, pod.Namespace = metav1.NamespaceDefault, metav1.NamespaceDefault
	made, err := b.admin.CoreV1().PersistentVolumeClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	b.must(err)
	volume.Spec.ClaimRef.Namespace, volume.Spec.ClaimRef.UID = made.Namespace, made.UID
	b.addPersistent(volume, v1.VolumeBound)
	made.Status.Phase = v1.ClaimBound
	_, err = b.admin.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	b.must(err)
	_, err = b.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	b.must(err)
}

func (b *bed) addPersistent(volume *v1.PersistentVolume, phase v1.PersistentVolumePhase) {
	b.t.Helper()
	made, err := b.admin.CoreV1().PersistentVolumes().Create(b.t.Context(), volume, metav1.CreateOptions{})
	b.must(err)
	b.setPhase(made, phase)
}

func (b *bed) setPhase(volume *v1.PersistentVolume, phase v1.PersistentVolumePhase) {
	b.t.Helper()
	volume.Status.Phase = phase
	_, err := b.admin.CoreV1().PersistentVolumes().UpdateStatus(b.t.Context(), volume, metav1.UpdateOptions{})
	b.must(err)
}

// addClaim makes one that waits.
func (b *bed) addClaim(name string, change func(*v1.PersistentVolumeClaim)) {
	b.t.Helper()
	claim := inspecttest.Claim(name, 1<<30)
	claim.Namespace = metav1.NamespaceDefault
	change(claim)
	_, err := b.admin.CoreV1().PersistentVolumeClaims(claim.Namespace).Create(b.t.Context(), claim, metav1.CreateOptions{})
	b.must(err)
}

// purge deletes an object, whoever else protects it.
func (b *bed) purge(kind, name string) {
	b.t.Helper()
	b.shell("kubectl patch " + kind + " " + name + ` --type=merge -p '{"metadata":{"finalizers":null}}'; kubectl delete ` + kind + " " + name + " --ignore-not-found --grace-period=0 --force")
}
