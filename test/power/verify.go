package power

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/csi-local/csi-local/test/nodeproc"
)

// verify holds what is on the disks to what the journal says, finishes what the
// power cut interrupted the way provisioner and kubelet would, and leaves
// nothing behind. It returns how many volumes and slots it found intact.
func verify(ctx context.Context, node *nodeproc.Node, j *journal, volumes map[string]*history) (intact, slots int, err error) {
	found, err := node.List(ctx)
	if err != nil {
		return 0, 0, err
	}
	exists := map[string]bool{}
	for _, v := range found {
		exists[v.GetVolumeId()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		h := volumes[name]
		if h.created && !h.deleting && !exists[h.id] {
			return 0, 0, fmt.Errorf("volume %s (%s) was created and not deleted, and is lost", name, h.id)
		}
		if h.deleted {
			if exists[h.id] {
				return 0, 0, fmt.Errorf("volume %s (%s) was deleted and is back", name, h.id)
			}
			continue
		}
		n, err := settle(ctx, node, j, name, h)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", name, err)
		}
		if h.created && !h.deleting {
			intact++
			slots += n
		}
	}
	return intact, slots, nothingLeft(ctx, node)
}

// settle brings one volume to an end: what was begun is repeated, what was
// synced is compared, and then it is deleted.
func settle(ctx context.Context, node *nodeproc.Node, j *journal, name string, h *history) (slots int, err error) {
	if h.deleting {
		return 0, deleteVolume(ctx, node, j, name, h.id)
	}
	v, err := createVolume(ctx, node, j, h.claim)
	if err != nil {
		return 0, err
	}
	if h.created && v.ID != h.id {
		return 0, fmt.Errorf("the repeated creation answers %s, the first one %s", v.ID, h.id)
	}
	if v.CapacityBytes < h.minBytes {
		return 0, fmt.Errorf("has %d bytes, was answered %d", v.CapacityBytes, h.minBytes)
	}
	if err := publish(ctx, node, *v); err != nil {
		return 0, err
	}
	for slot, seed := range h.slots {
		if h.uncertain[slot] {
			continue
		}
		if err := checkSlot(node.TargetPath(*v, pod), v.FSType == "", slot, content(seed)); err != nil {
			return slots, err
		}
		slots++
	}
	if err := withdraw(ctx, node, *v); err != nil {
		return slots, err
	}
	return slots, deleteVolume(ctx, node, j, name, v.ID)
}

// nothingLeft asks both the driver and LVM.
func nothingLeft(ctx context.Context, node *nodeproc.Node) error {
	found, err := node.List(ctx)
	if err != nil {
		return err
	}
	for _, v := range found {
		return fmt.Errorf("volume %s is in the list, and nobody asked for it", v.GetVolumeId())
	}
	output, err := exec.CommandContext(ctx, "lvs", "-a", "--reportformat", "json", "-o", "lv_name,vg_name", thickGroup, thinGroup).Output()
	if err != nil {
		return err
	}
	var report struct {
		Report []struct {
			LV []struct {
				Name  string `json:"lv_name"`
				Group string `json:"vg_name"`
			}
		}
	}
	if err := json.Unmarshal(output, &report); err != nil {
		return err
	}
	var left []string
	for _, r := range report.Report {
		for _, lv := range r.LV {
			if lv.Group == thickGroup || !strings.Contains(lv.Name, thinPool) && !strings.Contains(lv.Name, "pmspare") {
				left = append(left, lv.Group+"/"+lv.Name)
			}
		}
	}
	if len(left) > 0 {
		return errors.New("LVM still has " + strings.Join(left, ", "))
	}
	return nil
}
