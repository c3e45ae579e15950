package poolconfig

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// build turns entries into pools, sorted by name, and checks that no two of
// them use the same space. where, which may be empty, tells the node.
func (r *reader) build(entries []entry, where string) []Pool {
	type space struct{ volumeGroup, thinPool string }
	users := map[space]string{}
	pools := make([]Pool, 0, len(entries))
	for _, e := range entries {
		pool, ok := r.pool(e)
		if !ok {
			continue
		}
		s := space{pool.VolumeGroup, pool.ThinPool}
		if other, taken := users[s]; taken {
			r.add(e.fields[fieldVolumeGroup], "pool %q uses the same %s as pool %q%s; each would promise all of it",
				pool.Name, spaceName(pool), other, where)
		}
		users[s] = pool.Name
		pools = append(pools, pool)
	}
	slices.SortFunc(pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return pools
}

func spaceName(p Pool) string {
	if p.ThinPool != "" {
		return "thin pool " + p.VolumeGroup + "/" + p.ThinPool
	}
	return "volume group " + p.VolumeGroup
}

// pool reads one complete entry; false if it has a problem.
func (r *reader) pool(e entry) (Pool, bool) {
	before := len(r.problems)
	p := Pool{
		Name:               e.name,
		VolumeGroup:        r.volumeGroup(e),
		VolumeGroupUUID:    r.uuid(e),
		Type:               word(r, e, fieldType, capacity.PoolTypes(), ""),
		ReserveBytes:       r.quantity(e, fieldReserve),
		OverprovisionRatio: DefaultOverprovisionRatio,
		DefaultFilesystem:  word(r, e, fieldFilesystem, capacity.Filesystems(), DefaultFilesystem),
		Wipe:               word(r, e, fieldWipe, capacity.WipePolicies(), DefaultWipe),
		MaxInlineSizeBytes: r.quantity(e, fieldMaxInline),
	}
	if _, ok := e.fields[fieldType]; !ok {
		r.add(e.at, "pool %q: the field type is missing; want thick or thin", e.name)
	}
	switch p.Type {
	case capacity.PoolThin:
		r.thin(e, &p)
	case capacity.PoolThick:
		for _, name := range thinOnlyFields() {
			if v, ok := e.fields[name]; ok {
				r.add(v, "is for thin pools only, and pool %q is thick", e.name)
			}
		}
	}
	return p, len(r.problems) == before
}

func (r *reader) thin(e entry, p *Pool) {
	p.ThinPool = r.thinPool(e)
	p.OverprovisionRatio = r.ratio(e)
	p.DataWatermarkPercent = r.percent(e, fieldDataWatermark, DefaultDataWatermarkPercent)
	p.MetadataWatermarkPercent = r.percent(e, fieldMetadataWatermark, DefaultMetadataWatermarkPercent)
}

func (r *reader) volumeGroup(e entry) string {
	v, ok := e.fields[fieldVolumeGroup]
	if !ok {
		r.add(e.at, "pool %q: the field volumeGroup is missing", e.name)
		return ""
	}
	name, ok := r.scalar(v, "the name of a volume group, in quotes if it looks like a number", "!!str")
	if ok {
		if problem := volumeGroupProblem(name); problem != "" {
			r.add(v, "%s", problem)
		}
	}
	return name
}

func (r *reader) thinPool(e entry) string {
	v, ok := e.fields[fieldThinPool]
	if !ok {
		r.add(e.at, "pool %q is thin: the field thinPool is missing", e.name)
		return ""
	}
	name, ok := r.scalar(v, "the name of a thin pool, in quotes if it looks like a number", "!!str")
	if ok {
		if problem := thinPoolProblem(name); problem != "" {
			r.add(v, "%s", problem)
		}
	}
	return name
}

func (r *reader) uuid(e entry) string {
	v, ok := e.fields[fieldVolumeGroupUUID]
	if !ok {
		return ""
	}
	uuid, ok := r.scalar(v, "a UUID as vgs -o vg_uuid prints it", "!!str")
	if ok && !isUUID(uuid) {
		r.add(v, "%q is no LVM UUID; want one as vgs -o vg_uuid prints it", shorten(uuid))
	}
	return uuid
}

func (r *reader) quantity(e entry, field string) int64 {
	v, ok := e.fields[field]
	if !ok {
		return 0
	}
	text, ok := r.scalar(v, "a quantity such as 10Gi", "!!str", "!!int", "!!float")
	if !ok {
		return 0
	}
	bytes, err := capacity.ParseBytes(text)
	if err != nil {
		r.add(v, "%v", err)
	}
	return bytes
}

func (r *reader) percent(e entry, field string, otherwise int) int {
	v, ok := e.fields[field]
	if !ok {
		return otherwise
	}
	const most = 100
	text, ok := r.scalar(v, "a whole number from 1 to 100, without a sign", "!!int")
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		r.add(v, "is %s; want a whole number from 1 to 100", shorten(text))
	}
	return n
}

func (r *reader) ratio(e entry) float64 {
	v, ok := e.fields[fieldOverprovision]
	if !ok {
		return DefaultOverprovisionRatio
	}
	want := fmt.Sprintf("a number from 1 to %d, with at most three decimals", MaxOverprovisionRatio)
	text, ok := r.scalar(v, want, "!!int", "!!float")
	if !ok {
		return DefaultOverprovisionRatio
	}
	ratio, err := strconv.ParseFloat(text, 64)
	const thousandths = 1000
	exact := math.Abs(ratio*thousandths-math.Round(ratio*thousandths)) < 1e-6
	if err != nil || !(ratio >= 1 && ratio <= MaxOverprovisionRatio) || !exact {
		r.add(v, "is %s; want %s", shorten(text), want)
	}
	return ratio
}

// word reads a field whose value is one of a few words.
func word[T ~string](r *reader, e entry, field string, allowed []T, otherwise T) T {
	v, ok := e.fields[field]
	if !ok {
		return otherwise
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	want := "one of " + strings.Join(names, ", ")
	text, ok := r.scalar(v, want, "!!str")
	if !ok {
		return otherwise
	}
	if !slices.Contains(names, text) {
		closest := capacity.ClosestName(text, names)
		if closest != "" {
			want = closest + " (" + want + ")"
		}
		r.add(v, "%q is not known; want %s", shorten(text), want)
		return otherwise
	}
	return T(text)
}
