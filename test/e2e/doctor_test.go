package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/doctor"
	"github.com/csi-local/csi-local/test/kill"
	"github.com/csi-local/csi-local/test/testbed"
)

// ward is the cluster, and a person with csi-local doctor.
type ward struct {
	bed
	person doctor.Console
}

// situation is one way to break the cluster.
type situation struct {
	name string
	// damage returns the findings that it makes, as check and object.
	damage func(t *testing.T) []string
	// after the repairs: it looks at what they did, and ends what no command repairs.
	// looks are the commands of those.
	after func(t *testing.T, looks []string)
}

// testDoctor breaks the cluster in one way after the other. Doctor has to find each, and
// nothing beside it; the repairs that it prints are run as they stand, and then it has to
// be content. A pod with a volume notices nothing of all that.
func testDoctor(t *testing.T, b bed) {
	folder := t.TempDir()
	path, err := doctor.Programs(t.Context(), folder, b.KubectlPath())
	if err != nil {
		t.Fatal(err)
	}
	w := ward{b, doctor.Console{Kubeconfig: b.Kubeconfig(), Path: path, Cache: filepath.Join(folder, "cache")}}
	// Right after all that the other tests have done.
	if words := w.findings(t); len(words) > 0 {
		t.Fatalf("nothing is wrong, and doctor finds\n%s", strings.Join(words, "\n"))
	}
	b.apply(t, claim("data", class, 32*mib), pod("user", forever, map[string]string{"data": ofClaim("data")}))
	b.wantReady(t, "user")
	for _, s := range slices.Concat(w.nodeSituations(), w.podSituations(), w.claimSituations(), w.volumeSituations(), w.installSituations()) {
		if !t.Run(s.name, func(t *testing.T) { w.run(t, s) }) {
			return // the next ones would not be alone
		}
	}
	b.install(t) // with our own pools again
	if restarts := b.kubectl(t, "get", "pod", "user", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("the pod was restarted %s times", restarts)
	}
}

func (w ward) run(t *testing.T, s situation) {
	want := s.damage(t)
	found, err := w.person.Findings(t.Context())
	testbed.Eventually(t, patience, "what doctor finds", func() string {
		if err != nil {
			t.Fatal(err)
		}
		complaint := cmp.Diff(want, doctor.Names(found))
		if complaint != "" {
			found, err = w.person.Findings(t.Context())
		}
		return complaint
	})
	var looks []string
	for _, f := range found {
		t.Logf("%s %s: %s\n%s", f.Check, f.Object, f.Wrong, f.Command)
		if f.Repairs {
			w.shell(t, f.Command)
		} else {
			looks = append(looks, f.Command)
		}
	}
	s.after(t, looks)
	testbed.Eventually(t, patience, "doctor is content", func() string { return strings.Join(w.findings(t), "\n") })
}

// findings are what doctor finds now, in words.
func (w ward) findings(t *testing.T) (words []string) {
	t.Helper()
	found, err := w.person.Findings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		words = append(words, fmt.Sprintf("%s: %s: %s", f.Check, f.Object, f.Wrong))
	}
	return words
}

// shell runs a command that has to succeed.
func (w ward) shell(t *testing.T, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stdout, stderr, code, err := w.person.Run(ctx, text)
	if err != nil || code != 0 {
		t.Fatalf("%s: status %d, %v\n%s%s", text, code, err, stdout, stderr)
	}
	return stdout
}

// idle is the node that the pod "user" is not on.
func (w ward) idle(t *testing.T) *cluster.Node {
	t.Helper()
	used := w.nodeOf(t, "user")
	return w.Nodes()[slices.IndexFunc(w.Nodes(), func(n *cluster.Node) bool { return n != used })]
}

func nothing(*testing.T, []string) {}

// installSituations are those that need no node. The first one undoes what others have
// left of the DaemonSet's flags.
func (w ward) installSituations() (all []situation) {
	for _, s := range doctor.Situations() {
		all = append(all, situation{s.Name, func(t *testing.T) []string {
			w.shell(t, s.Damage)
			return []string{s.Want}
		}, func(t *testing.T, _ []string) { w.shell(t, s.After) }})
	}
	return all
}

