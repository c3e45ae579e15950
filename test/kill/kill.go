// Package kill kills the parts of csi-local and the API server again and again, at random
// moments, while volumes are made, used and deleted in a real cluster.
package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
)

const (
	workers = 4
	// between two kills is some work: no time at all, or twice this, or anything in between.
	between = 6 * time.Second
	// victimPatience bounds the wait for a victim to be there again.
	victimPatience = 5 * time.Minute
	// stepPatience bounds one wait of a worker; a killed scheduler alone costs a lease.
	stepPatience = 2 * time.Minute
	lookEvery    = 500 * time.Millisecond
)

// apiServer is the victim that is not on a node.
const apiServer = "API server"

// Victims are what is killed; on nodes, the beginning of a command line without its folder.
func Victims() []string {
	return []string{"csi-local node", "csi-provisioner", "csi-local-scheduler", apiServer}
}

// Load makes, uses and deletes volumes. All fields are needed.
type Load struct {
	Cluster *cluster.Cluster
	// Namespace is where volumes are made. What is there at the end is the caller's to delete.
	Namespace string
	// Manifest is the YAML of a claim and of a pod that uses it, both of that name.
	Manifest func(name string) string
}

// Options say what to kill and what to keep busy. All fields are needed.
type Options struct {
	Load
	// Kills is how many programs are killed, each as often as the others.
	Kills int
	// Seed decides in which order, and when.
	Seed uint64
}

// Result is what was done.
type Result struct {
	// Killed counts kills by victim.
	Killed map[string]int
	// Used counts volumes that a pod has used, by worker.
	Used []int
}

// HurryOrphans lets the nodes' drivers delete what never got a PersistentVolume within
// seconds rather than an hour. undo takes that back; both wait for the drivers.
func HurryOrphans(ctx context.Context, c *cluster.Cluster) (undo func(context.Context) error, err error) {
	patch := ""
	for _, flag := range []string{"first-look=5s", "grace=10s", "recheck=5s", "interval=20s"} {
		patch += fmt.Sprintf(`,{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--orphan-%s"}`, flag)
	}
	rollout := func(ctx context.Context, args ...string) error {
		_, err := c.Kubectl(ctx, append([]string{"-n", "kube-system"}, args...)...)
		if err == nil {
			err = installed.WaitRolledOut(ctx, c, victimPatience, "daemonset/csi-local-node")
		}
		return err
	}
	undo = func(ctx context.Context) error { return rollout(ctx, "rollout", "undo", "daemonset/csi-local-node") }
	return undo, rollout(ctx, "patch", "daemonset", "csi-local-node", "--type=json", "--patch", "["+patch[1:]+"]")
}

// Run kills until it has killed often enough.
func Run(ctx context.Context, o Options) (Result, error) {
	working, stop := context.WithCancel(ctx)
	result := Result{Killed: map[string]int{}, Used: make([]int, workers)}
	var load sync.WaitGroup
	for i := range workers {
		load.Go(func() { result.Used[i] = o.Work(working, fmt.Sprintf("w%d", i)) })
	}
	err := o.kill(ctx, result.Killed)
	stop()
	load.Wait()
	return result, err
}

// Work leads one volume after the other through its life until ctx ends, and returns how
// many were used by a pod. Every third is deleted before anybody waited for it. Objects
// have the worker's name and a number.
func (l Load) Work(ctx context.Context, worker string) (used int) {
	pods := l.Cluster.Client().CoreV1().Pods(l.Namespace)
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", worker, i)
		// An API server that is down is one of the things that happen here.
		_, _ = l.Cluster.KubectlInput(ctx, l.Manifest(name), "-n", l.Namespace, "apply", "-f", "-")
		if i%3 != 2 && waitFor(ctx, func() bool {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			return err == nil && cluster.PodReady(pod)
		}) {
			used++
		}
		waitFor(ctx, func() bool {
			_, err := l.Cluster.Kubectl(ctx, "-n", l.Namespace, "delete", "--wait=false", "--ignore-not-found", "pod/"+name, "persistentvolumeclaim/"+name)
			return err == nil
		})
	}
	return used
}

// waitFor tells whether it came true.
func waitFor(ctx context.Context, what func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !what() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// kill counts in killed.
func (o Options) kill(ctx context.Context, killed map[string]int) error {
	random, victims := rand.New(rand.NewPCG(o.Seed, 0)), Victims()
	for i := range o.Kills {
		turn := i % len(victims)
		if turn == 0 {
			random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		}
		victim := victims[turn]
		if err := o.killWhenThere(ctx, victim, random); err != nil {
			return fmt.Errorf("killing %s: %w", victim, err)
		}
		killed[victim]++
	}
	return nil
}

// killWhenThere waits for a victim that kubelet is just starting again. To kill another one
// instead would leave little but the API server, which is back at once.
func (o Options) killWhenThere(ctx context.Context, victim string, random *rand.Rand) error {
	ctx, cancel := context.WithTimeoutCause(ctx, victimPatience, fmt.Errorf("it was not there for %v", victimPatience))
	defer cancel()
	for {
		pause := time.NewTimer(time.Duration(random.Int64N(int64(2 * between))))
		select {
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		case <-pause.C:
		}
		err := o.killOne(ctx, victim, o.Cluster.Nodes()[random.IntN(len(o.Cluster.Nodes()))])
		var none *cluster.CommandError
		if !errors.As(err, &none) {
			return err
		}
	}
}

func (o Options) killOne(ctx context.Context, victim string, n *cluster.Node) error {
	if victim != apiServer {
		_, err := n.Run(ctx, "pkill", "-KILL", "-f", "^[^ ]*"+victim)
		return err
	}
	return errors.Join(o.Cluster.ControlPlane.StopAPIServer(), o.Cluster.ControlPlane.StartAPIServer(ctx))
}
