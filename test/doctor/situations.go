package doctor

import (
	"fmt"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/controller"
)

// Situation is one way to break an installation of the manifests second-scheduler with
// nothing but a shell.
type Situation struct {
	Name string
	// Damage is for a [Console].
	Damage string
	// Want is the only finding, as its check and its object.
	Want string
	// After is for a Console, after the repair: it ends what no command repairs, and cleans up.
	After string
}

const driver = capacity.DefaultDriverName

// Situations are those of what is installed, whatever nodes there are.
func Situations() []Situation {
	const (
		patchDriver = "kubectl patch csidriver " + driver + " --type=merge -p "
		class       = "storageclass local-dynamic-ssd"
	)
	return []Situation{
		{"no DaemonSet", "kubectl delete daemonset -n kube-system csi-local-node --cascade=background", "install-missing daemonset csi-local-node", ""},
		{"a pools file that cannot be read", `kubectl patch configmap -n kube-system csi-local-pools --type=merge -p '{"data":{"pools.yaml":"pools: 1"}}'`,
			"install-pools-file configmap kube-system/csi-local-pools", "kubectl apply -k deploy/manifests/second-scheduler"},
		{"no CSIDriver", "kubectl delete csidriver " + driver, "csidriver-missing csidriver " + driver, ""},
		{"no podInfoOnMount", patchDriver + `'{"spec":{"podInfoOnMount":false}}'`, "csidriver-fields csidriver " + driver, ""},
		{"volumes have to be attached", "kubectl get csidriver " + driver + " -o yaml | sed 's/attachRequired: false/attachRequired: true/; /^  resourceVersion: /d; /^  uid: /d' | kubectl replace --force -f -",
			"csidriver-fields csidriver " + driver, ""},
		{"objects that nobody makes", patchDriver + `'{"spec":{"storageCapacity":true}}'`, "csidriver-storage-capacity csidriver " + driver, ""},
		{"no controller", "kubectl delete deployment -n kube-system csi-local-controller --cascade=background",
			"controller-missing deployment kube-system/csi-local-controller", ""},
		{"a scheduler without the plugin", `kubectl patch -n kube-system configmap csi-local-scheduler --type=merge -p '{"data":{"config.yaml":"profiles: []"}}'`,
			"scheduler-config deployment kube-system/csi-local-scheduler", ""},
		{"no policy", "kubectl delete validatingadmissionpolicy csi-local-fence-node", "policy-missing validatingadmissionpolicy csi-local-fence-node", ""},
		{"a policy that is not bound", "kubectl delete validatingadmissionpolicybinding csi-local-fence-csinode",
			"policy-unbound validatingadmissionpolicy csi-local-fence-csinode", ""},
		{"an older controller", "kubectl set image -n kube-system deployment csi-local-controller csi-local=ghcr.io/csi-local/csi-local:v0.0.9",
			"version-skew deployment kube-system/csi-local-controller", ""},
		{"immediate binding", remade("local-dynamic-ssd", "s/WaitForFirstConsumer/Immediate/"), "class-immediate " + class, ""},
		{"a misspelt parameter", remade("local-dynamic-ssd", `s/^parameters:/&\n  mkfs-options: -m 0/`), "class-parameters " + class,
			// It is spelt right now, but nothing that the manifests have, and cannot be changed.
			"kubectl delete storageclass local-dynamic-ssd && kubectl apply -k deploy/manifests/second-scheduler"},
		{"a misspelt pool", remade("local-dynamic-ssd", "s/pool: pool-ssd/pool: pool-ssdd/") + asks, "class-pool " + class, asksNoMore},
		{"a policy that is none", "kubectl annotate storageclass local-dynamic-ssd " + controller.LostNodeAnnotation(driver) + "=delete", "class-on-lost-node " + class, ""},
	}
}

// remade deletes a class and makes it again as it is not to be. While its policy is in
// force, and for a moment longer, the API server refuses that.
func remade(class, sed string) string {
	return fmt.Sprintf(`kubectl delete validatingadmissionpolicybinding csi-local-classes
class=$(kubectl get storageclass %[1]s -o yaml | sed -e '/^  resourceVersion: /d; /^  uid: /d; %[2]s')
kubectl delete storageclass %[1]s
until kubectl create -f - <<<"$class"; do :; done
kubectl apply -f deploy/policy/class-policy.yaml
`, class, sed)
}

const asks = `kubectl create -f - <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: asks, namespace: default}
spec: {storageClassName: local-dynamic-ssd, accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Mi}}}
END
`

// asksNoMore deletes the claim even where nobody takes its finalizer away.
const asksNoMore = `kubectl patch persistentvolumeclaim -n default asks --type=merge -p '{"metadata":{"finalizers":null}}'
kubectl delete persistentvolumeclaim -n default asks --ignore-not-found`
