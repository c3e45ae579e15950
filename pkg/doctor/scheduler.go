package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csi-local/csi-local/pkg/inspect"
)

func schedulerChecks() []Check {
	const waits = "pods that ask for this scheduler stay Pending"
	return []Check{
		{"scheduler-missing", Error, "nobody counts bytes, so nodes are promised more than they have", findNoScheduler},
		{"scheduler-config", Error, "nobody counts bytes, so nodes are promised more than they have", findSchedulerConfig},
		{"scheduler-down", Error, waits, findSchedulerDown},
		{"scheduler-lease", Error, waits, findSchedulerLease},
		{"scheduler-of-pods", Error, "whoever places the pods does not count bytes, and places them where there is no room", findOtherSchedulers},
	}
}

func findNoScheduler(s *inspect.Snapshot) []Problem {
	return problemIf(s.Install.DaemonSet != nil && s.Install.Scheduler == nil && !countsByObjects(s), Problem{
		Object:  Object{Kind: "deployment", Namespace: s.Install.Namespace, Name: s.Install.Release + "-scheduler"},
		Wrong:   "there is no scheduler with the plugin, and csi-provisioner runs without --enable-capacity",
		Command: reinstall(s), Repairs: true,
	})
}

func findSchedulerConfig(s *inspect.Snapshot) []Problem {
	d := s.Install.Scheduler
	if d == nil {
		return nil
	}
	p := Problem{Object: deploymentObject(d), Command: reinstall(s), Repairs: true}
	switch {
	case s.Install.SchedulingErr != nil:
		p.Wrong = "its configuration cannot be read: " + oneLine(s.Install.SchedulingErr)
	case len(s.Install.Scheduling.Profiles) == 0:
		p.Wrong = "no profile of its configuration enables the plugin LocalCapacity"
	default:
		return nil
	}
	return []Problem{p}
}

func deploymentObject(d *appsv1.Deployment) Object {
	return Object{Kind: "deployment", Namespace: d.Namespace, Name: d.Name}
}

// findDown is for a Deployment none of whose pods is ready.
func findDown(s *inspect.Snapshot, d *appsv1.Deployment) []Problem {
	switch {
	case d == nil || d.Status.ReadyReplicas > 0:
		return nil
	case d.Spec.Replicas != nil && *d.Spec.Replicas == 0:
		return []Problem{{
			Object: deploymentObject(d), Wrong: "it has 0 replicas",
			Command: fmt.Sprintf("kubectl scale -n %s deployment %s --replicas=2", d.Namespace, d.Name), Repairs: true,
		}}
	case young(s, d):
		return nil
	}
	return []Problem{{Object: deploymentObject(d), Wrong: "none of its pods is ready", Command: restart(d), Repairs: true}}
}

func restart(d *appsv1.Deployment) string {
	return fmt.Sprintf("kubectl rollout restart -n %s deployment %s", d.Namespace, d.Name)
}

// young tells a Deployment whose pods may just be starting.
func young(s *inspect.Snapshot, d *appsv1.Deployment) bool {
	return s.TakenAt.Sub(d.CreationTimestamp.Time) < settleTime
}

func findSchedulerDown(s *inspect.Snapshot) []Problem { return findDown(s, s.Install.Scheduler) }

// leaseMargin is what a lease may be late by before it is called stale: a leader that
// goes away lets go of it, and another one takes it within moments.
const leaseMargin = time.Minute

// findStale is for a Deployment with pods of which none leads.
func findStale(s *inspect.Snapshot, d *appsv1.Deployment, lease *coordinationv1.Lease, namespace, name string) []Problem {
	if d == nil || name == "" || len(findDown(s, d)) > 0 || lease == nil && young(s, d) {
		return nil
	}
	p := Problem{Object: Object{Kind: "lease", Namespace: namespace, Name: name}, Command: restart(d), Repairs: true}
	if lease == nil {
		p.Wrong = fmt.Sprintf("there is no such Lease, so no process of deployment %s leads", d.Name)
		return []Problem{p}
	}
	holder, renewed := "nobody", time.Time{}
	if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	silent := s.TakenAt.Sub(renewed)
	if silent <= leaseMargin {
		return nil
	}
	p.Wrong = fmt.Sprintf("%s holds it, and it was not renewed for %s, so no process of deployment %s leads", holder, duration.HumanDuration(silent), d.Name)
	return []Problem{p}
}

func findSchedulerLease(s *inspect.Snapshot) []Problem {
	in := &s.Install
	return findStale(s, in.Scheduler, in.SchedulerLease, in.Scheduling.LeaseNamespace, in.Scheduling.LeaseName)
}

// findOtherSchedulers finds one problem for each owner of pods.
func findOtherSchedulers(s *inspect.Snapshot) (found []Problem) {
	profiles := s.Install.Scheduling.Profiles
	if len(profiles) == 0 || countsByObjects(s) {
		return nil
	}
	told := map[Object]bool{}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if slices.Contains(profiles, pod.Spec.SchedulerName) {
			continue
		}
		p := Problem{
			Object:  owner(pod),
			Wrong:   fmt.Sprintf("pods with volumes of the driver name scheduler %s, which does not have the plugin; %s does", pod.Spec.SchedulerName, strings.Join(profiles, ", ")),
			Repairs: true,
		}
		switch p.Object.Kind {
		case "pod":
			p.Command = remake("pod", pod.Namespace, pod.Name, "s/^  schedulerName: .*/  schedulerName: "+profiles[0]+"/", "/^  nodeName: /d")
		case "deployment", "statefulset":
			p.Command = fmt.Sprintf(`kubectl patch -n %s %s %s --type=merge -p '{"spec":{"template":{"spec":{"schedulerName":"%s"}}}}'`,
				pod.Namespace, p.Object.Kind, p.Object.Name, profiles[0])
		default:
			p.Command, p.Repairs = describe("pod", pod.Namespace, pod.Name), false
		}
		if !told[p.Object] {
			told[p.Object] = true
			found = append(found, p)
		}
	}
	return found
}

// owner is what a person changes to change the pod.
func owner(pod *v1.Pod) Object {
	o := Object{Kind: "pod", Namespace: pod.Namespace, Name: pod.Name}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return o
	}
	o.Kind, o.Name = strings.ToLower(ref.Kind), ref.Name
	// A Deployment's ReplicaSets are called after it and their pods' template.
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; ref.Kind == "ReplicaSet" && hash != "" {
		o.Kind, o.Name = "deployment", strings.TrimSuffix(ref.Name, "-"+hash)
	}
	return o
}
