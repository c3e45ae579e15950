package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// layout is which devices the wanted volume groups are on.
type layout struct {
	// uuids are the volume groups found, by name.
	uuids map[string]string
	// devices are those of all of them, sorted.
	devices []string
	// problems are volume groups that cannot be used, by name.
	problems map[string]error
}

// pvsRow is one physical volume in the report of discovery.
type pvsRow struct {
	Device string `json:"pv_name"`
	VGName string `json:"vg_name"`
	VGUUID string `json:"vg_uuid"`
}

// discoveryCommand lists all physical volumes of this machine.
func discoveryCommand() Command {
	return Command{Name: "pvs", Args: []string{"-o", "pv_name,vg_name,vg_uuid"}}
}

// discover looks at every disk of the machine, once, with a configuration of
// its own. Volume groups are told apart by UUID, because a cloned disk brings a
// second group with the name of the first.
func (c *Client) discover(ctx context.Context, wanted []VolumeGroupSelector) (layout, error) {
	result, err := c.observe(ctx, c.discovery, discoveryCommand(), 0)
	if err != nil {
		return layout{}, err
	}
	if result.ExitCode != 0 && noReport(result.Report) {
		return layout{}, &Error{Kind: ErrReport, Op: "pvs", Object: "all disks", ExitCode: result.ExitCode, Messages: result.Failures()}
	}
	rows, err := parsePhysicalVolumes(result.Report)
	if err != nil {
		return layout{}, err
	}
	found := chooseGroups(rows, wanted, c.learned)
	if result.ExitCode != 0 {
		// Some disk could not be read. What was found is there; of what was not
		// found, nothing is known.
		for name, problem := range found.problems {
			if errors.Is(problem, ErrVolumeGroupMissing) {
				return layout{}, &Error{Kind: ErrReport, Op: "pvs", Object: name, ExitCode: result.ExitCode, Messages: result.Failures()}
			}
		}
	}
	return found, nil
}

func parsePhysicalVolumes(raw json.RawMessage) ([]pvsRow, error) {
	if noReport(raw) {
		return nil, fmt.Errorf("%w: pvs without a report", ErrReport)
	}
	var sections []struct {
		PV []pvsRow `json:"pv"`
	}
	if err := json.Unmarshal(raw, &sections); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	var out []pvsRow
	for _, s := range sections {
		out = append(out, s.PV...)
	}
	return out, nil
}

// chooseGroups picks, for each wanted volume group, the one with the pinned or
// learned UUID, or the only one there is.
func chooseGroups(rows []pvsRow, wanted []VolumeGroupSelector, learned map[string]string) layout {
	byUUID := map[string]map[string][]string{} // name -> UUID -> devices
	for _, row := range rows {
		if row.VGName == "" {
			continue
		}
		if byUUID[row.VGName] == nil {
			byUUID[row.VGName] = map[string][]string{}
		}
		group := byUUID[row.VGName]
		group[row.VGUUID] = append(group[row.VGUUID], row.Device)
	}
	out := layout{uuids: map[string]string{}, problems: map[string]error{}}
	for _, want := range wanted {
		candidates := byUUID[want.Name]
		uuid := want.UUID
		if uuid == "" {
			uuid = learned[want.Name]
		}
		if uuid == "" && len(candidates) > 1 {
			out.problems[want.Name] = groupError(ErrVolumeGroupAmbiguous, want.Name,
				fmt.Sprintf("UUIDs %v; pin one of them", slices.Sorted(maps.Keys(candidates))))
			continue
		}
		if uuid == "" {
			for only := range candidates {
				uuid = only
			}
		}
		devices, ok := candidates[uuid]
		if !ok {
			out.problems[want.Name] = groupError(ErrVolumeGroupMissing, want.Name, missingDetail(uuid, candidates))
			continue
		}
		out.uuids[want.Name] = uuid
		for _, device := range devices {
			if device != "" && device[0] == '/' { // missing ones are "[unknown]"
				out.devices = append(out.devices, device)
			}
		}
	}
	slices.Sort(out.devices)
	out.devices = slices.Compact(out.devices)
	return out
}

func missingDetail(uuid string, candidates map[string][]string) string {
	switch {
	case len(candidates) > 0:
		return fmt.Sprintf("wanted with UUID %s, there are UUIDs %v", uuid, slices.Sorted(maps.Keys(candidates)))
	case uuid != "":
		return "wanted with UUID " + uuid
	}
	return "no disk of this machine belongs to it"
}

func groupError(kind error, name, detail string) *Error {
	return &Error{Kind: kind, Op: "vgs", Object: name, Messages: []string{detail}}
}
