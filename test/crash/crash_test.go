package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/vm"
)

const (
	mib = int64(1) << 20

	pod      = "pod"
	inlineID = "csi-0123456789abcdef"
)

const poolsFile = `pools:
- name: thick
  volumeGroup: crash-thick
  type: thick
  maxInlineSize: 1Gi
- name: thin
  volumeGroup: crash-thin
  type: thin
  thinPool: pool
`

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		if err := runNode(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "crash:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	vm.Main(m, vm.Options{Disks: []vm.Disk{{SizeBytes: 2 << 30}, {SizeBytes: 2 << 30}}})
}

// call is one RPC, what has to come before it, and what takes it back.
type call struct {
	name   string
	spec   nodeproc.Spec
	before action
	rpc    action
	after  action
}

type action func(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error

func create(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error {
	made, err := n.Create(ctx, v.Spec)
	if err == nil {
		*v = made
	}
	return err
}

func remove(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error {
	return n.Delete(ctx, v.ID)
}
func stage(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error { return n.Stage(ctx, *v) }
func unstage(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error {
	return n.Unstage(ctx, *v)
}

func publish(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error {
	_, err := n.Publish(ctx, *v, pod, false)
	return err
}

func unpublish(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error {
	return n.Unpublish(ctx, *v, pod)
}

func expand(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error {
	return n.Expand(ctx, v, pod, 96*mib)
}

func publishInline(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error {
	*v = nodeproc.Volume{Spec: v.Spec, ID: inlineID}
	target := n.TargetPath(*v, pod)
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	_, err := n.Node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: inlineID, TargetPath: target, VolumeCapability: v.Capability(),
		VolumeContext: map[string]string{"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.uid": pod, "pool": "thick", "size": "32Mi"},
	})
	return err
}

func nothing(context.Context, *nodeproc.Node, *nodeproc.Volume) error { return nil }

func all(actions ...action) action {
	return func(ctx context.Context, n *nodeproc.Node, v *nodeproc.Volume) error {
		for _, a := range actions {
			if err := a(ctx, n, v); err != nil {
				return err
			}
		}
		return nil
	}
}

func calls() []call {
	thick := nodeproc.Spec{Name: "pvc-thick", SizeBytes: 64 * mib, FSType: "ext4", Parameters: map[string]string{"pool": "thick"}}
	block, thin := thick, thick
	block.Name, block.FSType = "pvc-block", ""
	thin.Name, thin.Parameters = "pvc-thin", map[string]string{"pool": "thin"}
	down := all(unpublish, unstage, remove)
	return []call{
		{"CreateVolume thick", thick, nothing, create, remove},
		{"CreateVolume thin", thin, nothing, create, remove},
		{"NodeStageVolume ext4", thick, create, stage, all(unstage, remove)},
		{"NodeStageVolume thin ext4", thin, create, stage, all(unstage, remove)},
		{"NodeStageVolume block", block, create, stage, all(unstage, remove)},
		{"NodePublishVolume ext4", thick, all(create, stage), publish, down},
		{"NodePublishVolume block", block, all(create, stage), publish, down},
		{"NodeExpandVolume ext4", thick, all(create, stage, publish), expand, down},
		{"NodeUnpublishVolume ext4", thick, all(create, stage, publish), unpublish, all(unstage, remove)},
		{"NodeUnpublishVolume block", block, all(create, stage, publish), unpublish, all(unstage, remove)},
		{"NodeUnstageVolume ext4", thick, all(create, stage), unstage, remove},
		{"DeleteVolume never used", thick, create, remove, nothing},
		{"DeleteVolume thick", thick, all(create, stage, unstage), remove, nothing},
		{"DeleteVolume thin", thin, all(create, stage, unstage), remove, nothing},
		{"NodePublishVolume inline", thick, nothing, publishInline, unpublish},
		{"NodeUnpublishVolume inline", thick, publishInline, unpublish, nothing},
	}
}

func TestKilledAtEveryStep(t *testing.T) {
	ctx := t.Context()
	disks := strings.Fields(os.Getenv(vm.EnvDisks))
	for _, args := range [][]string{
		{"vgcreate", "-y", thickGroup, disks[0]},
		{"vgcreate", "-y", thinGroup, disks[1]},
		{"lvcreate", "-y", "--type", "thin-pool", "-l", "90%FREE", "-n", "pool", thinGroup},
	} {
		output(t, args...)
	}
	points := 0
	for _, c := range calls() {
		t.Run(c.name, func(t *testing.T) {
			step := int64(1)
			for ; dieAt(t, ctx, c, point{step, false}); step++ {
				if !dieAt(t, ctx, c, point{step, true}) {
					t.Fatalf("the process lives after step %d", step)
				}
				points += 2
			}
			if step == 1 {
				t.Error("the call has no step, so nothing was tested")
			}
		})
	}
	t.Logf("killed at %d points of %d calls", points, len(calls()))
}

// dieAt runs one call with the driver dying at p, then again with a new
// process, and compares the machine with what it was. It returns false if the
// call ended before it came to p.
func dieAt(t *testing.T, ctx context.Context, c call, p point) (died bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	before := look(t)
	folder := t.TempDir()
	node := start(t, ctx, folder)
	v := nodeproc.Volume{Spec: c.spec}
	if err := c.before(ctx, node, &v); err != nil {
		t.Fatalf("%v: before the call: %v", p, err)
	}
	when := "before"
	if p.after {
		when = "after"
	}
	if err := os.WriteFile(pointFile(folder), fmt.Appendf(nil, "%s %d", when, p.step), 0o600); err != nil {
		t.Fatal(err)
	}
	err := c.rpc(ctx, node, &v)
	if rmErr := os.Remove(pointFile(folder)); rmErr != nil {
		t.Fatal(rmErr)
	}
	if err != nil {
		select {
		case <-node.Exited():
			died = true
		case <-ctx.Done():
			t.Fatalf("%v: the call failed and the process lives: %v", p, err)
		}
		if killErr := node.Kill(); killErr != nil {
			t.Fatal(killErr)
		}
		node = start(t, ctx, folder)
		if err := untilEnded(ctx, func() error { return c.rpc(ctx, node, &v) }); err != nil {
			t.Fatalf("%v: the repeated call: %v\n%s", p, err, logOf(node))
		}
	}
	if err := c.after(ctx, node, &v); err != nil {
		t.Fatalf("%v: after the call: %v\n%s", p, err, logOf(node))
	}
	if diff := cmp.Diff(before, look(t)); diff != "" {
		t.Fatalf("%v: the machine is not as before (-before +after):\n%s\n%s", p, diff, logOf(node))
	}
	if err := node.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	return died
}

func start(t *testing.T, ctx context.Context, folder string) *nodeproc.Node {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	node, err := nodeproc.Start(ctx, nodeproc.Options{Binary: self, Folder: folder, Pools: poolsFile})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func logOf(n *nodeproc.Node) string {
	text, err := os.ReadFile(n.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// untilEnded repeats a call for as long as the answer is ABORTED, as provisioner
// and kubelet do: the new process may be at the volume by itself.
func untilEnded(ctx context.Context, do func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if status.Code(err) != codes.Aborted {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

// look is all of the machine that a call may change: free extents, logical
// volumes with their tags, mounts.
func look(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	// A volume group without volumes has no row here, and all its extents free.
	return output(t, "lvs", "-a", "--noheadings", "-o", "vg_name,vg_free_count,lv_name,lv_size,lv_tags,data_percent", thickGroup, thinGroup) + string(mounts)
}

func output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, exit.Stderr)
		}
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
