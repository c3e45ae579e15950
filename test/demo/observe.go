package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/csi-local/csi-local/test/screen"
)

// picture is what LVM and the mount table say at one moment: for each thing its name and
// its description as a line of text.
type picture struct {
	volumes map[string]string // by volume group and name
	mounts  map[string]string // by mount point
	groups  map[string]string // by volume group
	// freeExtents is the number of free extents, by volume group.
	freeExtents map[string]int64
}

type changeKind string

const (
	added   changeKind = "+"
	changed changeKind = "~"
	removed changeKind = "-"
)

// change is one line of difference between two pictures.
type change struct {
	source string // lvs, vgs or mount
	kind   changeKind
	text   string
}

// observe asks LVM by commands of its own, as an administrator would, so that it does not
// repeat what the driver believes.
func observe(ctx context.Context, groups []string, mountsUnder string) (picture, error) {
	pic := picture{volumes: map[string]string{}, groups: map[string]string{}, freeExtents: map[string]int64{}}
	if err := pic.readVolumes(ctx, groups); err != nil {
		return pic, err
	}
	if err := pic.readGroups(ctx, groups); err != nil {
		return pic, err
	}
	return pic, pic.readMounts(mountsUnder)
}

func (pic *picture) readVolumes(ctx context.Context, groups []string) error {
	rows, err := report(ctx, "lvs", "lv", "lv_full_name,lv_size,segtype,data_percent,lv_tags", groups)
	if err != nil {
		return err
	}
	for _, r := range rows {
		size, err := strconv.ParseInt(r["lv_size"], 10, 64)
		if err != nil {
			return fmt.Errorf("lvs: %w", err)
		}
		text := fmt.Sprintf("%-24s %9s  %-9s", r["lv_full_name"], screen.Mebibytes(size), r["segtype"])
		if r["data_percent"] != "" {
			text += "  " + r["data_percent"] + " % full"
		}
		text += "  " + lifeTags(r["lv_tags"])
		pic.volumes[r["lv_full_name"]] = strings.TrimRight(text, " ")
	}
	return nil
}

// lifeTags keeps of a volume's tags those that tell where it is in its life.
func lifeTags(tags string) string {
	var kept []string
	for tag := range strings.SplitSeq(tags, ",") {
		text, ours := strings.CutPrefix(tag, "csi-local/")
		if ours && (strings.HasPrefix(text, "state=") || strings.HasPrefix(text, "fs=")) {
			kept = append(kept, text)
		}
	}
	slices.Sort(kept)
	return strings.Join(kept, " ")
}

func (pic *picture) readGroups(ctx context.Context, groups []string) error {
	rows, err := report(ctx, "vgs", "vg", "vg_name,vg_extent_size,vg_extent_count,vg_free_count", groups)
	if err != nil {
		return err
	}
	for _, r := range rows {
		free, err := strconv.ParseInt(r["vg_free_count"], 10, 64)
		if err != nil {
			return fmt.Errorf("vgs: %w", err)
		}
		pic.freeExtents[r["vg_name"]] = free
		pic.groups[r["vg_name"]] = fmt.Sprintf("%-24s %s of %s extents free", r["vg_name"], r["vg_free_count"], r["vg_extent_count"])
	}
	return nil
}

// report runs a reporting command and returns its rows.
func report(ctx context.Context, command, object, fields string, groups []string) ([]map[string]string, error) {
	args := []string{"--reportformat", "json", "--units", "b", "--nosuffix", "-o", fields}
	output, err := exec.CommandContext(ctx, command, append(args, groups...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	var answer struct {
		Report []map[string][]map[string]string `json:"report"`
	}
	if err := json.Unmarshal(output, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	var rows []map[string]string
	for _, r := range answer.Report {
		rows = append(rows, r[object]...)
	}
	return rows, nil
}

func (pic *picture) readMounts(under string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(under))
	if err != nil {
		return err
	}
	pic.mounts = map[string]string{}
	for _, m := range mounts {
		source := lvmName(m.Source)
		if m.Root != "/" { // a bind mount of one file: a block volume's device
			source = lvmName("/dev" + m.Root)
		}
		options, _, _ := strings.Cut(m.Options, ",")
		pic.mounts[m.Mountpoint] = fmt.Sprintf("%-24s %9s  %-3s at %s", source, m.FSType, options, lastOf(m.Mountpoint))
	}
	return nil
}

// lvmName turns a device-mapper path into the volume's name, where it is one. A hyphen
// within a name is doubled there, and a single one stands between the names.
func lvmName(path string) string {
	mapped, ok := strings.CutPrefix(path, "/dev/mapper/")
	if !ok {
		return path
	}
	const hyphen = "\x00"
	name := strings.Replace(strings.ReplaceAll(mapped, "--", hyphen), "-", "/", 1)
	return strings.ReplaceAll(name, hyphen, "-")
}

// lastOf keeps of a path its last two elements, and of a long one the beginning.
func lastOf(path string) string {
	const limit = 24
	elements := strings.Split(path, "/")
	elements = elements[max(0, len(elements)-2):]
	for i, e := range elements {
		if len(e) > limit {
			elements[i] = e[:limit/3] + "…"
		}
	}
	return "…/" + strings.Join(elements, "/")
}

// changesSince lists what is new, different or gone, each source in the order of its names.
func (pic *picture) changesSince(before picture) []change {
	list := differences("lvs", before.volumes, pic.volumes)
	list = append(list, differences("vgs", before.groups, pic.groups)...)
	return append(list, differences("mount", before.mounts, pic.mounts)...)
}

func differences(source string, before, after map[string]string) []change {
	var list []change
	for _, name := range slices.Sorted(maps.Keys(after)) {
		old, known := before[name]
		switch {
		case !known:
			list = append(list, change{source, added, after[name]})
		case old != after[name]:
			list = append(list, change{source, changed, after[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, still := after[name]; !still {
			list = append(list, change{source, removed, before[name]})
		}
	}
	slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(order(a.kind), order(b.kind)) })
	return list
}

func order(kind changeKind) int { return strings.Index("-~+", string(kind)) }
