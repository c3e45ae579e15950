package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/csi-local/csi-local/pkg/controller"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// Labels of all objects of an installation (deploy/chart/csi-local).
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"
	ourName        = "csi-local"
	// helmRelease is set by Helm on what it installs.
	helmRelease = "meta.helm.sh/release-name"
)

// Components of an installation.
const (
	ComponentNode       = "node"
	ComponentController = "controller"
	ComponentScheduler  = "scheduler"
)

// Install are the parts of csi-local itself, as far as they are found by their labels.
type Install struct {
	// DaemonSet runs the driver; nil if there is none, and then all else is empty.
	DaemonSet *appsv1.DaemonSet
	// Namespace and Release are where, and under which name.
	Namespace, Release string
	// Helm tells that Helm has installed it.
	Helm bool
	// Controller and Scheduler are nil if there is none.
	Controller, Scheduler *appsv1.Deployment
	// Pods are those of all components, and driverPods those of the driver by node.
	Pods       []v1.Pod
	driverPods map[string]*v1.Pod

	// PoolsFile is the pools file; PoolsFileErr is set if there is none that can be read.
	PoolsFile    poolconfig.Config
	PoolsFileErr error
	// Scheduling is what the scheduler's configuration says; SchedulingErr is set if it
	// has none that can be read.
	Scheduling    Scheduling
	SchedulingErr error
	// ControllerLease and SchedulerLease are nil if there is none.
	ControllerLease, SchedulerLease *coordinationv1.Lease
}

// Scheduling is what matters of the scheduler's configuration.
type Scheduling struct {
	// Profiles are the names by which pods ask for a profile that has the plugin.
	Profiles []string
	// LeaseNamespace and LeaseName are of the Lease by which the processes agree.
	LeaseNamespace, LeaseName string
}

// PodOn returns the driver's pod on the node, nil if there is none.
func (in *Install) PodOn(node string) *v1.Pod { return in.driverPods[node] }

// findDriverPods is for when Pods are complete and in order.
func (in *Install) findDriverPods() {
	in.driverPods = map[string]*v1.Pod{}
	for i := range in.Pods {
		if p := &in.Pods[i]; p.Labels[labelComponent] == ComponentNode && p.Spec.NodeName != "" && in.driverPods[p.Spec.NodeName] == nil {
			in.driverPods[p.Spec.NodeName] = p
		}
	}
}

// Ready tells a pod that is ready and is to stay.
func Ready(p *v1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

const installed = labelName + "=" + ourName

// readInstall finds the installation that serves the driver.
func (r *reading) readInstall(ctx context.Context) error {
	in := &r.s.Install
	err := each(ctx, r.asker, selection{kind: DaemonSets, label: installed}, func(d *appsv1.DaemonSet) {
		if serves(d, r.s.Driver) {
			in.DaemonSet, in.Namespace, in.Release = d, d.Namespace, d.Labels[labelInstance]
			in.Helm = d.Annotations[helmRelease] != ""
		}
	})
	if err != nil || in.DaemonSet == nil {
		return err
	}
	ours := installed + "," + labelInstance + "=" + in.Release
	return errors.Join(
		each(ctx, r.asker, selection{kind: Deployments, namespace: in.Namespace, label: ours}, func(d *appsv1.Deployment) {
			switch d.Labels[labelComponent] {
			case ComponentController:
				in.Controller = d
			case ComponentScheduler:
				in.Scheduler = d
			}
		}),
		each(ctx, r.asker, selection{kind: Pods, namespace: in.Namespace, label: ours}, func(p *v1.Pod) { in.Pods = append(in.Pods, *p) }),
		r.readPoolsFile(ctx), r.readScheduling(ctx), r.readLeases(ctx),
	)
}

// serves tells whether the DaemonSet runs the driver of that name.
func serves(d *appsv1.DaemonSet, driver string) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c v1.Container) bool {
		return slices.Contains(c.Args, "--driver-name="+driver)
	})
}

