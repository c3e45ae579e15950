package lvm

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const checkFailed = "Check of pool vgA/tp failed (status:1). Manual repair required!"

// The check of a thin pool was seen to fail once beside a running udevd, right after
// the host's LVM had made the pool, and to pass when it was made again.
func TestClient_FailedPoolCheckIsMadeOnceMore(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	b.commands()
	b.on("lvcreate", refusal(checkFailed), reply{})
	req := CreateRequest{Ref: Ref{"vgA", "new"}, SegmentType: SegThin, ThinPool: "tp", SizeBytes: mib}
	if _, err := b.client.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"lvcreate", "fullreport", "lvcreate"}, b.commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestClient_PoolThatNeedsRepair(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	b.on("lvcreate", refusal(checkFailed), refusal(checkFailed))
	req := CreateRequest{Ref: Ref{"vgA", "new"}, SegmentType: SegThin, ThinPool: "tp", SizeBytes: mib}
	if _, err := b.client.Create(t.Context(), req); !errors.Is(err, ErrThinPoolRepair) {
		t.Errorf("got %v", err)
	}
}

// The same words of a disk mean that its sectors cannot be read.
func TestClient_VolumeThatItsThinPoolDoesNotKnow(t *testing.T) {
	const words = "device-mapper: reload ioctl on  (254:4) failed: No data available"
	for name, want := range map[string]error{"th": ErrThinDeviceMissing, "lin": ErrFailed} {
		b := newBed(t, nil)
		b.state(t)
		b.on("lvchange", refusal(words))
		if _, err := b.client.Activate(t.Context(), Ref{"vgA", name}); !errors.Is(err, want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
