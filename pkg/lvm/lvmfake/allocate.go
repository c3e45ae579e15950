package lvmfake

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// run is a stretch of free extents.
type run struct{ start, length int64 }

// disk is one physical volume of a group.
type disk struct {
	device, uuid string
	extents      int64
	free         []run // sorted by start, never adjacent
	missing      bool
	closed       bool   // not allocatable
	bytes        string // file with what the disk holds; empty if the machine keeps none
}

func (d *disk) freeExtents() int64 {
	sum := int64(0)
	for _, r := range d.free {
		sum += r.length
	}
	return sum
}

func (d *disk) largestRun() run {
	var best run
	for _, r := range d.free {
		if r.length > best.length {
			best = r
		}
	}
	return best
}

// take uses the first n extents of the largest run.
func (d *disk) take(n int64) piece {
	best := d.largestRun()
	i := slices.Index(d.free, best)
	if n == best.length {
		d.free = slices.Delete(slices.Clone(d.free), i, i+1)
	} else {
		d.free = slices.Clone(d.free)
		d.free[i] = run{best.start + n, best.length - n}
	}
	return piece{disk: d, start: best.start, length: n}
}

func (d *disk) giveBack(p piece) {
	d.free = append(slices.Clone(d.free), run{p.start, p.length})
	slices.SortFunc(d.free, func(a, b run) int { return cmp.Compare(a.start, b.start) })
	merged := d.free[:0]
	for _, r := range d.free {
		if last := len(merged) - 1; last >= 0 && merged[last].start+merged[last].length == r.start {
			merged[last].length += r.length
		} else {
			merged = append(merged, r)
		}
	}
	d.free = merged
}

// piece is a stretch of extents of one disk that belong to a volume.
type piece struct {
	disk          *disk
	start, length int64
}

// places is where a volume lies: the pieces of each leg or stripe in order, and
// of what belongs to it without being data.
type places struct {
	legs     [][]piece
	metadata []piece
}

func (p places) all() []piece {
	return append(slices.Concat(p.legs...), p.metadata...)
}

func (p places) extents() int64 {
	sum := int64(0)
	for _, part := range p.all() {
		sum += part.length
	}
	return sum
}

// shape is what is to be allocated: legs of perLeg extents on distinct disks, and
// with each leg metadata extents before its data.
type shape struct {
	legs     int
	perLeg   int64
	metadata int64
}

// errNoExtents carries LVM's words.
var errNoExtents = errors.New("no extents")

// allocate finds extents as LVM's policy "normal" does: round by round, the disks
// with the largest free runs, one leg on each, as far as the smallest of them goes.
// On failure nothing is taken.
func (g *group) allocate(s shape) (places, error) {
	needed := int64(s.legs) * (s.perLeg + s.metadata)
	if free := g.freeExtents(); needed > free {
		return places{}, fmt.Errorf("%w: Volume group %q has insufficient free space (%d extents): %d required.",
			errNoExtents, g.name, free, needed)
	}
	if s.legs > len(g.disks) {
		return places{}, fmt.Errorf("%w: Number of stripes (%d) must not exceed number of physical volumes (%d)",
			errNoExtents, s.legs, len(g.disks))
	}
	before := make([][]run, len(g.disks))
	for i, d := range g.disks {
		before[i] = d.free
	}
	out := places{legs: make([][]piece, s.legs)}
	metadata := s.metadata
	for left := s.perLeg; left > 0; metadata = 0 {
		chosen := g.largest(s.legs, metadata+1)
		if chosen == nil {
			for i, d := range g.disks {
				d.free = before[i]
			}
			return places{}, fmt.Errorf("%w: Insufficient suitable allocatable extents for logical volume: %d more required",
				errNoExtents, left*int64(s.legs))
		}
		length := left
		for _, d := range chosen {
			length = min(length, d.largestRun().length-metadata)
		}
		for i, d := range chosen {
			if metadata > 0 {
				out.metadata = append(out.metadata, d.take(metadata))
			}
			out.legs[i] = append(out.legs[i], d.take(length))
		}
		left -= length
	}
	return out, nil
}

// largest returns the n disks with the largest free runs, if each has least extents in it.
func (g *group) largest(n int, least int64) []*disk {
	var usable []*disk
	for _, d := range g.disks {
		if !d.missing && !d.closed && d.largestRun().length >= least {
			usable = append(usable, d)
		}
	}
	if len(usable) < n {
		return nil
	}
	slices.SortStableFunc(usable, func(a, b *disk) int {
		return cmp.Compare(b.largestRun().length, a.largestRun().length)
	})
	return usable[:n]
}

// smallest returns the disk with the smallest run that holds n extents; LVM puts a
// pool's metadata there, away from the data.
func (g *group) smallest(n int64) *disk {
	candidates := g.largest(1, n)
	if candidates == nil {
		return nil
	}
	best := candidates[0]
	for _, d := range g.disks {
		if !d.missing && !d.closed && d.largestRun().length >= n && d.largestRun().length <= best.largestRun().length {
			best = d
		}
	}
	return best
}

func (g *group) release(p places) {
	for _, part := range p.all() {
		part.disk.giveBack(part)
	}
}

func (g *group) freeExtents() int64 {
	sum := int64(0)
	for _, d := range g.disks {
		if !d.missing && !d.closed {
			sum += d.freeExtents()
		}
	}
	return sum
}
