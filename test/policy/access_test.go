package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/testbed"
)

// access is what the node's account may ask for: each verb that it needs, and the
// neighbours that would be too much. A right that is missing shows only as endless
// refusals in a log, long after it was installed (ceph/ceph-csi#4800).
func access() []accessCase {
	return []accessCase{
		{group: "", resource: "nodes", allowed: "get list watch patch", refused: "create update delete deletecollection"},
		{group: "", resource: "nodes/status", refused: "get patch update"},
		{group: "", resource: "nodes/proxy", refused: "get create"},
		{group: "storage.k8s.io", resource: "csinodes", allowed: "get list watch patch", refused: "create update delete deletecollection"},
		{group: "", resource: "events", namespace: metav1.NamespaceDefault, allowed: "create patch", refused: "delete list"},
		{group: "", resource: "events", namespace: namespace, refused: "create patch"},
		{group: "", resource: "pods", refused: "get list create delete"},
		{group: "", resource: "secrets", namespace: namespace, refused: "get list"},
		{group: "", resource: "serviceaccounts/token", namespace: namespace, refused: "create"},
		{group: "", resource: "persistentvolumes", allowed: "get", refused: "list watch create patch update delete"},
		{group: "", resource: "persistentvolumeclaims", refused: "list patch update delete"},
		{group: "storage.k8s.io", resource: "storageclasses", refused: "create patch delete"},
		{group: "storage.k8s.io", resource: "csidrivers", refused: "create patch delete"},
		{group: "admissionregistration.k8s.io", resource: "validatingadmissionpolicies", refused: "get patch delete"},
		{path: "/version", allowed: "get", refused: "put"},
		{path: "/metrics", refused: "get"},
	}
}

type accessCase struct {
	group, resource, namespace string
	path                       string // instead of a resource
	allowed, refused           string
}

// review asks the API server as the account itself.
func (c accessCase) review(verb string) authorizationv1.SelfSubjectAccessReviewSpec {
	if c.path != "" {
		return authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: c.path, Verb: verb}}
	}
	resource, subresource, _ := strings.Cut(c.resource, "/")
	return authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Group: c.group, Resource: resource, Subresource: subresource, Namespace: c.namespace, Verb: verb,
	}}
}

func checkAccess(t *testing.T, client *kubernetes.Clientset) {
	for _, c := range access() {
		for verbs, want := range map[string]bool{c.allowed: true, c.refused: false} {
			for _, verb := range strings.Fields(verbs) {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: c.review(verb)}
				answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if answer.Status.Allowed != want {
					t.Errorf("%s %s in %q: allowed %v, want %v (%s)", verb, fmt.Sprint(c.group, "/", c.resource, c.path), c.namespace, answer.Status.Allowed, want, answer.Status.Reason)
				}
			}
		}
	}
}

// checkOtherNames does what docs/reporter.md says to those who have other names.
func checkOtherNames(t *testing.T, cluster *testbed.Cluster, admin *kubernetes.Clientset) {
	const namespace, driver = "storage", "my.driver"
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "policy", "node-*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("policies: %v, %v", files, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(strings.NewReplacer("kube-system", namespace, capacity.DefaultDriverName, driver).Replace(string(text)))
	}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectlApply(t, cluster, strings.NewReader(all.String()), "-")
	config, err := cluster.ServiceAccount(t.Context(), namespace, agent, "n1")
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t, config)
	waitForFence(t, client)
	pools := fmt.Sprintf(`{"metadata":{"annotations":{%q:"{}"}}}`, capacity.PoolsAnnotation(driver))
	check(t, patch(t, client, fenceCase{resource: "nodes", object: "n1", kind: types.MergePatchType, patch: pools}), "")
	check(t, patch(t, client, fenceCase{resource: "nodes", object: "n2", kind: types.MergePatchType, patch: pools}), `and not "n2"`)
}
