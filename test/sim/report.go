package sim

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Spread is the median and the range of a figure over several seeds.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// Summary is what a variant came to over several seeds.
type Summary struct {
	Variant         Variant `json:"variant"`
	FailedCreates   Spread  `json:"failedCreates"`
	OversoldPeakGiB Spread  `json:"oversoldPeakGiB"`
	Unbound         Spread  `json:"unbound"`
	Stuck           Spread  `json:"stuck"`
	// AllBoundSeconds is over the runs in which all pods were bound; nil if there
	// was none.
	AllBoundSeconds *Spread `json:"allBoundSeconds"`
	APIWrites       Spread  `json:"apiWrites"`
	TrackingWrites  Spread  `json:"trackingWrites"`
}

// Summarize sums up the results of one variant, of which there must be one.
func Summarize(results []Result) Summary {
	spread := func(of func(Result) float64) Spread {
		var values []float64
		for _, r := range results {
			values = append(values, of(r))
		}
		slices.Sort(values)
		return Spread{values[len(values)/2], values[0], values[len(values)-1]}
	}
	s := Summary{
		Variant:         results[0].Variant,
		FailedCreates:   spread(func(r Result) float64 { return float64(r.FailedCreates) }),
		OversoldPeakGiB: spread(func(r Result) float64 { return float64(r.OversoldPeakBytes) / float64(gib) }),
		Unbound:         spread(func(r Result) float64 { return float64(r.Pods - r.Bound) }),
		Stuck:           spread(func(r Result) float64 { return float64(r.Stuck) }),
		APIWrites:       spread(func(r Result) float64 { return float64(r.TotalWrites()) }),
		TrackingWrites:  spread(func(r Result) float64 { return float64(r.TrackingWrites()) }),
	}
	if results = slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !r.AllBound() }); len(results) > 0 {
		all := spread(func(r Result) float64 { return r.LastBoundSeconds })
		s.AllBoundSeconds = &all
	}
	return s
}

// Print writes the summaries as a table.
func Print(out io.Writer, summaries []Summary) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VARIANT\tFAILED CREATES\tOVERSOLD GiB\tUNBOUND\tSTUCK\tALL BOUND s\tAPI WRITES\tFOR TRACKING")
	for _, s := range summaries {
		all := "never"
		if s.AllBoundSeconds != nil {
			all = s.AllBoundSeconds.String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Variant, s.FailedCreates, s.OversoldPeakGiB, s.Unbound, s.Stuck, all, s.APIWrites, s.TrackingWrites)
	}
	return t.Flush()
}

// String is the median, and the range if there is one.
func (s Spread) String() string {
	if s.Least == s.Most {
		return fmt.Sprintf("%.0f", s.Median)
	}
	return fmt.Sprintf("%.0f (%.0f-%.0f)", s.Median, s.Least, s.Most)
}
