package schedplugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/csi-local/csi-local/pkg/capacity"
)

const (
	// ArgsAPIVersion and ArgsKind identify [LocalCapacityArgs]; both may be left
	// out in a scheduler configuration.
	ArgsAPIVersion = "csi-local.io/v1"
	ArgsKind       = Name + "Args"
)

// DefaultOversellRatio: what the node published, and no more.
const DefaultOversellRatio = 1.0

// LocalCapacityArgs configure the plugin; they stand under pluginConfig in the
// scheduler's configuration.
type LocalCapacityArgs struct {
	metav1.TypeMeta `json:",inline"`
	// DriverNames are the CSI drivers to keep books for; the default is
	// kubernetes.io.csi.local alone.
	DriverNames []string `json:"driverNames,omitempty"`
	// OversellRatio: used + requested ≤ oversellRatio × allocatable. From 0.001
	// to 1000 in steps of 0.001; the default is 1.
	OversellRatio *float64 `json:"oversellRatio,omitempty"`
	// Pools override OversellRatio for single pools, whichever driver they are of.
	Pools []PoolArgs `json:"pools,omitempty"`
	// ScoringStrategy says which of the nodes with enough room is preferred.
	ScoringStrategy *ScoringStrategy `json:"scoringStrategy,omitempty"`
}

// PoolArgs are for one pool, by name.
type PoolArgs struct {
	Name          string   `json:"name"`
	OversellRatio *float64 `json:"oversellRatio,omitempty"`
}

// ScoringStrategyType is Spread or Pack.
type ScoringStrategyType string

const (
	// Spread prefers the node that has the most bytes left.
	Spread ScoringStrategyType = "Spread"
	// Pack prefers the node that has the fewest bytes left.
	Pack ScoringStrategyType = "Pack"
)

// ScoringStrategy says which of the nodes with enough room is preferred.
type ScoringStrategy struct {
	// Type is Spread (the default) or Pack.
	Type ScoringStrategyType `json:"type,omitempty"`
	// Pools give pools a weight, for pods that want volumes of several; pools
	// that are not listed have weight 1.
	Pools []PoolWeight `json:"pools,omitempty"`
}

// PoolWeight is the weight of one pool, from 1 to 100.
type PoolWeight struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight,omitempty"`
}

// DeepCopyObject makes the arguments a runtime.Object.
func (a *LocalCapacityArgs) DeepCopyObject() runtime.Object {
	out := *a
	out.DriverNames = slices.Clone(a.DriverNames)
	out.OversellRatio = cloned(a.OversellRatio)
	out.Pools = slices.Clone(a.Pools)
	for i := range out.Pools {
		out.Pools[i].OversellRatio = cloned(a.Pools[i].OversellRatio)
	}
	out.ScoringStrategy = cloned(a.ScoringStrategy)
	if out.ScoringStrategy != nil {
		out.ScoringStrategy.Pools = slices.Clone(a.ScoringStrategy.Pools)
	}
	return &out
}

func cloned[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

// SetDefaults fills in what is not set.
func (a *LocalCapacityArgs) SetDefaults() {
	if len(a.DriverNames) == 0 {
		a.DriverNames = []string{capacity.DefaultDriverName}
	}
	if a.OversellRatio == nil {
		ratio := float64(DefaultOversellRatio)
		a.OversellRatio = &ratio
	}
	if a.ScoringStrategy == nil {
		a.ScoringStrategy = &ScoringStrategy{}
	}
	if a.ScoringStrategy.Type == "" {
		a.ScoringStrategy.Type = Spread
	}
	for i := range a.ScoringStrategy.Pools {
		if a.ScoringStrategy.Pools[i].Weight == 0 {
			a.ScoringStrategy.Pools[i].Weight = 1
		}
	}
}

// ratios are the oversell ratios by pool; the empty name stands for all others.
func (a *LocalCapacityArgs) ratios() map[string]float64 {
	ratios := map[string]float64{"": *a.OversellRatio}
	for _, p := range a.Pools {
		if p.OversellRatio != nil && *p.OversellRatio != *a.OversellRatio {
			ratios[p.Name] = *p.OversellRatio
		}
	}
	return ratios
}

func sameRatios(a, b map[string]float64) bool { return maps.Equal(a, b) }

// weights are the weights by pool of those that have one.
func (a *LocalCapacityArgs) weights() map[string]int64 {
	weights := map[string]int64{}
	for _, p := range a.ScoringStrategy.Pools {
		weights[p.Name] = p.Weight
	}
	return weights
}

// decodeArgs reads the arguments as the scheduler hands them to a plugin that
// is not in its tree: nil, or the bytes of the configuration file. Unknown and
// repeated fields are errors, so that a misspelt ratio is not silently 1.
func decodeArgs(object runtime.Object) (*LocalCapacityArgs, error) {
	args := &LocalCapacityArgs{}
	switch o := object.(type) {
	case nil:
	case *LocalCapacityArgs:
		args = o.DeepCopyObject().(*LocalCapacityArgs)
	case *runtime.Unknown:
		if err := decodeStrictly(o, args); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", Name, err)
		}
	default:
		return nil, fmt.Errorf("want args to be of type %s or runtime.Unknown, got %T", ArgsKind, object)
	}
	args.SetDefaults()
	if err := ValidateLocalCapacityArgs(nil, args); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", Name, err)
	}
	return args, nil
}

func decodeStrictly(unknown *runtime.Unknown, into *LocalCapacityArgs) error {
	if len(unknown.Raw) == 0 {
		return nil
	}
	data := unknown.Raw
	switch unknown.ContentType {
	case "", runtime.ContentTypeJSON:
	case runtime.ContentTypeYAML:
		converted, err := yaml.YAMLToJSONStrict(data)
		if err != nil {
			return err
		}
		data = converted
	default:
		return fmt.Errorf("content type %q is not supported", unknown.ContentType)
	}
	problems, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return err
	}
	return errors.Join(problems...)
}
