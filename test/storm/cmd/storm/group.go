package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/csi-local/csi-local/test/storm"
)

// setting is what storms have in common that differ in the seed only.
type setting struct {
	tracking       storm.Tracking
	withoutVolumes bool
	nodes, pods    int // pods for each node
	fill           int // percent
	rate           float64
	turns          int
}

func settingOf(r storm.Record) setting {
	return setting{r.Tracking, r.WithoutVolumes, r.Nodes, r.PodsPerNode, r.FillPercent, r.PodsPerSecond, r.Turns}
}

// baseline is the same pods without volumes.
func (s setting) baseline() setting {
	s.tracking, s.withoutVolumes, s.fill, s.turns = storm.Local, true, full, 0
	return s
}

// full is a fill of exactly all there is.
const full = 100

// figures are of one setting, one for each seed.
type figures []storm.Record

// results are all that was recorded.
type results struct {
	storms     map[setting]figures
	throughput *storm.ThroughputRecord // nil if there is none
}

// load reads all records of a folder.
func load(folder string) (results, error) {
	r := results{storms: map[setting]figures{}}
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return r, err
	}
	for _, path := range paths {
		if strings.TrimSuffix(filepath.Base(path), ".json") == throughputName {
			r.throughput = &storm.ThroughputRecord{}
			if err := read(path, r.throughput); err != nil {
				return r, err
			}
			continue
		}
		var record storm.Record
		if err := read(path, &record); err != nil {
			return r, err
		}
		r.storms[settingOf(record)] = append(r.storms[settingOf(record)], record)
	}
	if len(r.storms) == 0 && r.throughput == nil {
		return r, fmt.Errorf("%s has no records: %w", folder, fs.ErrNotExist)
	}
	// Rates and the number of turns are not in the names of the metrics.
	metrics := map[string]setting{}
	for s := range r.storms {
		if other, there := metrics[metricName(s)]; there && !s.withoutVolumes {
			return r, fmt.Errorf("%s: records of %+v and of %+v would be one metric", folder, s, other)
		}
		if !s.withoutVolumes {
			metrics[metricName(s)] = s
		}
	}
	return r, nil
}

func read(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return errors.Join(fmt.Errorf("%s is no record", path), err)
	}
	return nil
}

// spread is the median of several values, and the range of them.
type spread struct{ median, least, most float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return spread{median, sorted[0], sorted[len(sorted)-1]}
}

func (f figures) spread(value func(storm.Record) float64) spread {
	var values []float64
	for _, r := range f {
		values = append(values, value(r))
	}
	return spreadOf(values)
}

func (f figures) sum(value func(storm.Record) int) (sum int) {
	for _, r := range f {
		sum += value(r)
	}
	return sum
}

func (f figures) failedCreates() spread {
	return f.spread(func(r storm.Record) float64 { return float64(r.FailedCreates) })
}

func (f figures) seconds() spread {
	return f.spread(func(r storm.Record) float64 { return r.Seconds })
}

func (f figures) unbound() spread {
	return f.spread(func(r storm.Record) float64 { return float64(r.Pods - r.Bound) })
}

// timeRatio is how long it took until all pods were bound, against the median of
// the same pods without volumes; false if that is not known, or if not all were.
func (r results) timeRatio(s setting) (spread, bool) {
	base, f := r.storms[s.baseline()], r.storms[s]
	if len(base) == 0 || len(f) == 0 || base.unbound().most > 0 || f.unbound().most > 0 {
		return spread{}, false
	}
	without := base.seconds().median
	return f.spread(func(r storm.Record) float64 { return r.Seconds / without }), true
}

// pairs is local / stock, round by round.
func pairs(local, stock []float64) spread {
	var ratios []float64
	for i := range min(len(local), len(stock)) {
		ratios = append(ratios, local[i]/stock[i])
	}
	return spreadOf(ratios)
}

// settings are in the order in which they are shown: the smaller clusters first.
func (r results) settings() []setting {
	order := func(t storm.Tracking) int {
		return slices.Index([]storm.Tracking{storm.Local, storm.InTree, storm.None}, t)
	}
	var all []setting
	for s := range r.storms {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b setting) int {
		return cmp.Or(cmp.Compare(a.nodes*a.pods, b.nodes*b.pods), cmp.Compare(without(a), without(b)), cmp.Compare(a.rate, b.rate), cmp.Compare(a.turns, b.turns),
			cmp.Compare(a.fill, b.fill), cmp.Compare(order(a.tracking), order(b.tracking)))
	})
	return all
}

// without comes first.
func without(s setting) int {
	if s.withoutVolumes {
		return 0
	}
	return 1
}