// nodeSituations are about what a node has and publishes.
func (w ward) nodeSituations() []situation {
	rename := func(t *testing.T, from, to string) { w.idle(t).MustRun(t, "vgrename", from, to) }
	// kubectl does something to the idle node, which doctor finds by that check.
	kubectl := func(check, format string) func(*testing.T) []string {
		return func(t *testing.T) []string {
			name := w.idle(t).Name()
			w.shell(t, fmt.Sprintf(format, name))
			return []string{check + " node " + name}
		}
	}
	// onlyOn takes a node's name in quotes, or null for all nodes. (kubelet takes labels that
	// are its own back within seconds, so it is the DaemonSet that is changed.)
	onlyOn := func(t *testing.T, host string) {
		w.shell(t, `kubectl patch daemonset -n kube-system csi-local-node --patch '{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":`+host+`}}}}}'`)
		w.wantRolledOut(t, "daemonset/csi-local-node")
	}
	return []situation{
		{"no volume group", func(t *testing.T) []string {
			rename(t, group, "vg-other")
			// LVM is looked at once a minute, and whenever there is something to do.
			w.apply(t, claim("early", class, 4*mib), pod("early", forever, map[string]string{"data": ofClaim("early")}, "nodeSelector: {kubernetes.io/hostname: "+w.idle(t).Name()+"}"))
			return []string{"event-unreadable node " + w.idle(t).Name()}
		}, func(t *testing.T, _ []string) {
			rename(t, "vg-other", group)
			w.wantReady(t, "early")
		}},
		{"a node without the driver", func(t *testing.T) []string {
			onlyOn(t, strconv.Quote(w.nodeOf(t, "user").Name()))
			return []string{"node-without-driver node " + w.idle(t).Name()}
		}, func(t *testing.T, _ []string) { onlyOn(t, "null") }},
		{"a newer version has published", kubectl("published-by-newer", "kubectl annotate node %s --overwrite "+driver+
			`/capacity-report='{"bootID":"b","changed":"2030-01-01T00:00:00Z","format":1,"generation":3,"writer":"v9.0.0"}'`), nothing},
		{"a pause", kubectl("published-paused", "kubectl annotate node %s "+driver+"/capacity-pause=yes"), nothing},
	}
}

// podSituations are about Deployments, and pods that use volumes.
func (w ward) podSituations() []situation {
	scaled := func(t *testing.T, name string) []string {
		w.shell(t, "kubectl scale -n kube-system deployment "+name+" --replicas=0")
		return []string{strings.TrimPrefix(name, "csi-local-") + "-down deployment kube-system/" + name}
	}
	makes := func(t *testing.T, name, scheduledBy string) {
		w.apply(t, claim(name, class, 4*mib), strings.ReplaceAll(pod(name, forever, map[string]string{"data": ofClaim(name)}), scheduler, scheduledBy))
	}
	return []situation{
		{"no scheduler", func(t *testing.T) []string {
			want := scaled(t, scheduler)
			makes(t, "waits", scheduler)
			return want
		}, func(t *testing.T, _ []string) { w.wantReady(t, "waits") }},
		{"no controller runs", func(t *testing.T) []string { return scaled(t, "csi-local-controller") }, nothing},
		{"a pod of another scheduler", func(t *testing.T) []string {
			makes(t, "stray", "default-scheduler")
			w.wantReady(t, "stray")
			return []string{"scheduler-of-pods pod " + w.namespace + "/stray"}
		}, func(t *testing.T, _ []string) {
			w.wantReady(t, "stray")
			if got := w.kubectl(t, "get", "pod", "stray", "-o", "jsonpath={.spec.schedulerName}"); got != scheduler {
				t.Errorf("the pod asks for %s", got)
			}
		}},
	}
}

// claimSituations are four claims that wait for ever, of which three can be helped.
func (w ward) claimSituations() []situation {
	of := func(check, name string) string {
		return "claim-" + check + " persistentvolumeclaim " + w.namespace + "/" + name
	}
	return []situation{{"claims that wait for ever", func(t *testing.T) []string {
		w.apply(t, claim("many", class, 4*mib, "accessModes: [ReadWriteMany]"), claim("selects", class, 4*mib, "selector: {matchLabels: {disk: new}}"),
			claim("large", class, 1<<50), claim("nowhere", class, 4*mib))
		w.kubectl(t, "annotate", "persistentvolumeclaim", "nowhere", "volume.kubernetes.io/selected-node=nowhere")
		return []string{of("access-mode", "many"), of("node-gone", "nowhere"), of("selector", "selects"), of("too-large", "large")}
	}, func(t *testing.T, _ []string) {
		w.apply(t, pod("helped", forever, map[string]string{"many": ofClaim("many"), "selects": ofClaim("selects"), "nowhere": ofClaim("nowhere")}))
		w.wantReady(t, "helped")
	}}}
}

