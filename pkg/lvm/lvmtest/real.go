package lvmtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Real makes volume groups on block devices and works on them by hand. It uses an
// LVM configuration of its own, which sees these devices only and writes no
// backups; Admin is what an administrator's shell would do.
type Real struct {
	// Disks are the block devices that may be used; what is on them is lost.
	Disks []string
	// Options are for the clients; VolumeGroups and RunDir are set here.
	Options lvm.Options

	systemDir string
	used      int
	groups    []string // names of the volume groups made
}

// NewReal prepares the disks. Volume groups made on them are destroyed with the test.
func NewReal(t *testing.T, disks []string, options lvm.Options) *Real {
	t.Helper()
	r := &Real{Disks: disks, Options: options, systemDir: t.TempDir()}
	config := "devices {\n\tuse_devicesfile = 0\n\tscan_lvs = 0\n\tmd_component_detection = 0\n\tmultipath_component_detection = 0\n\tglobal_filter = [ " +
		r.filter() + " ]\n}\nbackup {\n\tbackup = 0\n\tarchive = 0\n}\nactivation {\n\tmonitoring = 0\n}\n"
	if err := os.WriteFile(filepath.Join(r.systemDir, "lvm.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r.destroy(t)
	t.Cleanup(func() { r.destroy(t) })
	return r
}

func (r *Real) filter() string {
	var b strings.Builder
	for _, disk := range r.Disks {
		fmt.Fprintf(&b, `"a|^%s$|", `, disk)
	}
	return b.String() + `"r|.*|"`
}

// destroy takes down every volume and makes the disks blank.
func (r *Real) destroy(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	// A group may be damaged, so what cannot be taken down by LVM is by device mapper.
	_, _ = r.run(ctx, "lvm", "vgchange", "-an", "--nolocking")
	r.unmap(ctx, t)
	for _, name := range r.groups {
		// Links that nobody took away are in the way of the next group of the name.
		if err := os.RemoveAll("/dev/" + name); err != nil {
			t.Error(err)
		}
	}
	for _, disk := range r.Disks {
		// The label is in the first sectors, the metadata in the rest of the first MiB.
		f, err := os.OpenFile(disk, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 2*mib)); err != nil {
			t.Error(err)
		}
		if err := f.Sync(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	r.used = 0
}

// unmap removes LVM's devices from the kernel. They are stacked, and what is below
// cannot be removed before what is above: each pass takes a layer away.
func (r *Real) unmap(ctx context.Context, t *testing.T) {
	t.Helper()
	const layers = 6
	for range layers {
		out, err := r.run(ctx, "dmsetup", "info", "-c", "--noheadings", "--separator", " ", "-o", "name,uuid")
		if err != nil {
			t.Fatal(err)
		}
		left := false
		for line := range strings.Lines(out) {
			if name, uuid, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(uuid, "LVM-") {
				left = true
				_, _ = r.run(ctx, "dmsetup", "remove", "--force", name)
			}
		}
		if !left {
			return
		}
	}
}

// run starts a program with the private configuration and returns what it printed.
func (r *Real) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LVM_SUPPRESS_FD_WARNINGS=1", "LVM_SYSTEM_DIR="+r.systemDir)
	var out, diagnosis bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %v: %w: %s%s", name, args, err, out.String(), diagnosis.String())
	}
	return out.String(), nil
}

// Admin runs an LVM command by hand and returns what it printed.
func (r *Real) Admin(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.run(t.Context(), "lvm", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Command runs another program, such as dmsetup.
func (r *Real) Command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := r.run(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Host runs an LVM command with the host's own configuration, as an administrator
// does who knows nothing of ours, and returns what it printed.
func (r *Real) Host(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "lvm", args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LVM_SUPPRESS_FD_WARNINGS=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("lvm %v: %w: %s", args, err, out)
	}
	return string(out), nil
}

// Try is Command that may fail, also after the test's context has ended.
func (r *Real) Try(name string, args ...string) (string, error) {
	return r.run(context.Background(), name, args...)
}

// Client is NewClient with the real type.
func (r *Real) Client(t *testing.T, groups ...lvm.VolumeGroupSelector) *lvm.Client {
	t.Helper()
	options := r.Options
	options.VolumeGroups = groups
	options.RunDir = t.TempDir()
	c, err := lvm.NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// NewClient is a client as a new process has it.
func (r *Real) NewClient(t *testing.T, groups ...lvm.VolumeGroupSelector) Client {
	t.Helper()
	return r.Client(t, groups...)
}

// TakeDisk returns a disk that no group is on yet.
func (r *Real) TakeDisk(t *testing.T) string {
	t.Helper()
	if r.used == len(r.Disks) {
		t.Fatalf("all %d disks are used", r.used)
	}
	r.used++
	return r.Disks[r.used-1]
}

// AddGroup makes a volume group on unused disks.
func (r *Real) AddGroup(t *testing.T, name string, extentSizeBytes int64, disks int) string {
	t.Helper()
	r.groups = append(r.groups, name)
	var chosen []string
	for range disks {
		chosen = append(chosen, r.TakeDisk(t))
	}
	// LVM makes no second group of a name, unless it cannot see the first.
	only := `devices/global_filter=["a|^(` + strings.Join(chosen, "|") + `)$|","r|.*|"]`
	args := append([]string{"vgcreate", "--config", only, "-s", strconv.FormatInt(extentSizeBytes, 10) + "b", name}, chosen...)
	r.Admin(t, args...)
	return strings.TrimSpace(r.Admin(t, "vgs", "--config", only, "--noheadings", "-o", "vg_uuid", name))
}

// Empty removes all volumes of a group.
func (r *Real) Empty(t *testing.T, group string) {
	t.Helper()
	out := r.Admin(t, "lvs", "--noheadings", "-o", "lv_name", group)
	if strings.TrimSpace(out) != "" {
		r.Admin(t, "lvremove", "-ff", "-y", group)
	}
}

// Hold keeps a device open until release.
func (r *Real) Hold(t *testing.T, lv lvm.LogicalVolume) (release func()) {
	t.Helper()
	f, err := os.Open(lv.Path)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Mount makes a file system and keeps it mounted until unmount.
func (r *Real) Mount(t *testing.T, lv lvm.LogicalVolume) (unmount func()) {
	t.Helper()
	r.Command(t, "mkfs.ext4", "-q", lv.Path)
	dir := t.TempDir()
	r.Command(t, "mount", lv.Path, dir)
	return func() { r.Command(t, "umount", dir) }
}

// LimitVolumes bounds the visible volumes of a group; 0 lifts the bound.
func (r *Real) LimitVolumes(t *testing.T, group string, count int64) {
	t.Helper()
	r.Admin(t, "vgchange", "-l", strconv.FormatInt(count, 10), group)
}

// Snapshot makes a thick snapshot.
func (r *Real) Snapshot(t *testing.T, origin lvm.Ref, name string, sizeBytes int64) {
	t.Helper()
	r.Admin(t, "lvcreate", "-y", "-s", "-L", strconv.FormatInt(sizeBytes, 10)+"b", "-n", name, origin.String())
}

// Create makes a linear volume.
func (r *Real) Create(t *testing.T, ref lvm.Ref, sizeBytes int64) {
	t.Helper()
	r.Admin(t, "lvcreate", "-y", "-Wn", "-Zn", "-L", strconv.FormatInt(sizeBytes, 10)+"b", "-n", ref.Name, ref.VolumeGroup)
}

// Tag adds a tag.
func (r *Real) Tag(t *testing.T, ref lvm.Ref, tag string) {
	t.Helper()
	r.Admin(t, "lvchange", "--addtag", tag, ref.String())
}

// Remove removes a volume.
func (r *Real) Remove(t *testing.T, ref lvm.Ref) {
	t.Helper()
	r.Admin(t, "lvremove", "-y", ref.String())
}

// FillPool writes until the pool has no space; the pool then fails writes at once,
// instead of a minute later.
func (r *Real) FillPool(t *testing.T, pool, thin lvm.LogicalVolume) {
	t.Helper()
	r.Admin(t, "lvchange", "-y", "--errorwhenfull", "y", pool.Ref().String())
	f, err := os.OpenFile(thin.Path, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	for offset := int64(0); offset < thin.SizeBytes && failed == nil; offset += mib {
		_, failed = f.WriteAt(make([]byte, mib), offset)
	}
	if failed == nil {
		t.Fatalf("a pool of %d bytes took %d", pool.SizeBytes, thin.SizeBytes)
	}
	// Closing may report the same failed write.
	_ = f.Close()
}

// DamagePool overwrites the superblock of the pool's metadata.
func (r *Real) DamagePool(t *testing.T, pool lvm.LogicalVolume) {
	t.Helper()
	lines := func(args ...string) []string {
		return strings.Split(strings.TrimSpace(r.Admin(t, append(args, "--noheadings", "--units", "b", "--nosuffix")...)), "\n")
	}
	where := lines("lvs", "-a", "-o", "devices", pool.VolumeGroup+"/"+pool.Name+"_tmeta")[0]
	disk, extent, _ := strings.Cut(strings.Trim(where, " )"), "(")
	geometry := strings.Fields(lines("pvs", "-o", "pe_start,vg_extent_size", disk)[0])
	var numbers [3]int64
	for i, text := range append(geometry, extent) {
		var err error
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	writeAt(t, disk, strings.Repeat("garbage ", 512), numbers[0]+numbers[1]*numbers[2])
}

// PullDisk hides the last disk by hiding its label.
func (r *Real) PullDisk(t *testing.T, _ string) (putBack func()) {
	t.Helper()
	disk := r.Disks[r.used-1]
	label := readAt(t, disk, 4096, 0)
	writeAt(t, disk, strings.Repeat("\x00", 4096), 0)
	return func() { writeAt(t, disk, label, 0) }
}
