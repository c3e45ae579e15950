package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/csi-local/csi-local/pkg/inspect"
)

func installChecks() []Check {
	return []Check{
		{"install-missing", Error, "without it no volume is made, mounted or deleted", findNoInstall},
		{"install-pools-file", Error, "no node has a pool without it, or it keeps those that it read last", findPoolsFile},
		{"install-driver-pod", Error, "pods with volumes of the node cannot start, and nobody corrects what it publishes", findDriverPods},
	}
}

func findNoInstall(s *inspect.Snapshot) []Problem {
	return problemIf(s.Install.DaemonSet == nil, Problem{
		Object:  Object{Kind: "daemonset", Name: "csi-local-node"},
		Wrong:   "there is no DaemonSet of csi-local that runs driver " + s.Driver,
		Command: reinstall(s), Repairs: true,
	})
}

func findPoolsFile(s *inspect.Snapshot) []Problem {
	in := &s.Install
	if in.DaemonSet == nil {
		return nil
	}
	p := Problem{Object: Object{Kind: "configmap", Namespace: in.Namespace, Name: in.Release + "-pools"}}
	p.Command = fmt.Sprintf("kubectl edit configmap -n %s %s", p.Object.Namespace, p.Object.Name)
	switch {
	case in.PoolsFileErr != nil:
		p.Wrong = oneLine(in.PoolsFileErr)
		return []Problem{p}
	case len(in.PoolsFile.ForNode("")) > 0:
		return nil
	}
	for i := range s.Nodes {
		if len(in.PoolsFile.ForNode(s.Nodes[i].Name)) > 0 {
			return nil
		}
	}
	p.Wrong = "the pools file names no pool for any node"
	return []Problem{p}
}

// settleTime is how long things may take that pass by themselves.
const settleTime = 2 * time.Minute

func findDriverPods(s *inspect.Snapshot) []Problem {
	var found []Problem
	hosts := s.Hosts()
	for i := range s.Install.Pods {
		p := &s.Install.Pods[i]
		node := p.Spec.NodeName
		if node == "" || p != s.Install.PodOn(node) || inspect.Ready(p) || starting(s, p) {
			continue
		}
		if n := hosts[node]; n == nil || !n.Ready {
			continue // that is what is wrong
		}
		found = append(found, Problem{
			Object: Object{Kind: "pod", Namespace: p.Namespace, Name: p.Name}, Node: node,
			Wrong:   fmt.Sprintf("the driver on node %s is not ready%s", node, containerTrouble(p)),
			Command: remove("pod", p.Namespace, p.Name), Repairs: true,
		})
	}
	return found
}

// starting tells a pod that may be ready in a moment: it is new, or its container was just
// started again.
func starting(s *inspect.Snapshot, p *v1.Pod) bool {
	backsOff := slices.ContainsFunc(p.Status.ContainerStatuses, func(c v1.ContainerStatus) bool {
		return c.State.Waiting != nil && strings.HasSuffix(c.State.Waiting.Reason, "BackOff")
	})
	since := p.CreationTimestamp.Time
	if at := readyChanged(p); at.After(since) {
		since = at
	}
	return !backsOff && s.TakenAt.Sub(since) < settleTime
}

// readyChanged is when the pod became ready, or ceased to be.
func readyChanged(p *v1.Pod) (at time.Time) {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// containerTrouble is what kubelet says of the first container that does not run.
func containerTrouble(p *v1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return fmt.Sprintf(": container %s waits: %s %s", c.Name, w.Reason, oneLine(errorText(w.Message)))
		}
		if t := c.State.Terminated; t != nil {
			return fmt.Sprintf(": container %s ended with code %d: %s", c.Name, t.ExitCode, t.Reason)
		}
	}
	return ""
}