// publishSelector chooses the Nodes that publish; nil if all do, or none can be read.
func publishSelector(d *appsv1.DaemonSet) labels.Selector {
	if d == nil {
		return nil
	}
	for i := range d.Spec.Template.Spec.Containers {
		for _, arg := range d.Spec.Template.Spec.Containers[i].Args {
			if text, ok := strings.CutPrefix(arg, "--publish-selector="); ok {
				selector, err := labels.Parse(text)
				if err == nil {
					return selector
				}
			}
		}
	}
	return nil
}

// configMapOf is the name of the ConfigMap that the pods mount as that volume.
func configMapOf(pod *v1.PodSpec, volume string) string {
	for i := range pod.Volumes {
		if v := &pod.Volumes[i]; v.Name == volume && v.ConfigMap != nil {
			return v.ConfigMap.Name
		}
	}
	return ""
}

// errNoFile: the ConfigMap is missing, or has no such file.
var errNoFile = errors.New("there is no such file")

func (r *reading) file(ctx context.Context, pod *v1.PodSpec, volume, name string) ([]byte, error) {
	configMap, err := one[v1.ConfigMap](ctx, r.asker, ConfigMaps, r.s.Install.Namespace, configMapOf(pod, volume))
	if err != nil {
		return nil, err
	}
	if configMap != nil {
		if text, ok := configMap.Data[name]; ok {
			return []byte(text), nil
		}
	}
	return nil, fmt.Errorf("%s of ConfigMap %s/%s: %w", name, r.s.Install.Namespace, configMapOf(pod, volume), errNoFile)
}

func (r *reading) readPoolsFile(ctx context.Context) error {
	in := &r.s.Install
	text, err := r.file(ctx, &in.DaemonSet.Spec.Template.Spec, "pools", "pools.yaml")
	if err == nil {
		in.PoolsFile, in.PoolsFileErr = poolconfig.Parse(text)
		return nil
	}
	in.PoolsFileErr = err
	return unless(errNoFile, err)
}

// unless is err, but nil if it is that one, which is a finding and no failure.
func unless(that, err error) error {
	if errors.Is(err, that) {
		return nil
	}
	return err
}

func (r *reading) readScheduling(ctx context.Context) error {
	in := &r.s.Install
	if in.Scheduler == nil {
		return nil
	}
	text, err := r.file(ctx, &in.Scheduler.Spec.Template.Spec, "config", "config.yaml")
	if err == nil {
		in.Scheduling, in.SchedulingErr = parseScheduling(text)
		return nil
	}
	in.SchedulingErr = err
	return unless(errNoFile, err)
}

// pluginName is that of the scheduler plugin.
const pluginName = "LocalCapacity"

// parseScheduling reads a KubeSchedulerConfiguration as far as it matters.
func parseScheduling(text []byte) (Scheduling, error) {
	type enabled struct{ Enabled []struct{ Name string } }
	var in struct {
		LeaderElection struct{ ResourceName, ResourceNamespace string }
		Profiles       []struct {
			SchedulerName string
			Plugins       map[string]enabled
		}
	}
	if err := yaml.Unmarshal(text, &in); err != nil {
		return Scheduling{}, err
	}
	out := Scheduling{LeaseNamespace: in.LeaderElection.ResourceNamespace, LeaseName: in.LeaderElection.ResourceName}
	for _, profile := range in.Profiles {
		for _, point := range []string{"multiPoint", "filter"} {
			has := slices.ContainsFunc(profile.Plugins[point].Enabled, func(p struct{ Name string }) bool { return p.Name == pluginName })
			if has && !slices.Contains(out.Profiles, profile.SchedulerName) {
				out.Profiles = append(out.Profiles, profile.SchedulerName)
			}
		}
	}
	return out, nil
}

func (r *reading) readLeases(ctx context.Context) error {
	in := &r.s.Install
	var problems [2]error
	if in.Controller != nil {
		in.ControllerLease, problems[0] = one[coordinationv1.Lease](ctx, r.asker, Leases, in.Namespace, controller.LeaseName(r.s.Driver))
	}
	if in.Scheduling.LeaseName != "" {
		in.SchedulerLease, problems[1] = one[coordinationv1.Lease](ctx, r.asker, Leases, in.Scheduling.LeaseNamespace, in.Scheduling.LeaseName)
	}
	return errors.Join(problems[:]...)
}
