package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/orphans"
)

// orphanBed is a node with a few volumes, and an API server.
type orphanBed struct {
	volumes  []orphans.Volume
	existing map[string]orphans.Answer
	err      error // of the API server
}

func (b *orphanBed) OrphanCandidates(context.Context) ([]orphans.Volume, error) {
	return b.volumes, nil
}

func (b *orphanBed) MarkVolume(context.Context, orphans.Volume, bool, time.Time) error { return nil }

func (b *orphanBed) DeleteOrphan(ctx context.Context, v orphans.Volume, confirm func(context.Context) error) error {
	if err := confirm(ctx); err != nil {
		return err
	}
	for i := range b.volumes {
		if b.volumes[i].UUID == v.UUID {
			b.volumes = append(b.volumes[:i:i], b.volumes[i+1:]...)
			break
		}
	}
	return nil
}

func (b *orphanBed) PersistentVolume(_ context.Context, name string, _ bool) (orphans.Answer, error) {
	return b.existing[name], b.err
}

func (b *orphanBed) NodeUID(context.Context) (string, error) { return "u", b.err }

func newOrphanBed() *orphanBed {
	since := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	return &orphanBed{existing: map[string]orphans.Answer{}, volumes: []orphans.Volume{
		{ID: "vg/pvc-well", Name: "pvc-well", UUID: "1", Pool: "ssd", SizeBytes: 1 << 30, PoolBytes: 1 << 30, Used: true},
		{ID: "vg/pvc-leaked", Name: "pvc-leaked", UUID: "2", Pool: "ssd", SizeBytes: 4 << 20, PoolBytes: 4 << 20, Orphan: since},
		{
			ID: "vg/pvc-kept", Name: "pvc-kept", UUID: "3", Pool: "ssd", SizeBytes: 10 << 30, PoolBytes: 10 << 30, Orphan: since,
			Used: true, Filesystem: "xfs", Attributes: map[string]string{"pool": "ssd", "layout": "linear", "size": "10737418240", "filesystem": "xfs"},
		},
		{ID: "vg/pvc-block", Name: "pvc-block", UUID: "4", Pool: "ssd", SizeBytes: 1 << 20, PoolBytes: 4 << 20, Orphan: since, Used: true},
	}}
}

// serve answers on a socket and returns a function that runs csi-local orphans.
func (b *orphanBed) serve(t *testing.T) func(args ...string) (code int, stdout, stderr string) {
	t.Helper()
	keeper, err := orphans.New(orphans.Options{
		DriverName: "my.driver", NodeName: "n1", Node: b, API: b, Settings: orphans.DefaultSettings(), Metrics: orphans.NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "csi") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, adminSocketName)
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := driver.Listen(ctx, "unix://"+socket)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("whoever connects can delete volumes, and the socket is %v, %v", info.Mode(), err)
	}
	served := make(chan error, 1)
	go func() { served <- serveHTTP(ctx, listener, adminHandler(keeper)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return func(args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"orphans", "--admin-socket=" + socket}, args...), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
}

func TestOrphans_List(t *testing.T) {
	command := newOrphanBed().serve(t)
	code, stdout, stderr := command("list")
	want := `VOLUME          PERSISTENTVOLUME   POOL   SIZE    KIND       SINCE                  NEXT
vg/pvc-block    pvc-block          ssd    1 MiB   retained   2030-01-02T03:04:05Z   kept until an operator decides
vg/pvc-kept     pvc-kept           ssd    10 GiB  retained   2030-01-02T03:04:05Z   kept until an operator decides
vg/pvc-leaked   pvc-leaked         ssd    4 MiB   leaked     2030-01-02T03:04:05Z   deleted 1h0m0s after the next look, if its PersistentVolume stays missing
`
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if diff := cmp.Diff(squeeze(want), squeeze(stdout)); diff != "" || code != exitOK {
		t.Errorf("exit %d, %s (-want +got)\n%s", code, stderr, diff)
	}
	for _, form := range []string{"json", "yaml"} {
		_, stdout, stderr := command("list", "-o", form)
		var list struct{ Items []orphans.Entry }
		if err := yaml.Unmarshal([]byte(stdout), &list); err != nil || len(list.Items) != 3 || list.Items[1].SizeBytes != 10<<30 {
			t.Errorf("%s: %v\n%s%s", form, err, stdout, stderr)
		}
		if form == "json" && !json.Valid([]byte(stdout)) {
			t.Errorf("no JSON: %s", stdout)
		}
	}
}

func TestOrphans_ListOfNone(t *testing.T) {
	b := newOrphanBed()
	b.volumes = b.volumes[:1]
	if code, stdout, _ := b.serve(t)("list"); code != exitOK || stdout != "No orphans on this node\n" {
		t.Errorf("exit %d: %q", code, stdout)
	}
	if code, stdout, _ := b.serve(t)("list", "-o=json"); code != exitOK || !strings.Contains(stdout, `"items": []`) {
		t.Errorf("exit %d: %q", code, stdout)
	}
}

