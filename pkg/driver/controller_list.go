package driver

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// tokenPrefix begins every token of ListVolumes; the volume ID that was listed
// last follows. So a page begins behind a place in the order of IDs, whatever
// was made or deleted meanwhile, and a token stays good for ever.
const tokenPrefix = "after:"

// ListVolumes lists the persistent volumes of this node from the last known
// state, in the order of their IDs; no process is started.
func (s *controllerServer) ListVolumes(ctx context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if req.GetMaxEntries() < 0 {
		return nil, maxEntriesNegative.errorf(req.GetMaxEntries())
	}
	after, err := parseToken(req.GetStartingToken())
	if err != nil {
		return nil, err
	}
	inv, err := s.inventory(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.checkComplete(inv); err != nil {
		return nil, err
	}
	ids, byID := inv.persistent()
	ids = ids[sort.Search(len(ids), func(i int) bool { return ids[i] > after }):]
	out := &csi.ListVolumesResponse{}
	if most := int(req.GetMaxEntries()); most > 0 && len(ids) > most {
		ids = ids[:most]
		out.NextToken = tokenPrefix + ids[most-1]
	}
	for _, id := range ids {
		out.Entries = append(out.Entries, &csi.ListVolumesResponse_Entry{Volume: s.describe(byID[id])})
	}
	return out, nil
}

// persistent returns the IDs of all volumes that CreateVolume made, sorted.
func (inv *inventory) persistent() (ids []string, byID map[string]volume) {
	byID = make(map[string]volume, len(inv.volumes))
	for _, v := range inv.volumes {
		if v.EphemeralPodUID == "" {
			ids = append(ids, v.ID())
			byID[v.ID()] = v
		}
	}
	sort.Strings(ids)
	return ids, byID
}

// checkComplete refuses to list while a volume group cannot be read: whoever
// asks would take its volumes for deleted.
func (d *Driver) checkComplete(inv *inventory) error {
	for _, pool := range d.pools() {
		if _, readable := inv.state.VolumeGroup(pool.VolumeGroup); readable {
			continue
		}
		if err, bad := inv.state.Problems[pool.VolumeGroup]; bad {
			return fmt.Errorf("volumes of pool %s cannot be listed: %w", pool.Name, err)
		}
	}
	return nil
}

func parseToken(token string) (after string, err error) {
	if token == "" {
		return "", nil
	}
	after, ours := strings.CutPrefix(token, tokenPrefix)
	if !ours {
		return "", tokenInvalid.errorf(token)
	}
	if _, err := parseVolumeID(after); err != nil {
		return "", tokenInvalid.errorf(token)
	}
	return after, nil
}