// volumeSituations are about PersistentVolumes. The last one leaves drivers that look for
// orphans all the time.
func (w ward) volumeSituations() []situation {
	// used makes a volume, puts a word into it, and deletes the pod that did.
	used := func(t *testing.T, name string) (volume string) {
		w.apply(t, claim(name, class, 32*mib), pod(name, forever, map[string]string{"data": ofClaim(name)}))
		w.wantReady(t, name)
		w.mustExec(t, name, "echo precious > /data/file; sync")
		w.kubectl(t, "delete", "pod", name)
		return w.kubectl(t, "get", "persistentvolumeclaim", name, "-o", "jsonpath={.spec.volumeName}")
	}
	policy := func(t *testing.T, volume, policy string) {
		w.shell(t, "kubectl patch persistentvolume "+volume+` --patch '{"spec":{"persistentVolumeReclaimPolicy":"`+policy+`"}}'`)
	}
	var volume string
	return []situation{
		{"an attachment", func(t *testing.T) []string {
			w.apply(t, fmt.Sprintf(attachment, driver, w.nodeOf(t, "user").Name(), w.kubectl(t, "get", "persistentvolumeclaim", "data", "-o", "jsonpath={.spec.volumeName}")))
			return []string{"volume-attachment volumeattachment e2e-stale"}
		}, nothing},
		{"a volume of a node that is gone", func(t *testing.T) []string {
			w.apply(t, fmt.Sprintf(elsewhere, driver))
			return []string{"volume-node-gone persistentvolume e2e-elsewhere"}
		}, nothing},
		{"a retained volume", func(t *testing.T) []string {
			volume = used(t, "kept")
			policy(t, volume, "Retain")
			w.kubectl(t, "delete", "persistentvolumeclaim", "kept")
			return []string{"volume-retained persistentvolume " + volume}
		}, func(t *testing.T, _ []string) {
			w.apply(t, claim("again", class, 32*mib, "volumeName: "+volume), pod("again", forever, map[string]string{"data": ofClaim("again")}))
			w.wantReady(t, "again")
			if got := w.mustExec(t, "again", "cat /data/file"); got != "precious" {
				t.Errorf("the volume has %q", got)
			}
			policy(t, volume, "Delete")
		}},
		{"a lost PersistentVolume", func(t *testing.T) []string {
			if _, err := kill.HurryOrphans(t.Context(), w.Cluster); err != nil {
				t.Fatal(err)
			}
			volume = used(t, "lost")
			node := w.Must(t, "get", "persistentvolume", volume, "-o", "jsonpath={.spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]}")
			w.shell(t, "kubectl delete persistentvolume "+volume+" --wait=false && kubectl patch persistentvolume "+volume+` --type=merge -p '{"metadata":{"finalizers":null}}'`)
			return []string{"claim-lost persistentvolumeclaim " + w.namespace + "/lost", "event-orphan node " + node}
		}, func(t *testing.T, looks []string) {
			if list := w.shell(t, looks[0]); !strings.Contains(list, volume) {
				t.Errorf("%s: no %s in\n%s", looks[0], volume, list)
			}
			w.shell(t, strings.Replace(looks[0], "orphans list", "orphans delete "+volume+" --yes", 1))
		}},
	}
}

const attachment = `
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: e2e-stale}
spec: {attacher: %s, nodeName: %s, source: {persistentVolumeName: %s}}
`

const elsewhere = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: e2e-elsewhere}
spec:
  capacity: {storage: 4Mi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: local-dynamic-ssd
  csi: {driver: %[1]s, volumeHandle: vg-ssd/e2e-elsewhere, volumeAttributes: {pool: pool-ssd}}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: %[1]s/node, operator: In, values: [nowhere]}]}]}}
`