func TestOrphans_Adopt(t *testing.T) {
	command := newOrphanBed().serve(t)
	code, stdout, stderr := command("adopt", "pvc-kept", "--storage-class=fast", "--access-mode", "ReadWriteOncePod")
	want := `apiVersion: v1
kind: PersistentVolume
metadata:
  annotations:
    pv.kubernetes.io/provisioned-by: my.driver
  name: pvc-kept
spec:
  accessModes:
  - ReadWriteOncePod
  capacity:
    storage: 10Gi
  csi:
    driver: my.driver
    fsType: xfs
    volumeAttributes:
      filesystem: xfs
      layout: linear
      pool: ssd
      size: "10737418240"
    volumeHandle: vg/pvc-kept
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - key: my.driver/node
          operator: In
          values:
          - n1
  persistentVolumeReclaimPolicy: Retain
  storageClassName: fast
  volumeMode: Filesystem
`
	if diff := cmp.Diff(want, stdout); diff != "" || code != exitOK {
		t.Errorf("exit %d, %s (-want +got)\n%s", code, stderr, diff)
	}
	for name, mode := range map[string]v1.PersistentVolumeMode{"vg/pvc-block": v1.PersistentVolumeBlock, "pvc-leaked": v1.PersistentVolumeFilesystem} {
		_, stdout, stderr := command("adopt", "-o", "json", name)
		var got v1.PersistentVolume
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || *got.Spec.VolumeMode != mode || got.Spec.CSI.FSType != "" {
			t.Errorf("%s: %v, %s%s", name, err, stdout, stderr)
		}
	}
}

func TestOrphans_Delete(t *testing.T) {
	b := newOrphanBed()
	command := b.serve(t)
	code, stdout, stderr := command("delete", "pvc-kept", "--yes")
	if code != exitOK || stdout != "Deleted volume vg/pvc-kept, 10 GiB of pool ssd\n" || len(b.volumes) != 3 {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

func TestOrphans_Refusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*orphanBed)
		args   []string
		code   int
		says   string
	}{
		{"no command", nil, nil, exitUsage, "list, adopt NAME or delete NAME"},
		{"an unknown command", nil, []string{"destroy", "x"}, exitUsage, "list, adopt NAME or delete NAME"},
		{"no name", nil, []string{"delete"}, exitUsage, "delete NAME"},
		{"an unknown flag", nil, []string{"list", "--all"}, exitUsage, "csi-local orphans -h"},
		{"an unknown form", nil, []string{"list", "-o=xml"}, exitUsage, "-o xml"},
		{"a table of one object", nil, []string{"adopt", "pvc-kept", "-o=table"}, exitUsage, "list only"},
		{"no yes", nil, []string{"delete", "pvc-kept"}, exitUsage, "--yes"},
		{"a volume in order", nil, []string{"delete", "pvc-well", "--yes"}, exitFailed, "is in order"},
		{"nothing of that name", nil, []string{"adopt", "pvc-other"}, exitFailed, `no volume of this node has the name "pvc-other"`},
		{
			"its volume exists", func(b *orphanBed) {
				b.existing["pvc-kept"] = orphans.Answer{Found: true, Driver: "my.driver", Handle: "vg/pvc-kept"}
			},
			[]string{"delete", "pvc-kept", "--yes"}, exitFailed, "the PersistentVolume exists: pvc-kept",
		},
		{"no API server", func(b *orphanBed) { b.err = errors.New("connection refused") }, []string{"delete", "pvc-kept", "--yes"}, exitFailed, "connection refused"},
		{"an unknown access mode", nil, []string{"adopt", "pvc-kept", "--access-mode=ReadWriteMany"}, exitFailed, "ReadWriteMany"},
		{"an unknown volume mode", nil, []string{"adopt", "pvc-leaked", "--volume-mode=Tape"}, exitFailed, "Tape"},
		{"a file system as a block volume", nil, []string{"adopt", "pvc-kept", "--volume-mode=Block"}, exitFailed, "was used as Filesystem"},
		{"nobody there", nil, []string{"list", "--admin-socket=/nosuch/admin.sock"}, exitFailed, "csi-local node does not answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newOrphanBed()
			if tt.change != nil {
				tt.change(b)
			}
			code, stdout, stderr := b.serve(t)(tt.args...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.says) || len(b.volumes) != 4 {
				t.Errorf("exit %d, want %d with %q; %d volumes\n%s%s", code, tt.code, tt.says, len(b.volumes), stdout, stderr)
			}
		})
	}
}

func TestOrphans_Help(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"orphans", "-h"}, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), "-storage-class") {
		t.Errorf("exit %d\n%s%s", code, &stdout, &stderr)
	}
}

// What answers is not csi-local.
func TestOrphans_StrangeAnswer(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := driver.Listen(t.Context(), "unix://"+dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"orphans", "list", "--admin-socket=" + dir + "/s"}, &stdout, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "404") {
		t.Errorf("exit %d\n%s%s", code, &stdout, &stderr)
	}
}

func TestNode_LooksForOrphansOnlyWithAnAPIServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	kubeconfig := "--kubeconfig=" + kubeconfigFor(t, "http://127.0.0.1:1")
	for _, tt := range []struct {
		args []string
		want bool
	}{{nil, false}, {[]string{kubeconfig}, true}, {[]string{kubeconfig, "--publish=false"}, true}, {[]string{kubeconfig, "--orphan-policy=ignore"}, false}} {
		if n := nodeWith(t, tt.args...); (n.keeper != nil) != tt.want {
			t.Errorf("%v: keeper %v, want %v", tt.args, n.keeper != nil, tt.want)
		}
	}
}
