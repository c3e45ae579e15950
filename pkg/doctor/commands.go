package doctor

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-local/csi-local/pkg/inspect"
)

// reinstall puts everything into place that an installation brings.
func reinstall(s *inspect.Snapshot) string {
	in := &s.Install
	switch {
	case in.Helm:
		return fmt.Sprintf("helm upgrade %s deploy/chart/csi-local --namespace %s --reuse-values", in.Release, in.Namespace)
	case countsByObjects(s):
		return "kubectl apply -k deploy/manifests/storage-capacity"
	case slices.Contains(in.Scheduling.Profiles, v1.DefaultSchedulerName):
		return "kubectl apply -k deploy/manifests/replace-scheduler"
	default:
		return "kubectl apply -k deploy/manifests/second-scheduler"
	}
}

// countsByObjects tells an installation without a scheduler of ours: the provisioner
// makes CSIStorageCapacity objects.
func countsByObjects(s *inspect.Snapshot) bool {
	d := s.Install.DaemonSet
	return d != nil && slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c v1.Container) bool {
		return slices.Contains(c.Args, "--enable-capacity")
	})
}

// remake is for an object of which a line has to be another one and that cannot be
// changed: it is deleted and made again. expressions are sed's.
func remake(kind, namespace, name string, expressions ...string) string {
	return fmt.Sprintf("%s | kubectl replace --force -f -", original(kind, namespace, name, expressions...))
}

// original prints an object without what the API server has added: kubectl notes all
// that it is given, and would later want the old resourceVersion back ("kubectl apply").
func original(kind, namespace, name string, expressions ...string) string {
	var sed strings.Builder
	for _, e := range append(expressions, "/^  creationTimestamp: /d", "/^  resourceVersion: /d", "/^  uid: /d") {
		fmt.Fprintf(&sed, " -e '%s'", e)
	}
	return fmt.Sprintf("kubectl get %s%s %s -o yaml | sed%s", kind, inNamespace(namespace), name, sed.String())
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + namespace
}

func remove(kind, namespace, name string) string {
	return fmt.Sprintf("kubectl delete %s%s %s --wait=false", kind, inNamespace(namespace), name)
}

func describe(kind, namespace, name string) string {
	return fmt.Sprintf("kubectl describe %s%s %s", kind, inNamespace(namespace), name)
}

// unannotate takes annotations off a Node.
func unannotate(node string, keys ...string) string {
	return fmt.Sprintf("kubectl annotate node %s %s-", node, strings.Join(keys, "- "))
}

// restartDriver starts the driver on a node anew. That registers it with kubelet, and
// what its pools hold is published again.
func restartDriver(s *inspect.Snapshot, node string) string {
	if p := s.Install.PodOn(node); p != nil {
		return remove("pod", p.Namespace, p.Name)
	}
	return describe("node", "", node)
}

// onNode runs a command in the driver's pod on the node.
func onNode(s *inspect.Snapshot, node, command string) string {
	if p := s.Install.PodOn(node); p != nil {
		return fmt.Sprintf("kubectl exec -n %s %s -c csi-local -- %s", p.Namespace, p.Name, command)
	}
	return describe("node", "", node)
}

func classObject(c *storagev1.StorageClass) Object { return Object{Kind: "storageclass", Name: c.Name} }
func nodeObject(name string) Object                { return Object{Kind: "node", Name: name} }
func volumeObject(v *v1.PersistentVolume) Object {
	return Object{Kind: "persistentvolume", Name: v.Name}
}
func claimObject(c *v1.PersistentVolumeClaim) Object {
	return Object{Kind: "persistentvolumeclaim", Namespace: c.Namespace, Name: c.Name}
}
