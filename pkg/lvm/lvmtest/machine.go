package lvmtest

import (
	"context"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Client is what the suite asks of *lvm.Client and *lvmfake.LVM.
type Client interface {
	State(ctx context.Context) (*lvm.State, error)
	Refresh(ctx context.Context) (*lvm.State, error)
	Create(ctx context.Context, req lvm.CreateRequest) (lvm.LogicalVolume, error)
	CreateThinPool(ctx context.Context, req lvm.ThinPoolRequest) (lvm.LogicalVolume, error)
	Remove(ctx context.Context, ref lvm.Ref) error
	Extend(ctx context.Context, ref lvm.Ref, sizeBytes int64) (lvm.LogicalVolume, error)
	Activate(ctx context.Context, ref lvm.Ref) (lvm.LogicalVolume, error)
	Deactivate(ctx context.Context, ref lvm.Ref) error
	Rename(ctx context.Context, ref lvm.Ref, newName string) error
	ChangeTags(ctx context.Context, ref lvm.Ref, add, remove []string) error
	ChangeTagsUnlessOrigin(ctx context.Context, ref lvm.Ref, add, remove []string) error
	SetVolumeGroups(groups []lvm.VolumeGroupSelector) error
	Subscribe() (changes <-chan struct{}, cancel func())
	Healthy(ctx context.Context) error
	Close() error
}

// Machine is what happens around the client: disks and an administrator. Its
// methods fail the test if they cannot do what is asked, and do it without the
// client's knowledge.
type Machine interface {
	// NewClient is a client as a new process has it. It is closed with the test.
	NewClient(t *testing.T, groups ...lvm.VolumeGroupSelector) Client
	// AddGroup makes a volume group on that many unused disks of at least 200 MiB,
	// whether or not another group has the name, and returns its UUID.
	AddGroup(t *testing.T, name string, extentSizeBytes int64, disks int) string
	// Empty removes all volumes of a group.
	Empty(t *testing.T, group string)
	// LimitVolumes bounds the visible volumes of a group; 0 lifts the bound.
	LimitVolumes(t *testing.T, group string, count int64)
	// Hold keeps a device open until release.
	Hold(t *testing.T, lv lvm.LogicalVolume) (release func())
	// Mount keeps a device mounted until unmount.
	Mount(t *testing.T, lv lvm.LogicalVolume) (unmount func())
	// Snapshot makes a thick snapshot.
	Snapshot(t *testing.T, origin lvm.Ref, name string, sizeBytes int64)
	// Create, Tag and Remove work on a linear volume.
	Create(t *testing.T, ref lvm.Ref, sizeBytes int64)
	Tag(t *testing.T, ref lvm.Ref, tag string)
	Remove(t *testing.T, ref lvm.Ref)
	// FillPool writes to an active thin volume until its pool has no space.
	FillPool(t *testing.T, pool, thin lvm.LogicalVolume)
	// DamagePool makes the metadata of an inactive thin pool such that it needs repair.
	DamagePool(t *testing.T, pool lvm.LogicalVolume)
	// PullDisk takes the last disk out of the machine until putBack. It must hold no volume.
	PullDisk(t *testing.T, group string) (putBack func())
}

const mib = 1 << 20

// bed is a volume group that the cases of one part of the suite share, empty at
// the beginning of each.
type bed struct {
	machine Machine
	client  Client
	group   string
	extent  int64
}

func (b *bed) ref(name string) lvm.Ref { return lvm.Ref{VolumeGroup: b.group, Name: name} }

func (b *bed) linear(name string, sizeBytes int64) lvm.CreateRequest {
	return lvm.CreateRequest{Ref: b.ref(name), SegmentType: lvm.SegLinear, SizeBytes: sizeBytes}
}

// refreshed is the group as LVM has it now.
func (b *bed) refreshed(t *testing.T) lvm.VolumeGroup {
	t.Helper()
	state, err := b.client.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vg, ok := state.VolumeGroup(b.group)
	if !ok {
		t.Fatalf("no volume group %s: %v", b.group, state.Problems)
	}
	return vg
}

// known is the volume as the client knows it without asking.
func (b *bed) known(t *testing.T, ref lvm.Ref) (lvm.LogicalVolume, bool) {
	t.Helper()
	state, err := b.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state.LogicalVolume(ref)
}

func (b *bed) create(t *testing.T, req lvm.CreateRequest) lvm.LogicalVolume {
	t.Helper()
	lv, err := b.client.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return lv
}

// active creates and activates.
func (b *bed) active(t *testing.T, req lvm.CreateRequest) lvm.LogicalVolume {
	t.Helper()
	b.create(t, req)
	lv, err := b.client.Activate(t.Context(), req.Ref)
	if err != nil {
		t.Fatal(err)
	}
	return lv
}

func (b *bed) pool(t *testing.T, name string, sizeBytes int64) lvm.LogicalVolume {
	t.Helper()
	lv, err := b.client.CreateThinPool(t.Context(), lvm.ThinPoolRequest{Ref: b.ref(name), SizeBytes: sizeBytes})
	if err != nil {
		t.Fatal(err)
	}
	return lv
}

func (b *bed) thin(name, pool string, sizeBytes int64) lvm.CreateRequest {
	return lvm.CreateRequest{Ref: b.ref(name), SegmentType: lvm.SegThin, ThinPool: pool, SizeBytes: sizeBytes}
}
