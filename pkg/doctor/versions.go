package doctor

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/csi-local/csi-local/pkg/inspect"
)

func versionChecks() []Check {
	return []Check{
		{"version-skew", Warning, "the parts are tested together in one version only", findSkew},
		{"version-rollout", Warning, "nodes run different versions until the update is finished", findRollout},
		{"version-server", Warning, "the number of volumes in the CSINode cannot be changed, and stays what it was when the driver registered", findOldServer},
		{"version-kubelet", Warning, "Kubernetes does not support it", findNewKubelet},
	}
}

// Containers by their names in the chart.
const (
	driverContainer    = "csi-local"
	schedulerContainer = "csi-local-scheduler"
)

func imageOf(pod *v1.PodSpec, container string) string {
	for i := range pod.Containers {
		if pod.Containers[i].Name == container {
			return pod.Containers[i].Image
		}
	}
	return ""
}

// imageTag is what stands behind the colon; "" for an image that is named by its digest.
func imageTag(pod *v1.PodSpec, container string) string {
	image := imageOf(pod, container)
	if i := strings.LastIndexAny(image, ":/@"); i >= 0 && image[i] == ':' && !strings.Contains(image, "@") {
		return image[i+1:]
	}
	return ""
}

func findSkew(s *inspect.Snapshot) (found []Problem) {
	if s.Install.DaemonSet == nil {
		return nil
	}
	want := imageTag(&s.Install.DaemonSet.Spec.Template.Spec, driverContainer)
	for _, part := range []struct {
		deployment *appsv1.Deployment
		container  string
	}{{s.Install.Controller, driverContainer}, {s.Install.Scheduler, schedulerContainer}} {
		if part.deployment == nil {
			continue
		}
		pod := &part.deployment.Spec.Template.Spec
		got := imageTag(pod, part.container)
		if want == "" || got == "" || got == want {
			continue
		}
		image := strings.TrimSuffix(imageOf(pod, part.container), got) + want
		found = append(found, Problem{
			Object: deploymentObject(part.deployment), Wrong: fmt.Sprintf("it runs version %s, and the nodes run %s", got, want),
			Command: fmt.Sprintf("kubectl set image -n %s deployment %s %s=%s", part.deployment.Namespace, part.deployment.Name, part.container, image), Repairs: true,
		})
	}
	return found
}

func findRollout(s *inspect.Snapshot) []Problem {
	d := s.Install.DaemonSet
	if d == nil {
		return nil
	}
	want, others := imageOf(&d.Spec.Template.Spec, driverContainer), 0
	for i := range s.Install.Pods {
		p := &s.Install.Pods[i]
		if p == s.Install.PodOn(p.Spec.NodeName) && imageOf(&p.Spec, driverContainer) != want {
			others++
		}
	}
	return problemIf(others > 0, Problem{
		Object: Object{Kind: "daemonset", Namespace: d.Namespace, Name: d.Name}, Wrong: fmt.Sprintf("%d of its pods run another image than %s", others, want),
		Command: fmt.Sprintf("kubectl rollout status -n %s daemonset %s", d.Namespace, d.Name),
	})
}

// Since this version the API server lets the number of volumes be changed.
const mutableCountSince = "1.35"

func findOldServer(s *inspect.Snapshot) []Problem {
	server, err := version.ParseGeneric(s.ServerVersion)
	return problemIf(err == nil && server.LessThan(version.MustParseGeneric(mutableCountSince)), Problem{
		Object: Object{Kind: "version", Name: s.ServerVersion}, Wrong: "the API server is older than " + mutableCountSince,
		Command: "kubectl version",
	})
}

func findNewKubelet(s *inspect.Snapshot) (found []Problem) {
	server, err := version.ParseGeneric(s.ServerVersion)
	if err != nil {
		return nil
	}
	for i := range s.Nodes {
		kubelet, err := version.ParseGeneric(s.Nodes[i].KubeletVersion)
		if err != nil || !s.Nodes[i].HasPools {
			continue
		}
		if kubelet.Major() > server.Major() || kubelet.Major() == server.Major() && kubelet.Minor() > server.Minor() {
			found = append(found, Problem{
				Object: nodeObject(s.Nodes[i].Name), Wrong: fmt.Sprintf("its kubelet %s is newer than the API server %s", s.Nodes[i].KubeletVersion, s.ServerVersion),
				Command: "kubectl version",
			})
		}
	}
	return found
}
