package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
	"github.com/csi-local/csi-local/test/kill"
	"github.com/csi-local/csi-local/test/testbed"
)

const (
	// account is that of the DaemonSet: of the driver and of csi-provisioner.
	account = "system:serviceaccount:kube-system:csi-local-node"
	// settle lets the first requests of a start pass.
	settle = time.Minute
)

// weight is what the DaemonSet's pod takes for some time.
type weight struct {
	rssBytes int64
	// peakBytes is the most that each of the processes that run has had resident.
	peakBytes  int64
	millicores float64
	began      time.Time
	long       time.Duration
}

// idle looks at a node without volumes for so long.
func (b *bed) idle(ctx context.Context, long time.Duration) (w weight, err error) {
	if err := pause(ctx, settle); err != nil {
		return w, err
	}
	w, err = b.weigh(ctx, func() error { return pause(ctx, long) })
	if err == nil {
		sayf("idle for %v: %d MiB resident, %.1f millicores", w.long.Round(time.Second), w.rssBytes/mib, w.millicores)
	}
	return w, err
}

// weigh looks at the node's pod while something is done.
func (b *bed) weigh(ctx context.Context, do func() error) (w weight, err error) {
	before, err := b.usage(ctx)
	if err != nil {
		return w, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return w, err
	}
	after, err := b.usage(ctx)
	if err != nil {
		return w, err
	}
	w = weight{rssBytes: after.rssBytes, peakBytes: after.peakBytes, began: began, long: time.Since(began)}
	w.millicores = 1000 * (after.cpu - before.cpu).Seconds() / w.long.Seconds()
	return w, nil
}

// requestsPerHour is what the node's account asks of the API server in an idle hour. Call it
// when the rest has been measured and nothing was killed yet.
func (b *bed) requestsPerHour(ctx context.Context, w weight) (float64, error) {
	requests, err := b.ControlPlane.Audit(ctx)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	idle, watches := countIdle(requests, w, now)
	sayf("the node's account has sent %d requests in %v without work, and begun %d watches in %v",
		idle, w.long.Round(time.Second), watches, now.Sub(w.began).Round(time.Second))
	return float64(idle)/w.long.Hours() + float64(watches)/now.Sub(w.began).Hours(), nil
}

// countIdle counts requests of the idle time, and watches of all the time until now: each
// is begun anew every five to ten minutes, whether there is work or not, so that a few
// minutes may have none.
func countIdle(requests []testbed.Request, w weight, now time.Time) (idle, watches int) {
	for _, r := range requests {
		switch {
		case r.User != account || r.Received.Before(w.began) || r.Received.After(now):
		case r.Verb == "watch":
			watches++
		case r.Received.Before(w.began.Add(w.long)):
			idle++
		}
	}
	return idle, watches
}

func pause(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// usageScript prints the most kilobytes that each process of a pod has had resident and
// those that it has, then "cpu" and the microseconds that all of them have used.
const usageScript = `cd /sys/fs/cgroup/kubepods/*/pod$1 || exit 1
for pid in $(cat */cgroup.procs); do sed -n -E 's/^Vm(HWM|RSS):[[:space:]]*([0-9]+) kB$/\1 \2/p' /proc/$pid/status; done
sed -n 's/^usage_usec /cpu /p' cpu.stat`

// usage is what a pod has in memory, had at most, and the processor time it has used.
type usage struct {
	rssBytes, peakBytes int64
	cpu                 time.Duration
}

// usage looks at the DaemonSet's pod.
func (b *bed) usage(ctx context.Context) (usage, error) {
	pod, err := b.driverPod(ctx)
	if err != nil {
		return usage{}, err
	}
	text, err := b.node().Run(ctx, "sh", "-c", usageScript, "usage", string(pod.UID))
	if err != nil {
		return usage{}, err
	}
	return parseUsage(text)
}

func parseUsage(text string) (u usage, err error) {
	processes, cpus := 0, 0
	for line := range strings.Lines(text) {
		var what string
		var figure int64
		if _, err := fmt.Sscanf(line, "%s %d", &what, &figure); err != nil {
			return u, fmt.Errorf("%q: %w", line, err)
		}
		switch what {
		case "HWM":
			u.peakBytes += figure << 10
		case "RSS":
			u.rssBytes, processes = u.rssBytes+figure<<10, processes+1
		case "cpu":
			u.cpu, cpus = time.Duration(figure)*time.Microsecond, cpus+1
		default:
			return u, fmt.Errorf("%q: not a figure of a process", line)
		}
	}
	if processes < 2 || cpus != 1 {
		return u, fmt.Errorf("the driver's pod has %d processes and %d accounts of time:\n%s", processes, cpus, text)
	}
	return u, nil
}

// imageBytes is the driver's image as it is on the node's disk.
func (b *bed) imageBytes(ctx context.Context) (int64, error) {
	pod, err := b.driverPod(ctx)
	if err != nil {
		return 0, err
	}
	image := pod.Spec.Containers[0].Image
	node, err := b.Client().CoreV1().Nodes().Get(ctx, b.node().Name(), metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	for _, i := range node.Status.Images {
		if slices.Contains(i.Names, image) {
			return i.SizeBytes, nil
		}
	}
	return 0, fmt.Errorf("%s does not report image %s", node.Name, image)
}

// kills kills programs while volumes come and go, deletes everything, and counts what is
// left when the time for that is over.
func (b *bed) kills(ctx context.Context, kills int) (killed, leaked int, err error) {
	if _, err := kill.HurryOrphans(ctx, b.Cluster); err != nil {
		return 0, 0, err
	}
	const namespace = "bench-kills"
	if _, err := b.Kubectl(ctx, "create", "namespace", namespace); err != nil {
		return 0, 0, err
	}
	seed := rand.Uint64()
	result, err := kill.Run(ctx, kill.Options{
		Load: kill.Load{Cluster: b.Cluster, Namespace: namespace, Manifest: manifest}, Kills: kills, Seed: seed,
	})
	for _, count := range result.Killed {
		killed += count
	}
	sayf("killed %v (seed %d); volumes used meanwhile, by worker: %v", result.Killed, seed, result.Used)
	if err == nil && !slices.ContainsFunc(result.Used, func(used int) bool { return used > 0 }) {
		err = errors.New("no volume was used meanwhile: nothing could leak")
	}
	if err != nil {
		return killed, 0, err
	}
	if _, err := b.Kubectl(ctx, "delete", "namespace", namespace, "--timeout="+patience.String()); err != nil {
		return killed, 0, err
	}
	if err := b.noVolumes(ctx); err != nil {
		sayf("%v", err)
	}
	leaked, err = b.leftVolumes(ctx)
	return killed, leaked, err
}

func manifest(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec: {storageClassName: %[2]s, accessModes: [ReadWriteOnce], resources: {requests: {storage: 8Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  schedulerName: %[3]s
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: %[4]q, command: [sleep, "1000000"], volumeMounts: [{name: data, mountPath: /data}]}
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: %[1]s}}
`, name, installed.Class, installed.Scheduler, cluster.TestImage)
}
