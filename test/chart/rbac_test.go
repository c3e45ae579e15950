package chart

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/internal/doctest"
)

// A right is one verb on one resource, as docs/rbac.md writes it: `leases.coordination.k8s.io`
// and the object's name, if only that one is meant.
type right struct{ role, resource, verb string }

// role is a role as it is bound.
type role struct {
	namespace string // of a Role
	account   string
	rights    map[right]bool
}

// Each verb of each role has its reason in the documentation, and no other stands there.
func TestRights_EachHasItsReason(t *testing.T) {
	documented := documentedRights(t)
	for right, reason := range documented {
		if !slices.ContainsFunc([]string{"csi-local: ", "csi-local controller: ", "csi-local-scheduler: ", "csi-provisioner: ", "csi-resizer: ", "both: "},
			func(who string) bool { return strings.HasPrefix(reason, who) }) {
			t.Errorf("%v: the reason does not say who needs it: %q", right, reason)
		}
	}
	seen := map[string]bool{}
	for folder := range modes() {
		for name, r := range rolesOf(t, folder) {
			seen[name] = true
			want := map[right]bool{}
			for right := range documented {
				if right.role == name {
					want[right] = true
				}
			}
			if diff := cmp.Diff(want, r.rights, cmp.AllowUnexported(right{})); diff != "" {
				t.Errorf("%s: %s (-docs +role)\n%s", folder, name, diff)
			}
		}
	}
	for right := range documented {
		if !seen[right.role] {
			t.Errorf("there is no %s", right.role)
		}
	}
}

// documentedRights are those of docs/rbac.md, with their reasons.
func documentedRights(t *testing.T) map[right]string {
	t.Helper()
	found := map[right]string{}
	for _, section := range strings.Split(doctest.Read(t, root+"/docs/rbac.md"), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
			if len(cells) != 3 || !strings.HasPrefix(cells[0], "`") {
				continue
			}
			for _, verb := range strings.Split(cells[1], ", ") {
				r := right{name, strings.ReplaceAll(cells[0], "`", ""), verb}
				if found[r] != "" {
					t.Errorf("%v stands there twice", r)
				}
				found[r] = cells[2]
			}
		}
	}
	return found
}

// rolesOf are the roles of a way to schedule, by kind and name.
func rolesOf(t *testing.T, folder string) map[string]role {
	t.Helper()
	text, err := os.ReadFile(manifestPath(folder))
	if err != nil {
		t.Fatal(err)
	}
	roles, accounts := map[string]role{}, map[string]string{}
	for _, object := range documents(t, string(text)) {
		switch object["kind"] {
		case "ClusterRole":
			r := as[rbacv1.ClusterRole](t, object)
			roles["ClusterRole "+r.Name] = role{rights: rightsOf("ClusterRole "+r.Name, r.Rules)}
		case "Role":
			r := as[rbacv1.Role](t, object)
			roles["Role "+r.Name] = role{namespace: r.Namespace, rights: rightsOf("Role "+r.Name, r.Rules)}
		case "ClusterRoleBinding":
			b := as[rbacv1.ClusterRoleBinding](t, object)
			accounts[b.RoleRef.Kind+" "+b.RoleRef.Name] = b.Subjects[0].Name
		case "RoleBinding":
			b := as[rbacv1.RoleBinding](t, object)
			accounts[b.RoleRef.Kind+" "+b.RoleRef.Name] = b.Subjects[0].Name
		}
	}
	for _, name := range slices.Collect(maps.Keys(roles)) {
		r := roles[name]
		r.account = accounts[name]
		roles[name] = r
	}
	return roles
}

func rightsOf(name string, rules []rbacv1.PolicyRule) map[right]bool {
	rights := map[right]bool{}
	for _, rule := range rules {
		objects := rule.ResourceNames
		if len(objects) == 0 {
			objects = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, object := range objects {
					for _, verb := range rule.Verbs {
						kind, sub, _ := strings.Cut(resource, "/")
						text := strings.Trim(kind+"."+group, ".")
						if sub != "" {
							text += "/" + sub
						}
						rights[right{name, strings.TrimSpace(text + " " + object), verb}] = true
					}
				}
			}
		}
	}
	return rights
}

// testRights asks the API server for each right of each bound role. A right that is missing
// shows only as endless refusals in a log, long after it was installed (ceph/ceph-csi#4800).
func (b bed) testRights(t *testing.T) {
	for folder := range modes() {
		b.kubectl(t, "apply", "-f", manifestPath(folder))
		for name, r := range rolesOf(t, folder) {
			if r.account == "" {
				continue // for people, who bind it to whom they like
			}
			for right := range r.rights {
				review := r.review(right)
				answer, err := b.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if !answer.Status.Allowed {
					t.Errorf("%s: %s of %s is not allowed: %+v", folder, right, name, answer.Status)
				}
			}
		}
	}
}

func (r role) review(right right) *authorizationv1.SubjectAccessReview {
	resource, object, _ := strings.Cut(right.resource, " ")
	resource, sub, _ := strings.Cut(resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:kube-system:" + r.account,
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: r.namespace, Verb: right.verb, Group: group, Resource: resource, Subresource: sub, Name: object},
	}}
}
